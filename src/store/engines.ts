/** The one place that knows which engine keeps a log. What is of PostgreSQL is loaded only where a database has it. */
import { existsSync, readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { OperatorError } from '../base/errors.ts';
import { type SecretFault, withSecretFile } from '../base/secretFile.ts';
import { systemReason } from '../base/systemReason.ts';
import { type AcceptanceKeys, parseAcceptanceKeys } from './acceptanceKeys.ts';
import { lmdbContents } from './lmdb/lmdbContents.ts';
import { createStore, type OpenStoreOptions, openStore } from './lmdb/open.ts';
import type { ServerFacts } from './postgresql/inspection.ts';
import type { Sequencing } from './postgresql/sequencer.ts';
import type { Store } from './store.ts';
import type { StoreContents } from './storeContents.ts';
import type { NewStore } from './storeOptions.ts';

/** Location of a store, as the configuration names it. */
export type StoreLocation =
  | { readonly engine: 'lmdb'; readonly path: string }
  | {
      readonly engine: 'postgresql';
      /** One URL for each server that may be the primary. */
      readonly urls: readonly string[];
      readonly passwordFile?: string;
      /** See {@link AcceptanceKeys}: daemons and fronts read it, commands do not. */
      readonly acceptanceKeyFile?: string;
    };

export type { PrimaryFacts, ServerFacts } from './postgresql/inspection.ts';
export type { Sequencing } from './postgresql/sequencer.ts';

type DatabaseLocation = Extract<StoreLocation, { engine: 'postgresql' }>;

export interface StoreOptions extends Omit<OpenStoreOptions, 'path' | 'takesTurn'> {
  /** For a daemon: how it waits for its turn if others can be active at the same log. */
  sequencing?: Sequencing;
  /** For a front, which leaves sealing to another daemon. */
  front?: true;
  /** For a daemon: called when the disk of its database is found full, and when it has space again. */
  onFull?: (isFull: boolean) => void;
}

/** Makes an empty store, whole or not at all. Throws OperatorError if there is one already. */
export async function createStoreAt(location: StoreLocation, options: NewStore): Promise<void> {
  if (location.engine === 'lmdb') return createStore({ path: location.path, ...options });
  const { createInPostgresql } = await postgresql();
  return createInPostgresql({ location: reachable(location), ...options });
}

/** Opens a store that {@link createStoreAt} made. Throws OperatorError, with the remedy, if it cannot be opened. */
export async function openStoreAt(location: StoreLocation, options: StoreOptions): Promise<Store> {
  if (location.engine === 'lmdb')
    return openStore({ path: location.path, takesTurn: options.sequencing !== undefined, ...options });
  const { openInPostgresql } = await postgresql();
  const { acceptanceKeyFile: file } = location;
  const accepts = options.sequencing !== undefined || options.front === true;
  const acceptanceKeys = accepts && file !== undefined ? readAcceptanceKeys(file) : undefined;
  return openInPostgresql({ location: reachable(location), acceptanceKeys, ...options });
}

/** The keys in the file that `store.acceptance_key_file` names. Throws OperatorError. */
export function readAcceptanceKeys(file: string): Uint8Array[] {
  const keys = parseAcceptanceKeys(readSecret(ACCEPTANCE_KEY, file));
  if (keys !== undefined) return keys;
  throw unfit(ACCEPTANCE_KEY, file);
}

/** Opens the inside of a store, which no daemon may use meanwhile. Throws OperatorError while one is active in the database. */
export async function openContents(location: StoreLocation): Promise<StoreContents> {
  if (location.engine === 'lmdb') return lmdbContents(location.path);
  const { postgresqlContents } = await import('./postgresql/postgresqlContents.ts');
  return postgresqlContents(reachable(location));
}

/** Whether there is a store, whatever state it is in. Throws OperatorError if that cannot be determined. */
export async function storeExists(location: StoreLocation): Promise<boolean> {
  if (location.engine === 'lmdb') return existsSync(location.path);
  const { isInPostgresql } = await postgresql();
  return isInPostgresql(reachable(location));
}

/** Throws OperatorError, with the remedy, if this process may not make a store there. */
export async function assertMayCreateAt(location: StoreLocation): Promise<void> {
  if (location.engine === 'lmdb') return;
  const { assertMayCreateInPostgresql } = await postgresql();
  await assertMayCreateInPostgresql(reachable(location));
}

/** Makes the roles of a database, grants their rights, and returns their names. Throws OperatorError for another engine. */
export async function makeRolesAt(location: StoreLocation): Promise<readonly string[]> {
  if (location.engine === 'lmdb') throw new OperatorError('store.engine is "lmdb", which has no roles');
  const { makeRolesInPostgresql } = await postgresql();
  return makeRolesInPostgresql(reachable(location));
}

/** Facts that the servers of a database report about themselves. */
export async function inspectDatabase(location: DatabaseLocation): Promise<ServerFacts[]> {
  const { inspectServers } = await import('./postgresql/inspection.ts');
  return inspectServers(reachable(location));
}

function postgresql() {
  return import('./postgresql/postgresqlOpen.ts');
}

function reachable({ urls, passwordFile }: DatabaseLocation) {
  return { urls, ...(passwordFile !== undefined && { password: readPassword(passwordFile) }) };
}

function readPassword(file: string): string {
  const password = readSecret(PASSWORD, file).replace(/\r?\n$/, '');
  if (password !== '') return password;
  throw unfit(PASSWORD, file);
}

/** A file with a secret, as messages call both. */
interface SecretKind {
  holds: string;
  key: string;
  /** What is wrong with a file that holds no such secret, as an empty one does, and the remedy. */
  lacks: [fault: string, remedy: string];
}

const PASSWORD: SecretKind = {
  holds: 'the password of the database',
  key: 'store.password_file',
  lacks: [
    'is empty',
    'write the password into it, or remove store.password_file where the server asks for none',
  ],
};
const ACCEPTANCE_KEY: SecretKind = {
  holds: 'the acceptance key',
  key: 'store.acceptance_key_file',
  lacks: [
    'holds no acceptance key',
    'it must hold a line that `pdfseal store make-acceptance-key` made, or two while the key is changed, and nothing else',
  ],
};
/** A wrong path is not read whole. */
const SECRET_BYTES_MAX = 4096;

/** Throws OperatorError, also for a file that is open to others, or too large. */
function readSecret(kind: SecretKind, path: string): string {
  const { holds, key } = kind;
  const name = `the file with ${holds}`;
  const remedy = `correct ${key}, or the permissions of the file`;
  const failures: Record<SecretFault, (cause?: unknown) => OperatorError> = {
    unreadable: (cause) =>
      new OperatorError(`cannot read ${holds} in ${path} (${systemReason(cause)})`, { cause, remedy }),
    empty: () => unfit(kind, path),
    not_small: () => new OperatorError(`${name}, ${path}, is not a small regular file`, { remedy }),
    exposed: () =>
      new OperatorError(`${name}, ${path}, is open to others`, { remedy: `chmod o-rwx ${path}` }),
  };
  const fail = (fault: SecretFault, cause?: unknown) => failures[fault](cause);
  return withSecretFile(path, SECRET_BYTES_MAX, fail, (file) => {
    try {
      return readFileSync(file, 'utf8');
    } catch (cause) {
      throw fail('unreadable', cause);
    }
  });
}

function unfit({ holds, lacks: [fault, remedy] }: SecretKind, path: string): OperatorError {
  return new OperatorError(`the file with ${holds}, ${path}, ${fault}`, { remedy });
}

/** Size of the store on disk, in bytes. */
export async function storeBytes(location: StoreLocation): Promise<number> {
  if (location.engine === 'lmdb') return (await stat(join(location.path, 'data.mdb'))).size;
  const servers = await inspectDatabase(location);
  const primary = servers.find((server) => server.state === 'primary');
  if (primary === undefined) throw new OperatorError('no server of the database is a primary that answers');
  return primary.facts.bytes;
}

/** The name of a store in messages. */
export function describeStore(location: StoreLocation): string {
  return location.engine === 'lmdb' ? location.path : location.urls.join(', ');
}

/** The folder of the store, for operations on its files. Throws OperatorError, with the alternative, if the store is in a database. */
export function requireFolder(location: StoreLocation, instead: string): string {
  if (location.engine === 'lmdb') return location.path;
  throw new OperatorError(`the log is in PostgreSQL: ${instead}`);
}
