/** The one place that knows which engine keeps a log. */
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { OperatorError } from '../base/errors.ts';
import { type CreateStoreOptions, createStore, type OpenStoreOptions, openStore } from './lmdb/open.ts';
import type { Store } from './store.ts';

/** Where a store is, as the configuration names it. */
export type StoreLocation =
  | { readonly engine: 'lmdb'; readonly path: string }
  | {
      readonly engine: 'postgresql';
      /** One for each server that may be the primary. */
      readonly urls: readonly string[];
      readonly passwordFile?: string;
    };

export type StoreOptions = Omit<OpenStoreOptions, 'path'>;

/** Makes an empty store, whole or not at all. Throws OperatorError when there is one already. */
export async function createStoreAt(
  location: StoreLocation,
  options: Omit<CreateStoreOptions, 'path'>,
): Promise<void> {
  if (location.engine === 'lmdb') return createStore({ path: location.path, ...options });
  throw notBuilt();
}

/** Opens a store that {@link createStoreAt} made. Throws OperatorError when it cannot be opened, with the remedy. */
export async function openStoreAt(location: StoreLocation, options: StoreOptions): Promise<Store> {
  if (location.engine === 'lmdb') return openStore({ path: location.path, ...options });
  throw notBuilt();
}

/** Whether there is a store, whatever state it is in. */
export async function storeExists(location: StoreLocation): Promise<boolean> {
  if (location.engine === 'lmdb') return existsSync(location.path);
  throw notBuilt();
}

/** Bytes it takes on disk. */
export async function storeBytes(location: StoreLocation): Promise<number> {
  if (location.engine === 'lmdb') return (await stat(join(location.path, 'data.mdb'))).size;
  throw notBuilt();
}

/** How a store is called in messages. */
export function describeStore(location: StoreLocation): string {
  return location.engine === 'lmdb' ? location.path : location.urls.join(', ');
}

/** The folder of the store, for what works on its files. Throws OperatorError, with what to do instead, where a database has it. */
export function requireFolder(location: StoreLocation, instead: string): string {
  if (location.engine === 'lmdb') return location.path;
  throw new OperatorError(`the log is in PostgreSQL: ${instead}`);
}

function notBuilt(): OperatorError {
  return new OperatorError('this version cannot open a store in PostgreSQL: set store.engine to "lmdb"');
}
