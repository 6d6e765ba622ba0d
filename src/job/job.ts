import { assert } from '../base/assert.ts';
import type { ErrorCode } from '../base/errors.ts';

/** The visibilities of section 2.3 of the contract, narrowest first. */
export const VISIBILITIES = ['private', 'organization', 'partner'] as const;
export type Visibility = (typeof VISIBILITIES)[number];

export const JOB_MODES = ['async', 'blocking'] as const;
export type JobMode = (typeof JOB_MODES)[number];

export const JOB_PHASES = ['queued', 'hashing', 'sealing', 'completed', 'failed'] as const;
export type JobPhase = (typeof JOB_PHASES)[number];

/** What is known of a document's bytes: both digests in lower-case hex, and the length. */
export interface DocumentDigests {
  sha256: string;
  sha512: string;
  bytes: number;
}

/**
 * `not_configured`: no scanner is. `not_scanned`: the document was never here, only its digests were. `encrypted`: scanned, as
 * far as a scanner sees into it.
 */
export const SCAN_VERDICTS = ['clean', 'not_configured', 'not_scanned', 'encrypted'] as const;

export interface ScanResult {
  verdict: (typeof SCAN_VERDICTS)[number];
  engine?: string;
  signatures?: string;
}

/** Where the document came from: in the request, from a `source_url`, or not at all, its digests standing for it. */
export const JOB_SOURCES = ['upload', 'url', 'digest'] as const;
/**
 * What no client's job has. `canary`: nobody's document, which the service seals to watch itself. `audit`: a record of what an
 * administrator did.
 */
const OWN_SOURCES = ['canary', 'audit'] as const;
export type JobSource = (typeof JOB_SOURCES)[number] | (typeof OWN_SOURCES)[number];

/** Whether it is a job of a client, and none that the service made for itself: only those count and are counted. */
export function isOfClient({ source }: Pick<Job, 'source'>): boolean {
  return !OWN_SOURCES.some((own) => own === source);
}

/** What was received of a job's document, and what was found in it. Known as a whole or not at all. */
export interface Content {
  document: DocumentDigests;
  scan: ScanResult;
  /** The copy without metadata that was made of it (compliance mode). */
  sealedDocument?: DocumentDigests;
}

/**
 * A job as it was asked for. Immutable, save that the {@link Content} of a `url` job is added once it was fetched; what
 * becomes of the job is its {@link Outcome}, recorded beside it.
 */
export interface Job {
  /** `job_` and a UUIDv7 without dashes: ids sort by the time of acceptance. */
  id: string;
  clientId: string;
  organization: string;
  /** 32 lower-case hex characters: `Seal-Trace-Id`. */
  traceId: string;
  mode: JobMode;
  visibility: Visibility;
  purpose?: string;
  customerReference?: string;
  preserveMetadata: boolean;
  source: JobSource;
  /** The declared SHA-256, lower-case hex, which the document of a `url` job must have; absent from other jobs. */
  checksumSha256?: string;
  /** Known at acceptance, but for `url` jobs. */
  content?: Content;
  /** The quota it counts against, which is its client's; absent where none holds. */
  quota?: QuotaWindow;
  /** Fixed at acceptance, so that an idempotent replay is byte-identical. */
  capabilities: string[];
  /** By the system clock, milliseconds since the epoch. */
  acceptedAt: number;
  /** The same in service time (`store/serviceTime.ts`); absent of what earlier versions accepted, and of audit records. */
  since?: number;
  /** Somebody vouched for the system clock then. */
  dated?: true;
}

/** A quota in one of its windows, milliseconds since the epoch, the end exclusive. */
export interface QuotaWindow {
  name: string;
  startsAt: number;
  endsAt: number;
}

/** A job that can be sealed. */
export type ReceivedJob = Job & { content: Content };

export function isReceived(job: Job): job is ReceivedJob {
  return job.content !== undefined;
}

/** SHA-256 of the job's document, received or yet to come. */
export function documentSha256(job: Job): string {
  const sha256 = job.content?.document.sha256 ?? job.checksumSha256;
  assert(sha256 !== undefined, `${job.id} has neither a document nor a checksum`);
  return sha256;
}

export interface Failure {
  code: ErrorCode;
  message: string;
  failedAt: number;
}

/** How a job ended. Durable; a job without one is still waiting to be sealed. */
export type Outcome = { kind: 'sealed'; leafIndex: number } | { kind: 'failed'; failure: Failure };

export interface JobRecord {
  job: Job;
  outcome?: Outcome;
}

/** Shape of a job id on the wire (section 4.2 of the contract). */
export const JOB_ID_PATTERN = /^job_[A-Za-z0-9]+$/;
