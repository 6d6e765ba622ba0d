import type { Content, Failure, Job, JobRecord, QuotaWindow, Visibility } from '../job/job.ts';
import type { Epoch, Epochs } from '../log/epochs.ts';
import type { Tile } from '../log/tiles.ts';
import type { Act } from '../manifest/auditRecord.ts';
import type { AcceptanceStore } from './acceptances.ts';
import type { ArrivalStore, SealingView } from './arrivals.ts';
import type { CredentialStore } from './credentialStore.ts';
import type { IndexStore, RepairMark } from './indexStore.ts';
import type { Nodes } from './nodes.ts';
import type { RenewalStore } from './renewalStore.ts';
import type { ServiceTime } from './serviceTime.ts';
import type { JobConflicts } from './storeError.ts';
import type { StoreMove } from './storeMove.ts';
import type { TrailStore } from './trail.ts';
import type { WebhookStore } from './webhookStore.ts';
import type { WitnessStore } from './witnessStore.ts';

/**
 * The contract every store keeps, in groups; each group is one object. `test/store/contract.ts` is its executable form: an implementation
 * is complete when it passes. Two rules hold for every method of every group:
 *
 * - A write resolves only after it is on disk and survives power loss. No reader sees any part of it before that. A rejected write left
 *   nothing behind; if the store cannot know that, it throws {@link UnknownOutcome} from then on and the process must end.
 * - Values are returned as they were given, strings code unit for code unit.
 *
 * One process writes jobs and batches. Epochs, renewals and audit records may be written by another process at any time, and credentials and
 * webhook endpoints if the store is a database; the next read sees them. Such a change is recorded in the audit trail as an act, in the same transaction; `null` stands
 * for a change without an actor.
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
  /** Present in the embedded store. */
  readonly pages?: StorePages;
  /** Present in a database. */
  readonly space?: StoreSpace;
  /** Present in the sealing daemon if fronts share the store. */
  readonly arrivals?: ArrivalStore;
  /** Where jobs need the MAC of a node: in the daemon that seals. */
  readonly acceptances?: AcceptanceStore;
  /** In a front. */
  readonly sealing?: SealingView;
  /** Present in each daemon if daemons share the store. */
  readonly nodes?: Nodes;

  close(): Promise<void>;
}

/** Whether the disk of a database has space, as far as it has reported to this process. */
export interface StoreSpace {
  readonly isFull: boolean;
  /** Throws StoreError `disk_full` while there is no space. */
  admit(): void;
}

/** The pages of the embedded store's file. */
export interface StorePages {
  /** Their current use. */
  read(): PageReport;
}

export interface PageReport {
  /** Bytes in pages that hold nothing, and can be used again once no reader needs their former content. */
  freeBytes: number;
  /** Absent while every reader reads the newest state. */
  oldestReader?: {
    pid: number;
    /** Milliseconds for which a newer state has existed, as far as earlier readings saw. */
    ageMs: number;
  };
}

/** Jobs, and the entries written together with them: idempotency entries and the counts of quotas. */
export interface JobStore {
  /**
   * One transaction: the job, its indexes, one more job on the count of its quota, and `acceptance`. Throws BrokenInvariant and writes
   * nothing if the job is in the store already, or if it has both content and a source URL or neither. Throws StoreError and writes
   * nothing if another job that did not fail holds its idempotency key, or, in a store that several nodes share, if its quota is used up.
   */
  accept(job: Job, acceptance?: Acceptance): Promise<void>;

  /**
   * One transaction: the content of a job that was accepted without it, and the copy of its document if there is one; the source URL is
   * removed. Throws BrokenInvariant and writes nothing if the job is unknown, has content, or has an outcome.
   */
  receive(jobId: string, content: Content, copy?: StoredCopy): Promise<void>;

  /**
   * One transaction: the outcome `failed`, and the messages to webhook endpoints; the source URL is removed. Throws BrokenInvariant and
   * writes nothing if the job is unknown or has an outcome.
   */
  fail(jobId: string, failure: Failure): Promise<void>;

