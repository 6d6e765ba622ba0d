import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { packageVersion } from '../base/package.ts';
import type { Copies } from '../copy/copies.ts';
import type { KernelRate } from '../hash/calibrate.ts';
import type { HashPool } from '../hash/pool.ts';
import type { PartitionStatus } from '../kms/partition.ts';
import type { Partitions } from '../kms/partitions.ts';
import type { Limits } from '../limits/limits.ts';
import { countOf, encodeQuorum, type QuorumPolicy } from '../log/quorum.ts';
import { kmsKeyId } from '../log/verifierKey.ts';
import { environmentId } from '../manifest/manifest.ts';
import type { TlsCertificates } from '../net/tls.ts';
import type { Witness } from '../prove/witnessFile.ts';
import type { Scanner } from '../scan/scanner.ts';
import type { Fetching } from '../seal/fetching.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { Timestamping } from '../seal/timestamping.ts';
import type { Store } from '../store/store.ts';
import { type CertificateSources, listCertificates } from '../tsa/certificateList.ts';
import type { Canary } from '../watch/canary.ts';
import { readUpkeep } from '../watch/upkeepNotes.ts';
import type { Deliverer } from '../webhook/deliver.ts';
import type { Drills } from './drills.ts';
import {
  presentCanary,
  presentCertificate,
  presentCopies,
  presentKernels,
  presentQueue,
  presentQuotas,
  presentScanner,
  presentTimestamps,
  presentTlsCertificate,
  presentWebhooks,
  presentWitness,
} from './presentStatus.ts';
import { readinessOf } from './readiness.ts';
import type { AdminQuotas, AdminStatus, PresentedCertificate, PresentedPartition } from './statusSchema.ts';

/** What the status is read from; each part is opened and closed by the caller. */
export interface StatusSources {
  store: Pick<Store, 'identity' | 'log' | 'jobs' | 'copies' | 'trail'>;
  stateDir: string;
  storeDir: string;
  sealer: Pick<Sealer, 'waiting'>;
  partitions: Pick<Partitions, 'status' | 'canSign'>;
  /** Of the epoch in force. */
  quorum(): QuorumPolicy;
  drills: Pick<Drills, 'returnsAt'>;
  timestamping: Timestamping | undefined;
  scanner: Pick<Scanner, 'health'> | undefined;
  sources: Pick<Fetching, 'status'>;
  copies: Pick<Copies, 'usage'>;
  /** How long copies are kept. */
  documentRetentionMs: number;
  limits: Pick<Limits, 'usage'>;
  witness: Pick<Witness, 'noted'>;
  certificates: CertificateSources;
  tls: Pick<TlsCertificates, 'certificates'> | undefined;
  canary: Pick<Canary, 'status'>;
  webhooks: Pick<Deliverer, 'status'>;
  queueJobsMax(): number;
  config(): AdminStatus['config'];
  storeFreeBytesMin: number;
  hash: { engine: string; kernels: readonly KernelRate[]; workers: number; pool: Pick<HashPool, 'load'> };
  lifecycle: { readonly draining: boolean };
  time: Pick<Timekeeping, 'ageMs'>;
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
    const { store, storeDir, sealer, partitions, timestamping, scanner, canary, clock } = this.#sources;
    const quorum = this.#sources.quorum();
    const now = clock();
    const waiting = sealer.waiting;
    const head = await store.log.head();
    const status = {
      version: this.#version,
      node: process.version,
      environment: environmentId(store.identity.environment),
      pid: process.pid,
      started_at: toRfc3339(now - process.uptime() * 1000),
      uptime_seconds: Math.floor(process.uptime()),
      draining: this.#sources.lifecycle.draining,
      config: this.#sources.config(),
      canary: presentCanary(canary.status(), now),
      queue: {
        ...presentQueue(waiting),
        jobs_max: this.#sources.queueJobsMax(),
      },
      partitions: {
        quorum: encodeQuorum(quorum),
        needed: quorum.needed,
        signing: countOf(
          quorum,
          partitions.status().filter(({ state }) => state === 'ready'),
        ),
        members: partitions.status().map((member) => this.#presentPartition(member)),
      },
      ...(timestamping && { timestamps: presentTimestamps(timestamping) }),
      ...(scanner && { scanner: presentScanner(scanner.health()) }),
      sources: this.#readSources(),
      copies: await this.#readCopies(),
      certificates: this.#readCertificates(now),
      webhooks: presentWebhooks(await this.#sources.webhooks.status(), now),
      audit: { unsealed: waiting.auditRecords },
      log: {
        origin: store.identity.logOrigin,
        tree_size: head?.treeSize ?? 0,
        ...(head && { sealed_at: toRfc3339(head.sealedAt) }),
      },
      witness: presentWitness(this.#sources.witness.noted),
      upkeep: this.#readUpkeep(),
      store: await measureStore(storeDir, this.#sources.storeFreeBytesMin),
      hash: this.#readHash(),
      event_loop_delay_ms: this.#readDelay(),
    };
    const parts = readinessOf({ ...status, can_sign: partitions.canSign() });
    return { ...status, ready: parts.every(({ ready }) => ready), parts };
  }

  quotas(): AdminQuotas {
    const { limits, clock } = this.#sources;
    return presentQuotas(limits.usage(), clock());
  }

  close(): void {
    this.#delay.disable();
  }

  #readSources(): AdminStatus['sources'] {
    const { underWay, queued, paused } = this.#sources.sources.status();
    return { under_way: underWay, queued, paused };
  }

  async #readCopies(): Promise<AdminStatus['copies']> {
    const { copies, documentRetentionMs: keptMs } = this.#sources;
    return presentCopies(copies.usage, { oldestMs: await this.#ageOfOldestCopy(), keptMs });
  }

  /** By the order of ids, which is that of acceptance as long as nobody sets the clock. */
  async #ageOfOldestCopy(): Promise<number> {
    const { store, time } = this.#sources;
    for await (const { jobId } of store.copies.all()) {
      const record = await store.jobs.get(jobId);
      return record === undefined ? 0 : time.ageMs(record.job);
    }
    return 0;
  }

  #readCertificates(now: number): PresentedCertificate[] {
    const { certificates, tls } = this.#sources;
    return [
      ...(tls?.certificates ?? []).map((one) => presentTlsCertificate(one, now)),
      ...listCertificates(certificates).map((entry) => presentCertificate(entry, now)),
    ];
  }

  #readUpkeep(): AdminStatus['upkeep'] {
    const backup = readUpkeep(this.#sources.stateDir, 'backup');
    const check = readUpkeep(this.#sources.stateDir, 'check');
    const drill = readUpkeep(this.#sources.stateDir, 'restore-drill');
    return { ...(backup && { backup }), ...(check && { check }), ...(drill && { restore_drill: drill }) };
  }

  #readHash(): AdminStatus['hash'] {
    const { engine, kernels, workers, pool } = this.#sources.hash;
    const { documents, pendingBytes, tasks, tasksMax } = pool.load;
    return {
      engine,
      kernels: presentKernels(kernels),
      workers,
      documents,
      pending_bytes: pendingBytes,
      tasks,
      tasks_max: tasksMax,
    };
  }

  #presentPartition(status: PartitionStatus): PresentedPartition {
    const { region, keyLabel, since, lastError, ...others } = status;
    const name = kmsKeyId({ region, keyLabel });
    const returnsAt = this.#sources.drills.returnsAt(name);
    return {
      name,
      since: toRfc3339(since),
      ...others,
      ...(lastError !== undefined && { last_error: lastError }),
      ...(returnsAt !== undefined && { returns_at: toRfc3339(returnsAt) }),
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
