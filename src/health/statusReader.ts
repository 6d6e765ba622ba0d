import { monitorEventLoopDelay } from 'node:perf_hooks';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { packageVersion } from '../base/package.ts';
import { certificatesInUse } from '../config/certificatesInUse.ts';
import type { LiveConfig } from '../config/reload.ts';
import type { Limits } from '../limits/limits.ts';
import { environmentId } from '../manifest/manifest.ts';
import type { LastCheckpoint } from '../prove/trail/lastCheckpoint.ts';
import type { Scanner } from '../scan/scanner.ts';
import type { Fetching } from '../seal/fetching.ts';
import type { RefusedJobs } from '../seal/refusedJobs.ts';
import type { NodeOutlook } from '../seal/remoteSealer.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Signing } from '../seal/signing.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { Timestamping } from '../seal/timestamping.ts';
import type { Batch, Store } from '../store/store.ts';
import { isRefusedAs } from '../store/storeError.ts';
import type { Canary } from '../watch/canary.ts';
import type { Witnessing } from '../watch/witnessing.ts';
import type { EgressStatus } from '../web/egressClient.ts';
import type { TlsCertificates } from '../web/tls.ts';
import type { Deliverer } from '../webhook/deliver.ts';
import { judged } from './healthFindings.ts';
import { presentAcceptance } from './sections/acceptanceSection.ts';
import { presentCanary } from './sections/canarySection.ts';
import { presentCertificates } from './sections/certificatesSection.ts';
import {
  type CopiesSource,
  type HashSource,
  presentCopies,
  presentHash,
  presentSources,
} from './sections/documentsSection.ts';
import { presentEgress } from './sections/egressSection.ts';
import { presentLastCheckpoint } from './sections/logSection.ts';
import { presentNodes } from './sections/nodesSection.ts';
import { presentPartitions, type Withdrawals } from './sections/partitionsSection.ts';
import { presentQueue } from './sections/queueSection.ts';
import { type AdminQuotas, presentQuotas, storedQuotas } from './sections/quotasSection.ts';
import { presentScanner } from './sections/scannerSection.ts';
import { presentSealing } from './sections/sealingSection.ts';
import { presentTimestamps } from './sections/timestampsSection.ts';
import { measureStore, presentUpkeep } from './sections/upkeepSection.ts';
import { presentWebhooks } from './sections/webhooksSection.ts';
import { presentWitnesses } from './sections/witnessesSection.ts';
import type { AdminStatus } from './statusSchema.ts';

/** The sources of the status. The caller opens and closes each part. */
export interface StatusSources {
  store: Pick<
    Store,
    | 'identity'
    | 'log'
    | 'jobs'
    | 'copies'
    | 'credentials'
    | 'trail'
    | 'nodes'
    | 'pages'
    | 'space'
    | 'acceptances'
  >;
  live: Pick<LiveConfig, 'current' | 'loaded'>;
  sealer: Pick<Sealer, 'waiting'>;
  /** Undefined in a front. */
  signing:
    | {
        partitions: Pick<Signing, 'status' | 'epoch'>;
        drills: Withdrawals;
        canary: Pick<Canary, 'status'>;
      }
    | undefined;
  /** In a front: what it knows of the daemon that seals. */
  outlook?: () => NodeOutlook;
  /** Absent in a front. */
  refused?: Pick<RefusedJobs, 'count'>;
  timestamping: Timestamping | undefined;
  scanner: Pick<Scanner, 'health'> | undefined;
  sources: Pick<Fetching, 'status'>;
  egress: { readonly status: EgressStatus } | undefined;
  copies: CopiesSource;
  limits: Pick<Limits, 'usage'>;
  lastCheckpoint: Pick<LastCheckpoint, 'noted'>;
  witnessing: Pick<Witnessing, 'isForked' | 'status' | 'canCosign'> | undefined;
  /** The certificates of every listener that uses TLS. */
  tls: readonly Pick<TlsCertificates, 'table' | 'certificates'>[];
  webhooks: Pick<Deliverer, 'status'>;
  hash: HashSource;
  lifecycle: { readonly draining: boolean };
  time: Pick<Timekeeping, 'date' | 'ageMs'>;
}

/** Present in a front only. */
const NO_CANARY = {
  ready: true,
  detail: 'a front runs none',
  intervalMs: Number.POSITIVE_INFINITY,
  ageMsMax: Number.POSITIVE_INFINITY,
};
const NO_PARTITIONS = { quorum: 0, needed: 0, signing: 0, members: [] };

/** Facts that are read from the store. */
interface Told {
  head: Batch | undefined;
  copies: AdminStatus['copies'];
  measured: Awaited<ReturnType<typeof measureStore>>;
}

/** Interval of the event loop checks; the delay is the time between two checks. */
const TICK_MS = 10;

