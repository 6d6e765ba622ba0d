import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parse as parseToml, TomlError } from 'smol-toml';
import type { z } from 'zod';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { EngineChoice } from '../hash/choose.ts';
import type { PartitionOptions } from '../kms/partitions.ts';
import type { LimitPolicies } from '../limits/policies.ts';
import type { QuorumPolicy } from '../log/quorum.ts';
import type { HostPort, ListenAddress, SocketPath } from '../net/address.ts';
import type { TlsFiles } from '../net/tls.ts';
import type { EncryptedPolicy } from '../scan/documentScan.ts';
import type { ClamdAddress } from '../scan/session.ts';
import type { ClockSource } from '../tsa/synchronization.ts';
import { defaultUrl, mapValues, toClockSource, toPartition, toPolicies, toTls } from './convert.ts';
import { checkFiles } from './fileChecks.ts';
import { type ConfigTables, configSchema } from './schema.ts';
import { fault } from './toml.ts';

/** What one daemon is told, deep-frozen. Every part gets its own piece; paths are absolute. */
export interface Config {
  /** The file it was read from. */
  readonly file: string;
  /** `sandbox` for `env_sandbox` on the wire; holds no underscore, so API keys parse. */
  readonly environment: string;
  readonly stateDir: string;
  readonly storeDir: string;
  readonly lockFile: string;
  readonly trustFile: string;
  /** The certificates of the built-in authority's keys. */
  readonly certificatesDir: string;
  /** Where copies of documents are. */
  readonly documentsDir: string;
  readonly drainTimeoutMs: number;
  readonly complianceMode: boolean;
  readonly retention: { readonly documentMs: number };
  readonly http: {
    readonly listen: readonly ListenAddress[];
    readonly clearTextBeyondLoopback: boolean;
    readonly tls?: TlsFiles;
    /** Without a trailing slash and without `/v1`. */
    readonly publicUrl: string;
    readonly headerTimeoutMs: number;
    readonly bodyIdleTimeoutMs: number;
    readonly bodyBytesPerSecondMin: number;
    readonly connectionsMax: number;
    readonly connectionsPerAddressMax: number;
    readonly uploadsMax: number;
    readonly uploadsPerClientMax: number;
    readonly batchesMax: number;
    readonly downloadsMax: number;
  };
  /** It always has a socket; where another address is configured, that too. */
  readonly admin: { readonly socket: SocketPath; readonly port?: HostPort };
  readonly health: { readonly canaryIntervalMs: number };
  readonly limits: { readonly documentBytesMax: number; readonly queueJobsMax: number };
  /** Rates and quotas of clients. */
  readonly policies: LimitPolicies;
  /** With less free on the disk of the store, no job is accepted. */
  readonly storage: { readonly freeBytesMin: number };
  readonly blocking: { readonly timeoutMs: number };
  readonly sealing: { readonly giveUpAfterMs: number; readonly batchJobsMax: number };
  readonly hash: {
    readonly workers: number;
    readonly engine: EngineChoice;
    /** Of documents, 0 to 1. */
    readonly crossCheckShare: number;
  };
  readonly scan: {
    /** Absent, documents are not scanned. */
    readonly clamd?: ClamdAddress;
    readonly timeoutMs: number;
    readonly connectionsMax: number;
    readonly encrypted: EncryptedPolicy;
  };
  readonly log: {
    readonly origin: string;
    readonly public: boolean;
    readonly witnessFile: string;
    readonly witnessIntervalMs: number;
  };
  /** Where documents of a `source_url` come from. */
  readonly sources: {
    /** Origins and networks; empty: from nowhere. */
    readonly allow: readonly string[];
    readonly caFile?: string;
    readonly concurrentMax: number;
    readonly answerTimeoutMs: number;
    readonly bytesPerSecondMin: number;
    readonly retryDelayMs: number;
    readonly giveUpAfterMs: number;
  };
  readonly kms: {
    readonly quorum: QuorumPolicy;
    readonly signTimeoutMs: number;
    readonly partitions: PartitionOptions[];
  };
  readonly timestamp: {
    /** In the order of preference; `built-in` is our own. None means receipts without a time-stamp. */
    readonly authorities: readonly string[];
    readonly accuracyMs: number;
    /** Object identifier of the built-in authority's policy. */
    readonly policy: string;
    /** The keys of the built-in authority. */
    readonly keys: readonly PartitionOptions[];
    readonly remotes: Readonly<Record<string, RemoteConfig>>;
  };
  readonly webhooks: {
    /** Origins and networks: see `net/policy.ts`. */
    readonly allow: readonly string[];
    readonly inFlightMax: number;
    readonly perEndpointMax: number;
    readonly timeoutMs: number;
    readonly retryDelaysMs: readonly number[];
    readonly probeIntervalMs: number;
    readonly backlogMax: number;
    readonly deadLetterMs: number;
    readonly caFile?: string;
  };
  /** Who vouches for the system clock. */
  readonly clock: ClockSource;
  /** For each organisation, those that see its jobs of visibility `partner`. */
  readonly organizations: Readonly<Record<string, { readonly partners: readonly string[] }>>;
  readonly logging: { readonly level: string };
  /** The file as it stands, to tell what a reload changes. */
  readonly tables: ConfigTables;
  /** Digest of the file's text, in hexadecimal. */
  readonly sha256: string;
}

