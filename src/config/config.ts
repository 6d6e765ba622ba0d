import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parse as parseToml, TomlError } from 'smol-toml';
import type * as z from 'zod';
import { assert } from '../base/assert.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import { formatAddress, type SocketPath } from '../net/address.ts';
import type { StoreLocation } from '../store/engines.ts';
import { consistent } from './consistency.ts';
import { makePathsAbsolute, renameFormerKeys } from './document.ts';
import { checkFiles, credentialFile, sharedRefusedPins, signerSocket } from './fileChecks.ts';
import { type ConfigTables, configSchema } from './schema.ts';
import { fault } from './toml.ts';

/**
 * What one daemon is told, deep-frozen: what the schema makes of the file, and what follows from several keys together. Every part gets
 * its own piece; paths are absolute.
 */
export type Config = Frozen<ReturnType<typeof toConfig>>;

type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

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

/** Like {@link loadConfig} on text already read; `file` names it in messages and is where relative paths start. */
export function parseConfig(text: string, file: string): Config {
  return deepFreeze(toConfig(text, file));
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

/**
 * Without keys of the log, and where a database has the log, a daemon is a front: it accepts jobs, and another daemon seals them. What it leaves out is
 * as good as empty.
 */
const FRONT_TABLES = { kms: { partitions: [] }, timestamp: { authorities: [] } };

function isOfFront(document: object): boolean {
  const { store, kms } = document as { store?: { engine?: unknown }; kms?: unknown };
  return kms === undefined && store?.engine === 'postgresql';
}

interface Checked {
  text: string;
  file: string;
  isFront: boolean;
}

/** Or zod writes and compiles a parser for each table, which pays only where a schema is used often. */
const ONCE = { jitless: true };

/** Throws OperatorError with a line for each fault, as the file stands. */
function refuseFaults(document: object, { text, file, isFront }: Checked): void {
  const schema = configSchema.check((payload) => consistent(payload, isFront));
  const { error } = schema.safeParse(document, { reportInput: true, ...ONCE });
  if (error === undefined) return;
  const faults = error.issues.flatMap((issue) => describe(issue, text, file));
  throw new OperatorError(faults.join('\n'), { code: 'invalid_config' });
}

function readToml(text: string, file: string): object {
  try {
    return parseToml(text, { unsafeKeyBehaviour: 'throw' });
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause;
    const [reason = ''] = cause.message.replace('Invalid TOML document: ', '').split('\n');
    const isOpen = reason.startsWith('control characters');
    throw new OperatorError(`${file}:${cause.line}:${cause.column}: not TOML: ${reason}`, {
      cause,
      code: 'invalid_config',
      remedy: isOpen
        ? 'close the quotation mark of that line, or take the control character out'
        : 'correct that line; pdfseald.toml(5) has an example of every key',
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

function toConfig(text: string, file: string) {
  const folder = dirname(resolve(file));
  const document = readToml(text, file);
  const formerKeys = renameFormerKeys(document);
  const isFront = isOfFront(document);
  const whole = () => (isFront ? { ...FRONT_TABLES, ...document } : document);
  refuseFaults(whole(), { text, file, isFront });
  makePathsAbsolute(document, folder);
  const { limits, quotas, clients, store, console, ...tables } = configSchema.parse(whole(), ONCE);
  const { environment, stateDir, http, log, kms, timestamp, webhooks } = tables;
  const { rate, ...otherLimits } = limits;
  const { tls, ...otherHttp } = http;
  const place = { environment, folder, stateDir };
  /** There always is a socket; where another address is configured, that too. */
  const admin = { socket: { path: join(stateDir, 'admin.sock') }, ...adminAddressOf(tables.admin) };
  const besideAdmin = { path: join(dirname(admin.socket.path), 'console.sock') };
  const location = toStore(store, { environment, path: join(stateDir, 'store') });
  const last =
    log.lastCheckpointFile === undefined ? lastCheckpointIn(stateDir) : { file: log.lastCheckpointFile };
  return {
    ...tables,
    file: resolve(file),
    /** Of the file's text, in hexadecimal. */
    sha256: createHash('sha256').update(text).digest('hex'),
    /** The file as it stands, with absolute paths, and with keys by their present names. */
    document,
    /** What has the name that an earlier version gave it, and what to do: a sentence for each. */
    formerNames: [...formerKeys, ...(last.former === undefined ? [] : [last.former])],
    /** It accepts jobs for a daemon that seals, and has no keys. */
    isFront,
    store: location,
    /** A folder on the disk that must have room: that of the store, or where a database has the store, state_dir. */
    diskDir: location.engine === 'lmdb' ? location.path : stateDir,
    lockFile: join(stateDir, 'lock'),
    trustFile: join(stateDir, 'trust.json'),
    /** The certificates of the built-in authority's keys. */
    certificatesDir: join(stateDir, 'certificates'),
    /** What the signers that are children of the daemon remember. */
    signersDir: join(stateDir, 'signers'),
    /** Where copies of documents are. */
    documentsDir: join(stateDir, 'documents'),
    http: {
      ...otherHttp,
      ...(tls && { tls: { ...tls, keyFile: secretFile(tls.keyFile, tls.keyCredential, environment) } }),
      /** Without a trailing slash and without `/v1`. */
      publicUrl: http.publicUrl ?? defaultUrl(http),
    },
    admin,
    ...(console && { console: toConsole(console, besideAdmin, environment) }),
    /** Whose certificates open the console. */
    people: console?.tls?.people ?? [],
    limits: otherLimits,
    /** After an outage all jobs that waited can be sealed before an endpoint has answered once. */
    webhooks: { ...webhooks, backlogMax: Math.max(webhooks.backlogMax, limits.queueJobsMax) },
    /** Rates and quotas of clients. */
    policies: { rate, quotas, clients },
    log: { ...log, lastCheckpointFile: last.file },
    kms: { ...kms, partitions: kms.partitions.map((one) => toLogPartition(one, place)) },
    timestamp: { ...timestamp, keys: timestamp.keys.map((one) => toPartition(one, place)) },
  };
}

function toConsole(
  { listen, tls }: NonNullable<ConfigTables['console']>,
  besideAdmin: SocketPath,
  environment: string,
) {
  return { listen: listen ?? besideAdmin, ...(tls && { tls: toConsoleTls(tls, environment) }) };
}

/** Without the people, whom a reload changes. Somebody without a certificate gets a page that says so. */
function toConsoleTls(
  { people: _, ...tls }: NonNullable<NonNullable<ConfigTables['console']>['tls']>,
  environment: string,
) {
  const keyFile = secretFile(tls.keyFile, tls.keyCredential, environment);
  return { ...tls, keyFile, clientCertificateRequired: false };
}

function toStore(
  { engine, urls = [], passwordFile, passwordCredential }: ConfigTables['store'],
  { environment, path }: { environment: string; path: string },
): StoreLocation {
  if (engine === 'lmdb') return { engine, path };
  const hasPassword = passwordFile !== undefined || passwordCredential !== undefined;
  return {
    engine,
    urls,
    ...(hasPassword && { passwordFile: secretFile(passwordFile, passwordCredential, environment) }),
  };
}

function adminAddressOf({ listen }: ConfigTables['admin']) {
  if (listen === undefined) return {};
  return 'path' in listen ? { socket: listen } : { port: listen };
}

/** Where the file is unless the configuration says it. While only that of an earlier version is there, under its name, it is used. */
function lastCheckpointIn(stateDir: string): { file: string; former?: string } {
  const [file, former] = [join(stateDir, 'last-checkpoint'), join(stateDir, 'witness')];
  if (existsSync(file) || !existsSync(former)) return { file };
  return {
    file: former,
    former: `${former} is now called last-checkpoint: rename it while the daemon is stopped`,
  };
}

/** A Unix socket alone has none: then the file must say it. */
function defaultUrl({ listen, tls }: ConfigTables['http']): string {
  const address = listen.find((each) => 'host' in each);
  assert(address, 'the file was checked for it');
  return `${tls ? 'https' : 'http'}://${formatAddress(address)}`;
}

interface Place {
  environment: string;
  /** Of the config file. */
  folder: string;
  stateDir: string;
}

type LogToken = ConfigTables['kms']['partitions'][number];
type TimestampToken = ConfigTables['timestamp']['keys'][number];

/** A log key is on a token with a PIN, or it is a software key: either way there is one secret, in one file. */
function toLogPartition(
  { softwareKeyFile, softwareKeyCredential, pinFile, pinCredential, ...token }: LogToken,
  place: Place,
) {
  return {
    ...token,
    ...secretOf(softwareKeyFile ?? pinFile, softwareKeyCredential ?? pinCredential, place),
  };
}

function toPartition({ pinFile, pinCredential, ...token }: TimestampToken, place: Place) {
  return { ...token, ...secretOf(pinFile, pinCredential, place) };
}

function secretOf(file: string | undefined, credential: string | undefined, place: Place) {
  const signer = credential && signerSocket(credential, place.environment);
  return {
    pinFile: secretFile(file, credential, place.environment),
    refusedPins: (credential && sharedRefusedPins(credential)) ?? join(place.stateDir, 'refused-pins'),
    ...(signer && { signer }),
    ...(credential !== undefined && {
      pinCredential: credential,
      pinSource: describeCredential(credential, place),
    }),
  };
}

/** One of the two is there. */
function secretFile(file: string | undefined, credential: string | undefined, environment: string): string {
  return credential === undefined ? (file ?? '') : credentialFile(credential, environment);
}
function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

/** The unit of the package makes `pin_<name>` from the file `<name>` of a folder (LoadCredential=); its copy goes with the process. */
function describeCredential(credential: string, { environment, folder }: Place): string {
  const [, name] = /^pin_(.+)$/.exec(credential) ?? [];
  return name === undefined
    ? `credential ${credential}`
    : `${join(folder, `${environment}.pins`, name)} (credential ${credential})`;
}