  get(jobId: string): Promise<JobRecord | undefined>;

  /** Jobs the viewer may see, newest first. The work of one call is bounded, whatever the filters and the size of the store. */
  list(query: JobQuery): Promise<JobPage>;

  /** Every job, in the order of ids, for checks and exports. */
  all(): AsyncIterable<JobRecord>;

  /** Jobs without an outcome, in the order of their ids, after `after` (exclusive), at most `limit`. */
  waiting(limit: number, after?: string): Promise<Job[]>;

  /** Number of jobs without an outcome. */
  waitingCount(): Promise<number>;

  /**
   * The URL to fetch the document of a job from; undefined once its content is there or the job failed. Throws AlteredJob where the store has
   * {@link Store.acceptances}, and the job or its URL is not what a node accepted.
   */
  sourceUrl(jobId: string): Promise<string | undefined>;

  /** The entry of that key, unless it is older than its retention. */
  idempotency(key: IdempotencyKey): Promise<IdempotencyEntry | undefined>;

  /** Removes entries accepted before that service time, at most `limit` per call; returns their number. */
  sweepIdempotency(before: number, limit: number): Promise<number>;

  /** Number of jobs that count against each quota, in every window that was not swept. */
  quotaCounts(): Promise<QuotaCount[]>;

  /** Removes the counts of windows that ended before `epochMs`, at most `limit` per call; returns their number. */
  sweepQuotas(epochMs: number, limit: number): Promise<number>;

  /** Every entry about a job, outside its record, that cannot be derived from other entries, in no order, for checks. */
  references(): AsyncIterable<JobReference>;
}

/** Locations of the copies of sealed documents. */
export interface CopyStore {
  /** Undefined if no copy was made, and once it is forgotten. */
  get(jobId: string): Promise<StoredCopy | undefined>;

  /** Every copy, in the order of job ids. */
  all(): AsyncIterable<JobCopy>;

  /** Forgets the copies of these jobs, in one transaction; jobs without a copy are skipped. */
  forget(jobIds: readonly string[]): Promise<void>;
}

/** The transparency log. */
export interface LogStore {
  /**
   * One transaction: leaves, tiles, the batch, the outcome `sealed` of every job in it, the messages to the webhook endpoints of their
   * clients, and, for jobs that are not in the store yet, everything that {@link JobStore.accept} writes. Throws BrokenInvariant and writes
   * nothing if the log's size is not `batch.firstLeaf`, or if a job in the batch is unknown, has no content, or has an outcome. Returns the
   * new jobs that {@link JobStore.accept} would refuse, and writes nothing, if there are any. Returns false and writes nothing if the
   * epochs were changed since `batch.epochsRevision`: the rule under which the batch was drafted may be out of force. While a batch is
   * announced, it throws BrokenInvariant for any other, and commits that one whatever became of the epochs.
   */
  commit(batch: SealedBatch): Promise<boolean | JobConflicts>;

  /**
   * Declares, before witnesses see its checkpoint, that this batch is the next to be committed. Its jobs are in the store. Throws
   * BrokenInvariant and writes nothing if the log's size is not `batch.firstLeaf`, or if another batch is announced. Returns false and
   * writes nothing if the epochs were changed since `batch.epochsRevision`.
   */
  announce(batch: AnnouncedBatch): Promise<boolean>;

  /** The announced batch, until it is committed. */
  announced(): Promise<AnnouncedBatch | undefined>;

  /** The newest batch; undefined for an empty log. */
  head(): Promise<Batch | undefined>;

  /** The batch that holds this leaf. */
  batchOf(leafIndex: number): Promise<Batch | undefined>;

  /** Sealing time of the batch that holds this leaf, milliseconds since the epoch. */
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
  /** The list after the newest change by any process. */
  newest(): Promise<Epochs>;

  /** Replaces the whole list. Returns false and writes nothing if the epochs were changed since `revision`. */
  change(list: readonly Epoch[], revision: number, act: Act | null): Promise<boolean>;
}

