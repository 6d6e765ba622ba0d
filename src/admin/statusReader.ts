import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describeSubject } from '../asn1/certificate.ts';
import { type Clock, toTimestamp } from '../base/clock.ts';
import { packageVersion } from '../base/version.ts';
import type { Canary, CanaryRun, CanaryStatus } from '../canary.ts';
import type { PartitionStatus } from '../kms/partition.ts';
import type { Partitions } from '../kms/partitions.ts';
import { encodeQuorum, type QuorumPolicy } from '../log/quorum.ts';
import { environmentId } from '../manifest/manifest.ts';
import { kmsKeyId } from '../manifest/receipt.ts';
import type { Scanner, ScannerHealth } from '../scan/scanner.ts';
import type { Sealer } from '../sealer.ts';
import type { Store } from '../store/store.ts';
import type { Timestamping } from '../timestamping.ts';
import {
  type CertificateEntry,
  type CertificateSources,
  daysLeft,
  listCertificates,
  validityOf,
} from '../tsa/expiry.ts';
import type { Deliverer, WebhookStatus } from '../webhook/deliver.ts';
import type { Drills } from './drills.ts';
import { readinessOf } from './readiness.ts';
import type {
  AdminStatus,
  PresentedCertificate,
  PresentedPartition,
  PresentedRun,
  PresentedTimestamps,
} from './status.ts';

/** What the status is read from; each part is opened and closed by the caller. */
export interface StatusSources {
  store: Pick<Store, 'identity' | 'head'>;
  storeDir: string;
  sealer: Pick<Sealer, 'waiting'>;
  partitions: Pick<Partitions, 'status' | 'canSign'>;
  /** Of the epoch in force. */
  quorum(): QuorumPolicy;
  drills: Pick<Drills, 'returnsAt'>;
  timestamping: Timestamping | undefined;
  scanner: Pick<Scanner, 'health'> | undefined;
  certificates: CertificateSources;
  canary: Pick<Canary, 'status'>;
  webhooks: Pick<Deliverer, 'status'>;
  queueJobsMax(): number;
  storeFreeBytesMin: number;
  hash: { engine: string; workers: number };
  lifecycle: { readonly draining: boolean };
  clock: Clock;
}

/** How often the event loop is looked at; what is measured is the time between two looks. */
const TICK_MS = 10;

/** Reads the status of the daemon, now and again; measures the event loop's delay in between. */
export class StatusReader {
  readonly #sources: StatusSources;
  readonly #version = packageVersion();
  readonly #delay = monitorEventLoopDelay({ resolution: TICK_MS });

  constructor(sources: StatusSources) {
    this.#sources = sources;
    this.#delay.enable();
  }

