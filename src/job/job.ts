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

export interface ScanResult {
  verdict: 'clean' | 'not_configured';
  engine?: string;
  signatures?: string;
}

/** A job as it was accepted. Immutable: what becomes of it is its {@link Outcome}, recorded beside it. */
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
  source: 'upload';
  document: DocumentDigests;
  scan: ScanResult;
  /** Fixed at acceptance, so that an idempotent replay is byte-identical. */
  capabilities: string[];
  /** Milliseconds since the epoch. */
  acceptedAt: number;
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
