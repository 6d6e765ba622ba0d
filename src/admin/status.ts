import type { PartitionStatus } from '../kms/partition.ts';
import type { UpkeepNote } from '../upkeep.ts';

/** What the administration is told of the daemon; on the wire, so members are in its spelling. Times are RFC 3339. */
export interface AdminStatus {
  version: string;
  node: string;
  environment: string;
  pid: number;
  started_at: string;
  uptime_seconds: number;
  draining: boolean;
  /** The configuration it goes by: digest of the file's text when that was read, and keys that wait for a restart. */
  config: { file: string; sha256: string; loaded_at: string; pending: readonly string[] };
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
    /** 0 for a phase that no job is in. */
    oldest_age_seconds_by_phase: { queued: number; hashing: number; sealing: number };
  };
  /** `quorum` as the configuration has it, and how many signatures it takes. */
  partitions: { quorum: number | string; needed: number; members: PresentedPartition[] };
  /** Absent where receipts carry no time-stamp. */
  timestamps?: PresentedTimestamps;
  /** Absent where documents are not scanned. */
  scanner?: PresentedScanner;
  sources: { under_way: number; queued: number; paused: number };
  copies: { files: number; bytes: number; oldest_age_seconds: number; kept_seconds: number };
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
  /** Size of the log as the witness file has it, and when that was last known to be the newest. */
  witness: { tree_size: number; current_at?: string };
  /** What was last noted of each; a backup only if it was good. */
  upkeep: { backup?: UpkeepNote; check?: UpkeepNote };
  store: {
    path: string;
    bytes: number;
    disk_free_bytes: number;
    disk_free_bytes_min: number;
    disk_bytes: number;
  };
  hash: {
    engine: string;
    workers: number;
    /** Being hashed as their bytes arrive. */
    documents: number;
    /** Received, and still to be handed to a worker. */
    pending_bytes: number;
    tasks: number;
    tasks_max: number;
  };
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

export interface PresentedScanner {
  trouble?: string;
  detail: string;
  connections_in_use: number;
  connections_idle: number;
  connections_max: number;
  /** For a connection. */
  documents_waiting: number;
  engine?: string;
  signatures?: string;
  signatures_built_at?: string;
}

export interface PresentedCertificate {
  /** `http.tls` for those of the API itself. */
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

/** `GET /quotas`: what clients have used of their limits. */
export interface AdminQuotas {
  clients: {
    client_id: string;
    /** Absent without a limit. */
    rate?: PresentedLimit;
    quotas: (PresentedLimit & { name: string })[];
  }[];
}

export interface PresentedLimit {
  limit: number;
  window_seconds: number;
  used: number;
  /** When there is more. */
  resets_at: string;
}
