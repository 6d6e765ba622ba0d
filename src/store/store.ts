import type { Content, Failure, Job, JobRecord, QuotaWindow, Visibility } from '../job/job.ts';
import type { Epoch, Epochs } from '../log/epochs.ts';
import type { Tile } from '../log/tiles.ts';
import type { Act } from '../manifest/auditRecord.ts';
import type { ArrivalStore, SealingView } from './arrivals.ts';
import type { CredentialStore } from './credentialStore.ts';
import type { IndexStore, RepairMark } from './indexStore.ts';
import type { Nodes } from './nodes.ts';
import type { RenewalStore } from './renewalStore.ts';
import type { ServiceTime } from './serviceTime.ts';
import type { StoreMove } from './storeMove.ts';
import type { TrailStore } from './trail.ts';
import type { WebhookStore } from './webhookStore.ts';
import type { WitnessStore } from './witnessStore.ts';

/**
 * The contract every store keeps, in groups; each group is one object. `test/store/contract.ts` is its executable form: an
 * implementation is done when it passes. Two rules hold for every method of every group:
 *
 * - A write resolves only after it is on disk and survives power loss. No reader sees any part of it before that. A rejected write left
 *   nothing behind; if the store cannot know that, it throws {@link UnknownOutcome} from then on and the process must end.
 * - Values are returned as they were given, strings code unit for code unit.
 *
 * One process writes jobs and batches. Credentials, epochs, webhook endpoints, renewals and audit records may be written by another process at any
 * time, and the next read sees them. Such a change is recorded in the audit trail as the act it is, in the same transaction; `null`
 * stands for a change that is nobody's act.
 */
export interface Store {
  readonly identity: StoreIdentity;
  readonly jobs: JobStore;
  readonly copies: CopyStore;
  readonly log: LogStore;
  readonly epochs: EpochStore;
  readonly credentials: CredentialStore;
  readonly webhooks: WebhookStore;
  readonly trail: TrailStore;
  readonly witnessing: WitnessStore;
  readonly renewals: RenewalStore;
  /** Shared by everything durable that has a time. */
  readonly serviceTime: ServiceTime;
  readonly indexes: IndexStore;
  /** Of the embedded store. */
  readonly pages?: StorePages;
  /** Of a database. */
  readonly space?: StoreSpace;
  /** Where fronts share the store: in the daemon that seals. */
  readonly arrivals?: ArrivalStore;
  /** In a front. */
  readonly sealing?: SealingView;
  /** Where daemons share the store: in each of them. */
  readonly nodes?: Nodes;

  close(): Promise<void>;
}

/** Whether the disk of a database has space, as far as it has told this process. */
export interface StoreSpace {
  readonly isFull: boolean;
  /** Throws ServiceError `storage_full` while there is no space. */
  admit(): void;
}

/** The pages of the file that the embedded store is. */
export interface StorePages {
  /** How they are used just now. */
  read(): PageReport;
}

export interface PageReport {
  /** In pages that hold nothing, and can be used again once nobody reads what was in them. */
  freeBytes: number;
  /** Absent while every reader reads what is newest. */
  oldestReader?: {
    pid: number;
    /** Milliseconds for which a newer state has been there, as far as earlier readings saw. */
    ageMs: number;
  };
}

/** Jobs, and what is written together with them: idempotency entries and the counts of quotas. */
export interface JobStore {
  /**
   * One transaction: the job, its indexes, one more job on the count of its quota, and `acceptance`. Throws BrokenInvariant and writes
   * nothing when the job is in the store already, when it has both content and a source URL or neither, or when another job that did
   * not fail holds its idempotency key.
   */
  accept(job: Job, acceptance?: Acceptance): Promise<void>;

  /**
   * One transaction: the content of a job that was accepted without, and the copy of its document if there is one; the source URL is
   * removed. Throws BrokenInvariant and writes nothing when the job is unknown, has content, or has an outcome.
   */
  receive(jobId: string, content: Content, copy?: StoredCopy): Promise<void>;

  /**
   * One transaction: the outcome `failed`, and what webhook endpoints are to be told; the source URL is removed. Throws BrokenInvariant
   * and writes nothing when the job is unknown or has an outcome.
   */
  fail(jobId: string, failure: Failure): Promise<void>;

  get(jobId: string): Promise<JobRecord | undefined>;

  /** Jobs the viewer may see, newest first. The work of one call is bounded, whatever the filters and the size of the store. */
  list(query: JobQuery): Promise<JobPage>;

  /** Every job, in the order of ids, for checks and exports. */
  all(): AsyncIterable<JobRecord>;

  /** Jobs without an outcome, in the order of their ids, after `after` (exclusive), at most `limit`. */
  waiting(limit: number, after?: string): Promise<Job[]>;

  /** How many jobs have no outcome. */
  waitingCount(): Promise<number>;

  /** The URL to fetch the document of a job from; undefined once its content is there or the job failed. */
  sourceUrl(jobId: string): Promise<string | undefined>;