/** An external RFC 3161 authority. */
export interface RemoteConfig {
  readonly url: string;
  readonly timeoutMs: number;
  readonly rootsFile: string;
  readonly policy?: string;
  readonly tlsCaFile?: string;
}

/**
 * `files: 'unused'` for commands that never sign nor stamp: modules, PINs and roots need not be there. `by_hand`: only credentials need
 * not, which systemd hands out with a start.
 */
export interface LoadOptions {
  files?: 'needed' | 'unused' | 'by_hand';
  /** Told, a line for each, what is wrong with files that a start can do without. */
  tell?(line: string): void;
}

/**
 * Reads the config file. Throws {@link OperatorError} with a line for each fault: file, line, key, what was found and
 * what is expected.
 */
export function loadConfig(file: string, options: LoadOptions = {}): Config {
  const text = readText(file);
  const config = parseConfig(text, file);
  const { files = 'needed', tell = () => {} } = options;
  if (files !== 'unused') checkFiles(config, { text, tell, credentials: files === 'needed' });
  return config;
}

/** Like {@link loadConfig} without a look at other files, together with the keys as they stand in the file. */
export function loadDocument(file: string): { document: unknown; config: Config } {
  const text = readText(file);
  return { document: readToml(text, file), config: parseConfig(text, file) };
}

/** Like {@link loadConfig} on text already read; `file` names it in messages and is where relative paths start. */
export function parseConfig(text: string, file: string): Config {
  const sha256 = createHash('sha256').update(text).digest('hex');
  return deepFreeze({ ...toConfig(readTables(text, file), file), sha256 });
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const why = systemReason(cause);
    throw new OperatorError(`${file}: cannot read the config file (${why}); ${remedyOf(cause)}`, { cause });
  }
}

function remedyOf(cause: unknown): string {
  const isClosed = cause instanceof Error && 'code' in cause && cause.code === 'EACCES';
  return isClosed ? 'run this as root, or as a member of its group' : 'name it with --config FILE';
}

function readTables(text: string, file: string): ConfigTables {
  const parsed = configSchema.safeParse(readToml(text, file), { reportInput: true });
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.flatMap((issue) => describe(issue, text, file));
  throw new OperatorError(faults.join('\n'), { code: 'invalid_config' });
}

function readToml(text: string, file: string): unknown {
  try {
    return parseToml(text, { unsafeKeyBehaviour: 'throw' });
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const [reason] = cause.message.replace('Invalid TOML document: ', '').split('\n');
    throw new OperatorError(`${file}:${cause.line}:${cause.column}: not TOML: ${reason}`, {
      cause,
      code: 'invalid_config',
    });
  }
}

function describe(issue: z.core.$ZodIssue, text: string, file: string): string[] {
  const path = issue.path.map((part) => (typeof part === 'symbol' ? part.toString() : part));
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((name) => fault(file, text, [...path, name], 'unknown key', issue.message));
  }
  // A record reports a refused key name as an issue of its own, whose first inner issue has the expectation.
  const expected = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
  return [fault(file, text, path, describeFound(issue.input), expected)];
}

function describeFound(input: unknown): string {
  if (input === undefined) return 'missing';
  if (Array.isArray(input)) return 'found a list';
  if (typeof input === 'object') return 'found a table';
  const shown = JSON.stringify(input);
  return `found ${shown.length > 80 ? `${shown.slice(0, 77)}…` : shown}`;
}

