import type { Clock } from '../../base/clock.ts';
import type { Content, Failure, Job, JobRecord } from '../../job/job.ts';
import type { Epoch, Epochs } from '../../log/epochs.ts';
import type { Act } from '../../manifest/auditRecord.ts';
import type { Room } from '../diskSpace.ts';
import type { ServiceTime } from '../serviceTime.ts';
import type {
  Acceptance,
  Batch,
  Credential,
  IdempotencyEntry,
  IdempotencyKey,
  IndexFlaw,
  JobCopy,
  JobPage,
  JobQuery,
  Leaf,
  QuotaCount,
  Reference,
  RepairOptions,
  SealedBatch,
  Store,
  StoredCopy,
  StoreIdentity,
} from '../store.ts';
import { Commits } from './commits.ts';
import { Copies } from './copyRecords.ts';
import { Credentials } from './credentials.ts';
import type { Databases } from './databases.ts';
import { EpochRecords } from './epochRecords.ts';
import { IdempotencyEntries } from './idempotencyEntries.ts';
import { identityChange } from './identity.ts';
import { checkIndexes } from './indexCheck.ts';
import { Jobs } from './jobRecords.ts';
import { Log } from './logRecords.ts';
import { QuotaCounts } from './quotaCounts.ts';
import { LmdbServiceTime, type ServiceTimeOptions } from './serviceTimeRecord.ts';
import { Settlements } from './settlements.ts';
import { TrailRecords } from './trailRecords.ts';
import { LmdbWebhooks } from './webhookRecords.ts';

interface LmdbOptions extends ServiceTimeOptions {
  backlogMax: number;
  room: Room | undefined;
}

/** The embedded store: one LMDB environment, one writing process, any number of readers. Made by `lmdb.ts`. */
export class LmdbStore implements Store {
  readonly identity: StoreIdentity;
  readonly webhooks: LmdbWebhooks;
  readonly trail: TrailRecords;
  readonly serviceTime: ServiceTime;
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #jobs: Jobs;
  readonly #settlements: Settlements;
  readonly #idempotency: IdempotencyEntries;
  readonly #quotas: QuotaCounts;
  readonly #log: Log;
  readonly #copies: Copies;
  readonly #epochs: EpochRecords;
  readonly #credentials: Credentials;
  readonly #clock: Clock;

  constructor(databases: Databases, identity: StoreIdentity, options: LmdbOptions) {
    this.identity = identity;
    this.#clock = options.clock;
    this.#databases = databases;
    this.#commits = new Commits(databases.root, { room: options.room });
    this.serviceTime = new LmdbServiceTime(databases, this.#commits, options);
    this.#idempotency = new IdempotencyEntries(databases, this.serviceTime);
    this.#quotas = new QuotaCounts(databases);
    this.#copies = new Copies(databases, this.#commits);
    const beside = { idempotency: this.#idempotency, quotas: this.#quotas, copies: this.#copies };
    this.#jobs = new Jobs(databases, this.#commits, beside);
    this.#log = new Log(databases);
    this.trail = new TrailRecords(databases, this.#commits, {
      environment: identity.environment,
      clock: options.clock,
      accept: (job, releaseKey) => this.#jobs.changesFor(job, releaseKey),
    });
    this.#epochs = new EpochRecords(databases, this.trail);
    this.webhooks = new LmdbWebhooks(databases, this.#commits, this.trail, {
      ...options,
      serviceTime: this.serviceTime,
    });
    const { outbox } = this.webhooks;
    const epochs = this.#epochs;
    this.#settlements = new Settlements(databases, this.#commits, this.#log, { ...beside, outbox, epochs });
    this.#credentials = new Credentials(databases, this.trail);
  }

  async accept(job: Job, acceptance: Acceptance = {}): Promise<void> {
    return this.#intact(this.#jobs).accept(job, acceptance);
  }

  async receive(jobId: string, content: Content, copy?: StoredCopy): Promise<void> {
    return this.#intact(this.#settlements).receive(jobId, content, copy);
  }

  async copy(jobId: string): Promise<StoredCopy | undefined> {
    return this.#intact(this.#copies).get(jobId);
  }

  async forgetCopies(jobIds: readonly string[]): Promise<void> {
    return this.#intact(this.#copies).forget(jobIds);
  }

  copies(): AsyncIterable<JobCopy> {
    return this.#intact(this.#copies).all();
  }