  async read(): Promise<AdminStatus> {
    const { store, storeDir, sealer, partitions, timestamping, scanner, canary, hash, clock } = this.#sources;
    const quorum = this.#sources.quorum();
    const now = clock();
    const { phases, oldestAcceptedAt = now } = sealer.waiting;
    const head = await store.head();
    const status = {
      version: this.#version,
      node: process.version,
      environment: environmentId(store.identity.environment),
      pid: process.pid,
      started_at: toTimestamp(now - process.uptime() * 1000),
      uptime_seconds: Math.floor(process.uptime()),
      draining: this.#sources.lifecycle.draining,
      canary: presentCanary(canary.status(), now),
      queue: {
        ...phases,
        jobs_max: this.#sources.queueJobsMax(),
        oldest_age_seconds: ageSeconds(oldestAcceptedAt, now),
      },
      partitions: {
        quorum: encodeQuorum(quorum),
        needed: quorum.needed,
        members: partitions.status().map((member) => this.#presentPartition(member)),
      },
      ...(timestamping && { timestamps: presentTimestamps(timestamping) }),
      ...(scanner && { scanner: presentScanner(scanner.health()) }),
      certificates: listCertificates(this.#sources.certificates).map((entry) =>
        presentCertificate(entry, now),
      ),
      webhooks: presentWebhooks(await this.#sources.webhooks.status(), now),
      log: {
        origin: store.identity.logOrigin,
        tree_size: head?.treeSize ?? 0,
        ...(head && { sealed_at: toTimestamp(head.sealedAt) }),
      },
      store: await measureStore(storeDir, this.#sources.storeFreeBytesMin),
      hash,
      event_loop_delay_ms: this.#readDelay(),
    };
    const parts = readinessOf({ ...status, can_sign: partitions.canSign() });
    return { ...status, ready: parts.every(({ ready }) => ready), parts };
  }

  close(): void {
    this.#delay.disable();
  }

  #presentPartition(status: PartitionStatus): PresentedPartition {
    const { region, keyLabel, since, lastError, ...others } = status;
    const name = kmsKeyId({ region, keyLabel });
    const returnsAt = this.#sources.drills.returnsAt(name);
    return {
      name,
      since: toTimestamp(since),
      ...others,
      ...(lastError !== undefined && { last_error: lastError }),
      ...(returnsAt !== undefined && { returns_at: toTimestamp(returnsAt) }),
    };
  }

  #readDelay(): AdminStatus['event_loop_delay_ms'] {
    const [p50 = 0, p99 = 0, max = 0] = [
      this.#delay.percentile(50),
      this.#delay.percentile(99),
      this.#delay.max,
    ].map((ns) => Math.max(0, Math.round(ns / 1e4 - 100 * TICK_MS) / 100));
    this.#delay.reset();
    return { p50, p99, max };
  }
}

export function presentRun(run: CanaryRun, now: number): PresentedRun {
  return {
    verified: run.verified,
    started_at: toTimestamp(run.startedAt),
    age_seconds: ageSeconds(run.startedAt, now),
    duration_ms: Math.round(run.durationMs),
    detail: run.detail,
    ...(run.jobId !== undefined && { job_id: run.jobId }),
    ...(run.leafIndex !== undefined && { leaf_index: run.leafIndex }),
    signers: run.signers,
  };
}

function presentCanary(status: CanaryStatus, now: number): AdminStatus['canary'] {
  const { ready, detail, intervalMs, newest, verified } = status;
  return {
    ready,
    detail,
    interval_seconds: intervalMs / 1000,
    ...(newest && { newest: presentRun(newest, now) }),
    ...(verified && { last_verified: presentRun(verified, now) }),
  };
}

function presentScanner({ trouble, detail }: ScannerHealth): { trouble?: string; detail: string } {
  return { ...(trouble !== undefined && { trouble }), detail };
}

function presentTimestamps(timestamping: Timestamping): PresentedTimestamps {
  const { clock, authorities, units } = timestamping.status();
  const { errorBoundMs, ...others } = clock;
  return {
    can_stamp: timestamping.canStamp(),
    clock: { ...others, ...(errorBoundMs !== undefined && { error_bound_ms: errorBoundMs }) },
    authorities: authorities.map(({ notAfter: _, ...authority }) => authority),
    units: units.map(({ authority: subject, ready }) => ({ subject, ready })),
  };
}

export function presentCertificate(entry: CertificateEntry, now: number): PresentedCertificate {
  const { authority, role, found } = entry;
  const state = validityOf(entry, now);
  if ('missing' in found) return { authority, role, state, detail: found.missing };
  return {
    authority,
    role,
    state,
    subject: describeSubject(found),
    not_after: toTimestamp(found.notAfter),
    days_left: daysLeft(found, now),
  };
}

function presentWebhooks(status: WebhookStatus, now: number): AdminStatus['webhooks'] {
  const { endpoints, disabled, failing, pending, delivered, dropped } = status;
  return {
    endpoints,
    disabled,
    failing,
    in_flight: status.inFlight,
    pending,
    oldest_due_age_seconds: ageSeconds(status.oldestDueAt ?? now, now),
    dead_letters: status.deadLetters,
    delivered,
    failed_attempts: status.failures,
    dropped,
  };
}

/** Bytes the store takes on disk, and what is left of the disk it is on. */
export async function measureStore(path: string, freeBytesMin: number): Promise<AdminStatus['store']> {
  const [{ size }, disk] = await Promise.all([stat(join(path, 'data.mdb')), statfs(path)]);
  return {
    path,
    bytes: size,
    disk_free_bytes: disk.bavail * disk.bsize,
    disk_free_bytes_min: freeBytesMin,
    disk_bytes: disk.blocks * disk.bsize,
  };
}

function ageSeconds(since: number, now: number): number {
  return Math.max(0, Math.round((now - since) / 1000));
}