function toConfig(tables: ConfigTables, file: string): Omit<Config, 'sha256'> {
  const folder = dirname(resolve(file));
  const { environment, http, limits, blocking, sealing, hash, log, kms, timestamp } = tables;
  const stateDir = resolve(folder, tables.state_dir);
  return {
    file: resolve(file),
    environment,
    stateDir,
    storeDir: join(stateDir, 'store'),
    lockFile: join(stateDir, 'lock'),
    trustFile: join(stateDir, 'trust.json'),
    certificatesDir: join(stateDir, 'certificates'),
    documentsDir: join(stateDir, 'documents'),
    drainTimeoutMs: tables.drain_timeout,
    complianceMode: tables.compliance_mode,
    retention: { documentMs: tables.retention.document_hours * 3_600_000 },
    http: {
      listen: http.listen,
      clearTextBeyondLoopback: http.clear_text_beyond_loopback,
      ...(http.tls && { tls: toTls(http.tls, environment, folder) }),
      publicUrl: http.public_url ?? defaultUrl(http),
      headerTimeoutMs: http.header_timeout,
      bodyIdleTimeoutMs: http.body_idle_timeout,
      bodyBytesPerSecondMin: http.body_rate_min,
      connectionsMax: http.connections_max,
      connectionsPerAddressMax: http.connections_per_address_max,
      uploadsMax: http.uploads_max,
      uploadsPerClientMax: http.uploads_per_client_max,
      batchesMax: http.batches_max,
      downloadsMax: http.downloads_max,
    },
    admin: toAdmin(tables.admin.listen, stateDir, folder),
    health: { canaryIntervalMs: tables.health.canary_interval },
    limits: { documentBytesMax: limits.document_bytes_max, queueJobsMax: limits.queue_jobs_max },
    policies: toPolicies(tables),
    storage: { freeBytesMin: tables.storage.free_bytes_min },
    blocking: { timeoutMs: blocking.timeout },
    sealing: { giveUpAfterMs: sealing.give_up_after, batchJobsMax: sealing.batch_jobs_max },
    hash: { workers: hash.workers, engine: hash.engine, crossCheckShare: hash.cross_check },
    scan: {
      ...(tables.scan.clamd && { clamd: tables.scan.clamd }),
      timeoutMs: tables.scan.timeout,
      connectionsMax: tables.scan.connections_max,
      encrypted: tables.scan.encrypted,
    },
    log: {
      origin: log.origin,
      public: log.public,
      witnessFile: resolve(folder, log.witness_file ?? join(stateDir, 'witness')),
      witnessIntervalMs: log.witness_interval,
    },
    sources: toSources(tables.sources, folder),
    kms: {
      quorum: kms.quorum,
      signTimeoutMs: kms.sign_timeout,
      partitions: kms.partitions.map((partition) => toPartition(partition, environment, folder)),
    },
    timestamp: {
      authorities: timestamp.authorities,
      accuracyMs: timestamp.accuracy,
      policy: timestamp.policy,
      keys: timestamp.keys.map((key) => toPartition(key, environment, folder)),
      remotes: mapValues(timestamp.remotes, (remote) => toRemote(remote, folder)),
    },
    webhooks: toWebhooks(tables.webhooks, folder),
    clock: toClockSource(tables.clock, folder),
    organizations: tables.organizations,
    logging: tables.logging,
    tables,
  };
}

function toAdmin(listen: ConfigTables['admin']['listen'], stateDir: string, folder: string): Config['admin'] {
  const socket = { path: join(stateDir, 'admin.sock') };
  if (listen === undefined) return { socket };
  return 'path' in listen ? { socket: { path: resolve(folder, listen.path) } } : { socket, port: listen };
}

function toSources(table: ConfigTables['sources'], folder: string): Config['sources'] {
  return {
    allow: table.allow,
    ...(table.ca_file !== undefined && { caFile: resolve(folder, table.ca_file) }),
    concurrentMax: table.concurrent_max,
    answerTimeoutMs: table.answer_timeout,
    bytesPerSecondMin: table.rate_min,
    retryDelayMs: table.retry_delay,
    giveUpAfterMs: table.give_up_after,
  };
}

function toRemote(table: ConfigTables['timestamp']['remotes'][string], folder: string): RemoteConfig {
  return {
    url: table.url,
    timeoutMs: table.timeout,
    rootsFile: resolve(folder, table.roots_file),
    ...(table.policy !== undefined && { policy: table.policy }),
    ...(table.tls_ca_file !== undefined && { tlsCaFile: resolve(folder, table.tls_ca_file) }),
  };
}

function toWebhooks(table: ConfigTables['webhooks'], folder: string): Config['webhooks'] {
  return {
    allow: table.allow,
    inFlightMax: table.concurrency,
    perEndpointMax: table.concurrency_per_endpoint,
    timeoutMs: table.timeout,
    retryDelaysMs: table.retries,
    probeIntervalMs: table.probe_interval,
    backlogMax: table.backlog_max,
    deadLetterMs: table.dead_letter_retention,
    ...(table.ca_file !== undefined && { caFile: resolve(folder, table.ca_file) }),
  };
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
