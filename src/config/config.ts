import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parse as parseToml, TomlError } from 'smol-toml';
import type * as z from 'zod';
import { assert } from '../base/assert.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { StoreLocation } from '../store/engines.ts';
import { formatAddress, type SocketPath } from '../web/address.ts';
import { consistent } from './consistency.ts';
import { makePathsAbsolute, renameFormerKeys } from './document.ts';
import { checkFiles, credentialFile, sharedRefusedPins, signerSocket } from './fileChecks.ts';
import { type ConfigTables, configSchema } from './schema.ts';
import { fault } from './toml.ts';

/**
 * The configuration of one daemon, deep-frozen: the values of the file as the schema reads them, and values that follow from several keys
 * together. Every part gets its own piece; paths are absolute.
 */
export type Config = Frozen<ReturnType<typeof toConfig>>;

type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T;

/**
 * `files: 'unused'` for commands that neither sign nor stamp: modules, PINs and roots may be missing. `by_hand`: only credentials may be
 * missing, since systemd provides them at a start.
 */
export interface LoadOptions {
  files?: 'needed' | 'unused' | 'by_hand';
  /** Receives a line for each fault of files that a start can do without. */
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

/** Like {@link loadConfig} on text already read; `file` names it in messages, and relative paths start at its folder. */
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
 * A daemon without keys of the log whose log is in a database is a front: it accepts jobs, and another daemon seals them. Tables that it
 * leaves out count as empty.
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

/** Without this, zod writes and compiles a parser for each table, which pays only if a schema is used often. */
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
  /** There is always a socket, and also the other address if one is configured. */
  const admin = { socket: { path: join(stateDir, 'admin.sock') }, ...adminAddressOf(tables.admin) };
  const besideAdmin = { path: join(dirname(admin.socket.path), 'console.sock') };
  const location = toStore(store, { environment, path: join(stateDir, 'store') });
  const last =
    log.lastCheckpointFile === undefined ? lastCheckpointIn(stateDir) : { file: log.lastCheckpointFile };
  return {
    ...tables,
    file: resolve(file),
    /** SHA-256 of the file's text, in hexadecimal. */
    sha256: createHash('sha256').update(text).digest('hex'),
    /** The content of the file, with absolute paths and current key names. */
    document,
    /** Keys and files under names of an earlier version, and the remedy: a sentence for each. */
    formerNames: [...formerKeys, ...(last.former === undefined ? [] : [last.former])],
    /** Whether the daemon is a front: it accepts jobs for a daemon that seals, and has no keys. */
    isFront,
    store: location,
    /** A folder on the disk that must have room: that of the store, or state_dir if the store is in a database. */
    diskDir: location.engine === 'lmdb' ? location.path : stateDir,
    lockFile: join(stateDir, 'lock'),
    trustFile: join(stateDir, 'trust.json'),
    /** The certificates of the built-in authority's keys. */
    certificatesDir: join(stateDir, 'certificates'),
    /** Folder for the records of signers that are children of the daemon. */
    signersDir: join(stateDir, 'signers'),
    /** Folder for copies of documents. */
    documentsDir: join(stateDir, 'documents'),
    http: {
      ...otherHttp,
      ...(tls && { tls: { ...tls, keyFile: secretFile(tls.keyFile, tls.keyCredential, environment) } }),
      /** Without a trailing slash and without `/v1`. */
      publicUrl: http.publicUrl ?? defaultUrl(http),
    },
    admin,
    ...(console && { console: toConsole(console, besideAdmin, environment) }),
    /** People whose certificates open the console. */
    people: console?.tls?.people ?? [],
    limits: otherLimits,
    /** After an outage, all jobs that waited can be sealed before an endpoint has answered once. */
    webhooks: { ...webhooks, backlogMax: Math.max(webhooks.backlogMax, limits.queueJobsMax) },
    /** Rates and quotas of clients. */
    policies: { rate, quotas, clients },
    log: { ...log, lastCheckpointFile: last.file },
    kms: { ...kms, partitions: kms.partitions.map((one) => toLogPartition(one, place)) },
    timestamp: { ...timestamp, keys: timestamp.keys.map((one) => toPartition(one, place)) },
  };
}

function toConsole(
  { listen, tls, ...others }: NonNullable<ConfigTables['console']>,
  besideAdmin: SocketPath,
  environment: string,
) {
  return { ...others, listen: listen ?? besideAdmin, ...(tls && { tls: toConsoleTls(tls, environment) }) };
}

/** Leaves out the people, whom a reload changes. Without a certificate, a person gets a page that says so. */
function toConsoleTls(
  { people: _, ...tls }: NonNullable<NonNullable<ConfigTables['console']>['tls']>,
  environment: string,
) {
  const keyFile = secretFile(tls.keyFile, tls.keyCredential, environment);
  return { ...tls, keyFile, clientCertificateRequired: false };
}

function toStore(
  { engine, urls = [], passwordFile, passwordCredential, ...keys }: ConfigTables['store'],
  { environment, path }: { environment: string; path: string },
): StoreLocation {
  if (engine === 'lmdb') return { engine, path };
  const { acceptanceKeyFile, acceptanceKeyCredential } = keys;
  const hasPassword = passwordFile !== undefined || passwordCredential !== undefined;
  return {
    engine,
    urls,
    ...(hasPassword && { passwordFile: secretFile(passwordFile, passwordCredential, environment) }),
    ...((acceptanceKeyFile ?? acceptanceKeyCredential) !== undefined && {
      acceptanceKeyFile: secretFile(acceptanceKeyFile, acceptanceKeyCredential, environment),
    }),
  };
}

function adminAddressOf({ listen }: ConfigTables['admin']) {
  if (listen === undefined) return {};
  return 'path' in listen ? { socket: listen } : { port: listen };
}

/** The default path of the file. If only the file of an earlier version is there, under its former name, that one is used. */
function lastCheckpointIn(stateDir: string): { file: string; former?: string } {
  const [file, former] = [join(stateDir, 'last-checkpoint'), join(stateDir, 'witness')];
  if (existsSync(file) || !existsSync(former)) return { file };
  return {
    file: former,
    former: `${former} is now called last-checkpoint: rename it while the daemon is stopped`,
  };
}

/** The URL of the first TCP address. If the API listens only on a Unix socket, the file must set the URL. */
function defaultUrl({ listen, tls }: ConfigTables['http']): string {
  const address = listen.find((each) => 'host' in each);
  assert(address, 'the file was checked for it');
  return `${tls ? 'https' : 'http'}://${formatAddress(address)}`;
}

interface Place {
  environment: string;
  /** Folder of the config file. */
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

/** Path of the secret, of which the configuration names either the file or the credential. */
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

/**
 * The unit of the package makes `pin_<name>` from the file `<name>` of a folder (LoadCredential=); the copy is removed with the process.
 */
function describeCredential(credential: string, { environment, folder }: Place): string {
  const [, name] = /^pin_(.+)$/.exec(credential) ?? [];
  return name === undefined
    ? `credential ${credential}`
    : `${join(folder, `${environment}.pins`, name)} (credential ${credential})`;
}
