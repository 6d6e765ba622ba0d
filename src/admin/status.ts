import type { PartitionStatus } from '../kms/partition.ts';

/** What the administration is told of the daemon; on the wire, so members are in its spelling. Times are RFC 3339. */
export interface AdminStatus {
  version: string;
  node: string;
  environment: string;
  pid: number;
  started_at: string;
  uptime_seconds: number;
  draining: boolean;
  /** Whether every part is. */
  ready: boolean;
  parts: HealthPart[];
  canary: {
    ready: boolean;
    detail: string;
    interval_seconds: number;
    newest?: PresentedRun;
    last_verified?: PresentedRun;
  };
  queue: {
    /** Jobs without an outcome, by phase. Canaries are no part of it. */
    queued: number;
    hashing: number;
    sealing: number;
    jobs_max: number;
    oldest_age_seconds: number;
  };
  /** `quorum` as the configuration has it, and how many signatures it takes. */
  partitions: { quorum: number | string; needed: number; members: PresentedPartition[] };
  /** Absent where receipts carry no time-stamp. */
  timestamps?: PresentedTimestamps;
  /** Absent where documents are not scanned. */
  scanner?: { trouble?: string; detail: string };
  certificates: PresentedCertificate[];
  webhooks: {
    endpoints: number;
    disabled: number;
    /** Those that keep failing, and are tried by one delivery at a time. */
    failing: number;
    in_flight: number;
    pending: number;
    /** Of the delivery that is due the longest; 0 when none is. */
    oldest_due_age_seconds: number;
    dead_letters: number;
    delivered: number;
    failed_attempts: number;
    dropped: number;
  };
  log: { origin: string; tree_size: number; sealed_at?: string };
  store: {
    path: string;
    bytes: number;
    disk_free_bytes: number;
    disk_free_bytes_min: number;
    disk_bytes: number;
  };
  hash: { engine: string; workers: number };
  /** Since it was last asked for. */
  event_loop_delay_ms: { p50: number; p99: number; max: number };
}

export interface PresentedRun {
  verified: boolean;
  started_at: string;
  age_seconds: number;
  duration_ms: number;
  detail: string;
  job_id?: string;
  leaf_index?: number;
  signers: string[];
}

export interface PresentedPartition {
  /** `<region>/<key label>`. */
  name: string;
  state: PartitionStatus['state'];
  since: string;
  last_error?: string;
  signatures: number;
  restarts: number;
  pid?: number;
  /** When one that was withdrawn is put back by itself. */
  returns_at?: string;
}

export interface PresentedTimestamps {
  can_stamp: boolean;
  clock: { trust: string; trouble?: string; detail: string; error_bound_ms?: number };
  /** In the order of preference. */
  authorities: { name: string; tokens: number; failures: number; trouble?: string }[];
  /** The keys of the built-in authority. */
  units: { subject: string; ready: boolean }[];
}

export interface PresentedCertificate {
  authority: string;
  role: string;
  state: string;
  /** Absent where there is none; then `detail` says why. */
  subject?: string;
  not_after?: string;
  days_left?: number;
  detail?: string;
}

/** One thing that must be well for a document to be sealed. */
export interface HealthPart {
  name: 'service' | 'canary' | 'partitions' | 'timestamps' | 'scanner' | 'queue' | 'store';
  ready: boolean;
  detail: string;
  /** What to do, where it is not. */
  remedy?: string;
}
