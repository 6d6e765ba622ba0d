import { acquireLock } from '../base/lock.ts';
import { type Config, loadConfig } from '../config/config.ts';
import type { ActName, ActObject } from '../manifest/auditRecord.ts';
import { actOfProcess, onRecord } from '../store/acts.ts';
import { openStoreAt, type StoreLocation, type StoreOptions, storeExists } from '../store/engines.ts';
import type { Store } from '../store/store.ts';

/**
 * Runs `work` on the store of a config file, and closes it. `thorough`: checks every reachable page before it reads. `alone`: writes, and
 * throws OperatorError while the daemon runs; otherwise the daemon can run. Needs no HSM.
 */
export async function withStore<T>(
  file: string,
  access: 'read' | 'thorough' | 'write' | 'alone',
  work: (store: Store, config: Config) => Promise<T>,
): Promise<T> {
  const config = loadConfig(file, { files: 'unused' });
  using _lock = access === 'alone' ? acquireLock(config.lockFile) : undefined;
  const options = {
    expected: { environment: config.environment, logOrigin: config.log.origin },
    readOnly: access !== 'write' && access !== 'alone',
    isThorough: access === 'thorough',
    backlogMax: config.webhooks.backlogMax,
  };
  return await withStoreAt(config.store, options, (store) => work(store, config));
}

/** Runs `work` on a store, and closes it. */
export async function withStoreAt<T>(
  location: StoreLocation,
  options: StoreOptions,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await openStoreAt(location, options);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/**
 * Does something other than a write to the store, as {@link onRecord} has it. If there is no log yet there is no audit trail either: that
 * begins with `pdfseal init`, which names what it finds.
 */
export async function actOnRecord<Result>(
  file: string,
  [name, object]: [ActName, ActObject],
  work: () => Promise<Result>,
  describe?: (result: Result) => ActObject,
): Promise<Result> {
  const { store } = loadConfig(file, { files: 'unused' });
  if (!(await storeExists(store))) return work();
  const act = actOfProcess('command', name, object);
  return withStore(file, 'write', ({ trail }) => onRecord(trail, act, work, describe));
}