  /** The entry of that key, unless it is older than its retention. */
  idempotency(key: IdempotencyKey): Promise<IdempotencyEntry | undefined>;

  /** Removes entries accepted before that service time, at most `limit` per call; returns how many. */
  sweepIdempotency(before: number, limit: number): Promise<number>;

  /** How many jobs count against each quota, in every window that was not swept. */
  quotaCounts(): Promise<QuotaCount[]>;

  /** Removes the counts of windows that ended before `epochMs`, at most `limit` per call; returns how many. */
  sweepQuotas(epochMs: number, limit: number): Promise<number>;

  /** Everything kept beside the records of jobs that follows from nothing else, in no order, for checks. */
  references(): AsyncIterable<JobReference>;
}

/** Where the copies of sealed documents are. */
export interface CopyStore {
  /** Undefined where no copy was made, and once it is forgotten. */
  get(jobId: string): Promise<StoredCopy | undefined>;

  /** Every copy, in the order of job ids. */
  all(): AsyncIterable<JobCopy>;

  /** Forgets the copies of these jobs, in one transaction; jobs without a copy are passed over. */
  forget(jobIds: readonly string[]): Promise<void>;
}

/** The transparency log. */
export interface LogStore {
  /**
   * One transaction: leaves, tiles, the batch, the outcome `sealed` of every job in it, what the webhook endpoints of their clients
   * are to be told, and, of jobs that are not in the store yet, all that {@link JobStore.accept} writes. Throws BrokenInvariant and
   * writes nothing when the log's size is not `batch.firstLeaf`, when a job in the batch is unknown, has no content, or has an outcome,
   * or when a new one could not be accepted. Returns false and writes nothing when the epochs were changed since
   * `batch.epochsRevision`: the rule under which the batch was drafted may be out of force. While a batch is announced, it throws
   * BrokenInvariant for any other, and commits that one whatever became of the epochs.
   */
  commit(batch: SealedBatch): Promise<boolean>;

  /**
   * Before witnesses see its checkpoint: this batch is the next to be committed. Its jobs are in the store. Throws BrokenInvariant and
   * writes nothing when the log's size is not `batch.firstLeaf`, or when another batch is announced. Returns false and writes nothing
   * when the epochs were changed since `batch.epochsRevision`.
   */
  announce(batch: AnnouncedBatch): Promise<boolean>;

  /** The batch that was announced, until it is committed. */
  announced(): Promise<AnnouncedBatch | undefined>;

  /** The newest batch; undefined for an empty log. */
  head(): Promise<Batch | undefined>;

  /** The batch that holds this leaf. */
  batchOf(leafIndex: number): Promise<Batch | undefined>;

  /** When the batch that holds this leaf was sealed, milliseconds since the epoch. */
  sealedAt(leafIndex: number): Promise<number | undefined>;

  /** The batch whose checkpoint has exactly this tree size. */
  batchAt(treeSize: number): Promise<Batch | undefined>;

  /** Leaves `from` (inclusive) to `to` (exclusive), those that exist. */
  leaves(from: number, to: number): Promise<Leaf[]>;

  /** A hash tile as far as it is filled: 32 to 8192 bytes (C2SP tlog-tiles). */
  tile(level: number, index: number): Promise<Uint8Array | undefined>;
}

/** The epochs of the log. Earlier lists are kept. */
export interface EpochStore {
  /** As of the newest change by any process. */
  newest(): Promise<Epochs>;

  /** Replaces the whole list. Returns false and writes nothing when the epochs were changed since `revision`. */
  change(list: readonly Epoch[], revision: number, act: Act | null): Promise<boolean>;
}

/** What a store was made for; written once by `pdfseal init`. */
export interface StoreIdentity {
  /** Layout version of the store. A newer one than this program knows is refused. */
  schema: number;
  environment: string;
  /** Origin line of the log's checkpoints. */
  logOrigin: string;
  createdAt: number;
  /** While its indexes are under repair, or were left half-way. */
  repair?: RepairMark;
  /** While the log moves to or from another store, and ever after in the one that it left. */
  move?: StoreMove;
}

/** What is written together with a new job. */
export interface Acceptance {
  /** Where the caller sent a key. */
  idempotency?: IdempotencyEntry;
  /** How many jobs may count against the quota of the job, where other nodes count too. */
  quotaJobsMax?: number;
  /** Of a job without content. It may hold secrets of the caller. */
  sourceUrl?: string;
  /** Of a job whose content has a `sealedDocument`, and of no other. */
  copy?: StoredCopy;
}

/** The file with the copy of a document, and what makes it readable. */
export interface StoredCopy {
  /** Name of the file in the folder of copies. */
  file: string;
  /** Base64. Once this is gone, nobody can read the file. */
  key: string;
}

export interface JobCopy {
  jobId: string;
  copy: StoredCopy;
}

/** How long an idempotency key is kept, in service time from the acceptance of its job (section 8 of the contract). */
export const IDEMPOTENCY_RETENTION_MS = 48 * 3_600_000;

export interface IdempotencyKey {
  clientId: string;
  operation: 'createSealJob' | 'createDigestJob';
  /** 8..128 visible ASCII characters. */
  key: string;
}

