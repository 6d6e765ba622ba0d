import { assert } from '../base/assert.ts';
import type { ErrorCode } from '../base/errors.ts';
import type { AttachmentPlan } from '../pdf/update/suffix.ts';

/** The visibilities of section 2.3 of the contract, narrowest first. */
export const VISIBILITIES = ['private', 'organization', 'partner'] as const;
export type Visibility = (typeof VISIBILITIES)[number];

export const JOB_MODES = ['async', 'blocking'] as const;
export type JobMode = (typeof JOB_MODES)[number];

/** The forms of a sealed PDF: `attach` appends the receipt to the document as an attached file. */
export const SEALED_PDF_FORMS = ['none', 'attach'] as const;
export type SealedPdfForm = Exclude<(typeof SEALED_PDF_FORMS)[number], 'none'>;

export const JOB_PHASES = ['queued', 'hashing', 'sealing', 'completed', 'failed'] as const;
export type JobPhase = (typeof JOB_PHASES)[number];

/** The digests and the length of a document: both digests are lower-case hex. */
export interface DocumentDigests {
  sha256: string;
  sha512: string;
  bytes: number;
}

/**
 * `not_configured`: there is no scanner. `not_scanned`: the service received only the digests of the document. `encrypted`: scanned, as far
 * as a scanner can read the document.
 */
export const SCAN_VERDICTS = ['clean', 'not_configured', 'not_scanned', 'encrypted'] as const;

export interface ScanResult {
  verdict: (typeof SCAN_VERDICTS)[number];
  engine?: string;
  signatures?: string;
}

/** The source of the document: the request, a `source_url`, or none, because the request contains only its digests. */
export const JOB_SOURCES = ['upload', 'url', 'digest'] as const;
/**
 * The origin of a job that no client created. `canary`: a test document, with which the service checks itself. `audit`: a record of an
 * administrator's act.
 */
const OWN_SOURCES = ['canary', 'audit'] as const;
export type JobSource = (typeof JOB_SOURCES)[number] | (typeof OWN_SOURCES)[number];

/** Whether the job belongs to a client. Only those jobs count against limits and in statistics. */
export function isOfClient({ source }: Pick<Job, 'source'>): boolean {
  return !OWN_SOURCES.some((own) => own === source);
}

/** The content of a job's document and the scan result. All members are known, or none. */
export interface Content {
  document: DocumentDigests;
  scan: ScanResult;
  /** The copy without metadata (compliance mode). */
  sealedDocument?: DocumentDigests;
  /** From which the bytes follow that are appended to the document, or to the copy without metadata, to seal it. */
  attachment?: AttachmentPlan;
}

/**
 * A job as it was requested. Immutable, except that the {@link Content} of a `url` job is added after the fetch. The {@link Outcome} is
 * recorded separately.
 */
export interface Job {
  /** `job_` and a UUIDv7 without dashes: ids sort by the time of acceptance. */
  id: string;
  clientId: string;
  organization: string;
  /** The trace id, 32 lower-case hex characters: `Seal-Trace-Id`. */
  traceId: string;
  mode: JobMode;
  visibility: Visibility;
  purpose?: string;
  customerReference?: string;
  preserveMetadata: boolean;
  /** Absent if no sealed PDF was requested. */
  sealedPdf?: SealedPdfForm;
  source: JobSource;
  /** The declared SHA-256, lower-case hex, of the document of a `url` job; absent from other jobs. */
  checksumSha256?: string;
  /** Known at acceptance, except for `url` jobs. */
  content?: Content;
  /** The quota of the client that the job counts against; absent if no quota applies. */
  quota?: QuotaWindow;
  /** Fixed at acceptance, so that an idempotent replay is byte-identical. */
  capabilities: string[];
  /** By the system clock, milliseconds since the epoch. */
  acceptedAt: number;
  /** The same time in service time (`store/serviceTime.ts`). Absent from audit records. */
  since?: number;
  /** Set if a source vouched for the system clock at that time. */
  dated?: true;
}

/** A quota in one of its windows. Times are milliseconds since the epoch; the end is exclusive. */
export interface QuotaWindow {
  name: string;
  startsAt: number;
  endsAt: number;
}

/** A job with everything that sealing needs. */
export type ReceivedJob = Job & { content: Content };

export function isReceived(job: Job): job is ReceivedJob {
  return job.content !== undefined;
}

/** SHA-256 of the job's document, whether received or only declared so far. */
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

/** The end of a job. The outcome is durable; a job without an outcome still waits to be sealed. */
export type Outcome = Sealed | { kind: 'failed'; failure: Failure };

export interface Sealed {
  kind: 'sealed';
  leafIndex: number;
  /** Milliseconds since the epoch. The sealer knows it; in the store, it is only in the batch of the leaf. */
  sealedAt?: number;
}

export interface JobRecord {
  job: Job;
  outcome?: Outcome;
}

/** Form of a job id in requests and answers (section 4.2 of the contract). */
export const JOB_ID_PATTERN = /^job_[A-Za-z0-9]+$/;