/** The identity of a store; written once by `pdfseal init`. */
export interface StoreIdentity {
  /** Layout version of the store. A version newer than this program knows is refused. */
  schema: number;
  environment: string;
  /** Origin line of the log's checkpoints. */
  logOrigin: string;
  createdAt: number;
  /** Present while its indexes are under repair, or were left half-way. */
  repair?: RepairMark;
  /** Present while the log moves to or from another store, and permanently in the one that it left. */
  move?: StoreMove;
}

/** Entries written together with a new job. */
export interface Acceptance {
  /** Present if the caller sent a key. */
  idempotency?: IdempotencyEntry;
  /** Maximum number of jobs that may count against the quota of the job, if other nodes count too. */
  quotaJobsMax?: number;
  /** Present for a job without content. It may hold secrets of the caller. */
  sourceUrl?: string;
  /** Present for a job whose content has a `sealedDocument` or an `attachment`, and for no other. */
  copy?: StoredCopy;
}

/** The file with the copy of a document, and its key. */
export interface StoredCopy {
  /** Name of the file in the folder of copies. */
  file: string;
  /** Where the copy begins in the file; absent for 0. */
  at?: number;
  /** Base64. Once this is gone, the file cannot be read. */
  key: string;
}

export interface JobCopy {
  jobId: string;
  copy: StoredCopy;
}

/** Retention of an idempotency key, in service time from the acceptance of its job (section 8 of the contract). */
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
  /** The first response body. A replay of a blocking create returns it byte for byte, once the job is sealed. */
  answer: string;
  /** In service time: the start of its retention. */
  acceptedAt: number;
}

/** Retention of the counts of ended windows: longer than a wrong clock is set back. */
export const QUOTA_RETENTION_MS = 48 * 3_600_000;

/** Jobs of one client that count against a quota in one window. */
export interface QuotaCount extends QuotaWindow {
  clientId: string;
  jobs: number;
}

/** A checkpoint with the evidence of its making: immutable, shared by all jobs sealed together. */
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
  /** Proof of the time of the checkpoint; absent if no authority is configured. */
  timestamp?: BatchTimestamp;
}

/** A time-stamp over SHA-512 of the whole signed checkpoint. */
export interface BatchTimestamp {
  /** Base64 of the DER of the RFC 3161 token. */
  token: string;
  /** Base64 DER of the certificates from the token's up to a root, without the root. */
  certificates: string[];
}

export interface Leaf {
  jobId: string;
  /** SHA-512 of the manifest's canonical form: 64 bytes. */
  data: Uint8Array;
}

/** A leaf that is about to be written, and its job: that client may be waiting for the outcome. */
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
  /** Revision of the epochs under which it was drafted. */
  epochsRevision: number;
  /** In the order of their leaf indexes, `treeSize - firstLeaf` of them. */
  leaves: SealedLeaf[];
  /** Every tile that the batch changed, in its new state. */
  tiles: Tile[];
}

/** A batch that witnesses may have seen before it is committed: its leaves and tiles follow from its jobs, in their order. */
export type AnnouncedBatch = Batch & Pick<SealedBatch, 'epochsRevision'> & { jobIds: string[] };

/**
 * An entry about a job, outside its record. The job must be in the store. Outcomes are those of failed jobs: the log has those of sealed
 * ones.
 */
export interface JobReference {
  kind: 'outcome' | 'idempotency' | 'content' | 'source' | 'copy';
  jobId: string;
}

/** A caller, whose rights decide which jobs are visible (decisions, section 3). */
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
  purpose?: string;
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
  /** Start of the next page; absent at the end. A page may hold fewer records than requested, even none, and still have one. */
  next?: string;
}

/** A write whose outcome is unknown (a failed commit or flush). Nothing may be served or written after it. */
export class UnknownOutcome extends Error {
  constructor(cause: unknown, message = 'the store cannot tell whether its last write is on disk') {
    super(message, { cause });
    this.name = 'UnknownOutcome';
  }
}

/** Another daemon took over. This one writes nothing more: neither its last attempt, nor anything else. */
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