export interface IdempotencyEntry extends IdempotencyKey {
  /** SHA-256, hex, over the parsed fields and the document's digest. */
  fingerprint: string;
  jobId: string;
  /** The response body a replay gives byte for byte (for a blocking create: once the job is completed). */
  answer: string;
  /** In service time: its retention counts from then. */
  acceptedAt: number;
}

/** How long the counts of ended windows are kept: longer than a wrong clock is set back. */
export const QUOTA_RETENTION_MS = 48 * 3_600_000;

/** Jobs of one client that count against a quota in one window. */
export interface QuotaCount extends QuotaWindow {
  clientId: string;
  jobs: number;
}

/** A checkpoint and what it took to make it: immutable evidence, shared by all jobs sealed together. */
export interface Batch {
  /** Index of the batch's first leaf, and number of leaves in the tree after it. */
  firstLeaf: number;
  treeSize: number;
  /** Milliseconds since the epoch; `sealed_at` of every manifest in it. */
  sealedAt: number;
  /** The signed note (C2SP tlog-checkpoint), with every partition's signature line. */
  checkpoint: string;
  /** `algorithm` and `kms_key_id` of the receipts. */
  algorithm: string;
  kmsKeyId: string;
  /** What proves the time of the checkpoint; absent where no authority is configured. */
  timestamp?: BatchTimestamp;
}

/** A time-stamp over SHA-512 of the whole signed checkpoint. */
export interface BatchTimestamp {
  /** Base64 of the DER of the RFC 3161 token. */
  token: string;
  /** Base64 DER of the certificates that lead from the token's to a root, the root left out. */
  certificates: string[];
}

export interface Leaf {
  jobId: string;
  /** SHA-512 of the manifest's canonical form: 64 bytes. */
  data: Uint8Array;
}

/** A leaf that is about to be written, and whose job it is of: that client may be waiting to be told. */
export interface SealedLeaf extends Leaf {
  clientId: string;
  /** The job, if it is not in the store yet: it becomes durable with its leaf. */
  newJob?: NewJob | undefined;
}

/** A job that is not in the store yet. */
export interface NewJob {
  job: Job;
  acceptance: Acceptance;
}

export interface SealedBatch extends Batch {
  /** Of the epochs under which it was drafted. */
  epochsRevision: number;
  /** In the order of their leaf indexes, `treeSize - firstLeaf` of them. */
  leaves: SealedLeaf[];
  /** Every tile the batch changed, as it is now. */
  tiles: Tile[];
}

/** A batch that witnesses may have seen before it is committed: its leaves and tiles follow from its jobs, in their order. */
export type AnnouncedBatch = Batch & Pick<SealedBatch, 'epochsRevision'> & { jobIds: string[] };

/** What is kept of a job beside its record. The job must be in the store. Outcomes are those of jobs that failed: of sealed ones the log tells. */
export interface JobReference {
  kind: 'outcome' | 'idempotency' | 'content' | 'source' | 'copy';
  jobId: string;
}

/** Whose jobs a caller may see (decisions, section 3). */
export interface Viewer {
  clientId: string;
  organization: string;
  /** Organizations that list the viewer's organization as a partner. */
  partnerOf: string[];
}

export interface JobQuery {
  viewer: Viewer;
  limit: number;
  /** Only jobs whose id sorts before this one (exclusive): `next` of the page before. Nothing sorts before a malformed id. */
  before?: string;
  documentSha256?: string;
  customerReference?: string;
  visibility?: Visibility;
  /**
   * Bounds of `acceptedAt`, milliseconds since the epoch, inclusive and exclusive. A job whose id was made more than an
   * hour before or after its `acceptedAt` may be missed.
   */
  createdFrom?: number;
  createdTo?: number;
  outcome?: 'waiting' | 'sealed' | 'failed';
}

export interface JobPage {
  records: JobRecord[];
  /** Where to go on; absent at the end. A page may hold fewer records than asked for, even none, and still have one. */
  next?: string;
}

/** A write whose fate is not known (a failed commit or flush). Nothing may be served or written after it. */
export class UnknownOutcome extends Error {
  constructor(cause: unknown, message = 'the store cannot tell whether its last write is on disk') {
    super(message, { cause });
    this.name = 'UnknownOutcome';
  }
}

/** Another daemon took over. This one writes nothing more: neither what it has just tried to, nor anything else. */
export class Superseded extends UnknownOutcome {
  constructor(message = 'another daemon has taken over this log, and this one writes nothing more to it') {
    super(undefined, message);
    this.name = 'Superseded';
  }
}

/** Whether a viewer may see a job (decisions, section 3). */
export function maySee(viewer: Viewer, job: Pick<Job, 'clientId' | 'organization' | 'visibility'>): boolean {
  if (job.clientId === viewer.clientId) return true;
  if (job.visibility === 'private') return false;
  if (job.organization === viewer.organization) return true;
  return job.visibility === 'partner' && viewer.partnerOf.includes(job.organization);
}