  async sourceUrl(jobId: string): Promise<string | undefined> {
    return this.#intact(this.#jobs).sourceUrl(jobId);
  }

  async waiting(limit: number, after?: string): Promise<Job[]> {
    return this.#intact(this.#jobs).waiting(limit, after);
  }

  async waitingCount(): Promise<number> {
    return this.#intact(this.#jobs).waitingCount();
  }

  async commitBatch(batch: SealedBatch): Promise<boolean> {
    return this.#intact(this.#settlements).commitBatch(batch);
  }

  async fail(jobId: string, failure: Failure, { releaseKey = false } = {}): Promise<void> {
    return this.#intact(this.#settlements).fail(jobId, failure, releaseKey);
  }

  async job(jobId: string): Promise<JobRecord | undefined> {
    return this.#intact(this.#jobs).record(jobId);
  }

  async list(query: JobQuery): Promise<JobPage> {
    return this.#intact(this.#jobs).list(query);
  }

  async idempotency(key: IdempotencyKey): Promise<IdempotencyEntry | undefined> {
    return this.#intact(this.#idempotency).get(key);
  }

  async sweepIdempotency(before: number, limit: number): Promise<number> {
    return this.#intact(this.#settlements).sweepIdempotency(before, limit);
  }

  async quotaCounts(): Promise<QuotaCount[]> {
    return this.#intact(this.#quotas).all();
  }

  async sweepQuotas(epochMs: number, limit: number): Promise<number> {
    return this.#intact(this.#settlements).sweepQuotas(epochMs, limit);
  }

  async head(): Promise<Batch | undefined> {
    return this.#intact(this.#log).head();
  }

  async batchOf(leafIndex: number): Promise<Batch | undefined> {
    return this.#intact(this.#log).batchOf(leafIndex);
  }

  async batchAt(treeSize: number): Promise<Batch | undefined> {
    return this.#intact(this.#log).batchAt(treeSize);
  }

  async leaves(from: number, to: number): Promise<Leaf[]> {
    return this.#intact(this.#log).leaves(from, to);
  }

  async tile(level: number, index: number): Promise<Uint8Array | undefined> {
    return this.#intact(this.#log).tile(level, index);
  }

  jobs(): AsyncIterable<JobRecord> {
    return this.#intact(this.#jobs).all();
  }

  references(): AsyncIterable<Reference> {
    return this.#intact(this.#jobs).references();
  }

  async *checkIndexes(): AsyncIterable<IndexFlaw> {
    for await (const flaws of checkIndexes(this.#databases, this.#commits, this.#clock())) yield* flaws;
  }

  async repair({ backup, onMended, isGood }: RepairOptions): Promise<boolean> {
    const mark = this.identity.repair ?? { begunAt: this.#clock(), ...(backup !== undefined && { backup }) };
    const identity = { ...this.identity, repair: mark };
    await this.#commits.write({ changes: [identityChange(this.#databases, identity)] });
    for await (const flaws of checkIndexes(this.#databases, this.#commits, this.#clock())) {
      await this.#commits.write({ changes: flaws.map(({ change }) => change) });
      for (const flaw of flaws) onMended(flaw);
    }
    if (!(await isGood())) return false;
    const { repair: _, ...whole } = identity;
    await this.#commits.write({ changes: [identityChange(this.#databases, whole)] });
    return true;
  }

  async epochs(): Promise<Epochs> {
    return this.#intact(this.#epochs).newest();
  }

  async changeEpochs(list: readonly Epoch[], revision: number, act: Act | null): Promise<boolean> {
    return this.#intact(this.#epochs).change(list, revision, act);
  }

  async credential(keyHash: string): Promise<Credential | undefined> {
    return this.#intact(this.#credentials).get(keyHash);
  }

  async credentials(): Promise<Credential[]> {
    return this.#intact(this.#credentials).all();
  }

  async putCredential(credential: Credential, act: Act | null): Promise<void> {
    return this.#intact(this.#credentials).put([credential], act);
  }

  async putCredentials(credentials: Credential[], act: Act | null): Promise<void> {
    return this.#intact(this.#credentials).put(credentials, act);
  }

  async close(): Promise<void> {
    await this.#commits.idle();
    await this.#databases.root.close();
  }

  /** After a commit of unknown outcome nothing may be read or written: what memory says may not be what the disk says. */
  #intact<Part>(part: Part): Part {
    this.#commits.assertIntact();
    return part;
  }
}