/** Reads the status of the daemon on request, and measures the delay of the event loop in between. */
export class StatusReader {
  readonly #sources: StatusSources;
  readonly #version = packageVersion();
  readonly #delay = monitorEventLoopDelay({ resolution: TICK_MS });
  #told: Told | undefined;

  constructor(sources: StatusSources) {
    this.#sources = sources;
    this.#delay.enable();
  }

  async read(): Promise<AdminStatus> {
    const { live, store, sealer, signing, outlook, refused, timestamping, scanner, witnessing } =
      this.#sources;
    const { file, sha256, stateDir, store: location, limits } = live.current;
    const { at, pending } = live.loaded;
    const now = systemClock();
    const egress = this.#sources.egress && presentEgress(this.#sources.egress.status);
    const waiting = sealer.waiting;
    const { head, copies, measured, answers } = await this.#readStore();
    const facts = {
      version: this.#version,
      node: process.version,
      environment: environmentId(store.identity.environment),
      pid: process.pid,
      started_at: toRfc3339(now - process.uptime() * 1000),
      uptime_seconds: Math.floor(process.uptime()),
      draining: this.#sources.lifecycle.draining,
      config: { file, sha256, loaded_at: toRfc3339(at), pending },
      canary: presentCanary(signing?.canary.status() ?? NO_CANARY, now),
      queue: presentQueue(waiting, limits.queueJobsMax),
      partitions: signing
        ? presentPartitions(signing.partitions, signing.partitions.epoch.quorum, signing.drills)
        : NO_PARTITIONS,
      ...(outlook && { sealing: presentSealing(outlook(), head?.sealedAt) }),
      ...(refused && { acceptance: presentAcceptance(store.acceptances, refused) }),
      ...(store.nodes && { nodes: presentNodes(store.nodes.others()) }),
      ...(timestamping && { timestamps: presentTimestamps(timestamping) }),
      ...(witnessing && { witnesses: presentWitnesses(witnessing) }),
      ...(scanner && { scanner: presentScanner(scanner.health()) }),
      egress,
      sources: presentSources(this.#sources.sources),
      copies,
      certificates: presentCertificates(certificatesInUse(live.current), this.#sources.tls, now),
      webhooks: presentWebhooks(await this.#sources.webhooks.status(), now),
      audit: { unsealed: waiting.auditRecords },
      log: {
        origin: store.identity.logOrigin,
        tree_size: head?.treeSize ?? 0,
        ...(head && { sealed_at: toRfc3339(head.sealedAt) }),
      },
      witness: presentLastCheckpoint(this.#sources.lastCheckpoint.noted),
      upkeep: presentUpkeep(stateDir, location, timestamping !== undefined),
      store: { ...measured, answers },
      hash: presentHash(this.#sources.hash),
      event_loop_delay_ms: this.#readDelay(),
    };
    return judged(facts, now);
  }

  quotas(): AdminQuotas {
    return presentQuotas(this.#sources.limits.usage(), systemClock());
  }

  /** For every client with a key, its jobs as counted by the store. */
  storedQuotas(): ReturnType<typeof storedQuotas> {
    const { store, live, time } = this.#sources;
    return storedQuotas(store, live.current.policies, time.date());
  }

  close(): void {
    this.#delay.disable();
  }

  /** The facts of the store; while its database does not answer, the last ones. */
  async #readStore(): Promise<Told & { answers: boolean }> {
    const { live, store } = this.#sources;
    const { store: location, diskDir, storage } = live.current;
    try {
      this.#told = {
        head: await store.log.head(),
        copies: await this.#readCopies(),
        measured: await measureStore({
          ...{ location, diskDir, pages: store.pages, space: store.space },
          storeFreeBytesMin: storage.freeBytesMin,
        }),
      };
      return { ...this.#told, answers: true };
    } catch (error) {
      const isAway = isRefusedAs('database_away', error) || error instanceof OperatorError;
      if (!isAway || this.#told === undefined) throw error;
      return { ...this.#told, answers: false };
    }
  }

  async #readCopies(): Promise<AdminStatus['copies']> {
    const { copies, live } = this.#sources;
    const { retention, pdf } = live.current;
    const bytesMax = pdf.attach ? pdf.spoolBytesMax : undefined;
    const oldestMs = await this.#ageOfOldestCopy();
    return presentCopies(copies.usage, { oldestMs, keptMs: retention.documentMs, bytesMax });
  }

  /** The ids of jobs sort by acceptance, unless the clock was set back. */
  async #ageOfOldestCopy(): Promise<number> {
    const { store, time } = this.#sources;
    for await (const { jobId } of store.copies.all()) {
      const record = await store.jobs.get(jobId);
      return record === undefined ? 0 : time.ageMs(record.job);
    }
    return 0;
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
