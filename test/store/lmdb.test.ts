import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createStore, openStore } from '../../src/store/lmdb.ts';
import { type MakeStore, storeContract } from './contract.ts';
import { identity } from './samples.ts';

let made = 0;
const makeStore: MakeStore = async (t: Test, clock = Date.now) => {
  made += 1;
  const path = join(t.testdir(), `store-${made}`);
  await createStore({ path, identity });
  let store = await openStore({ path, clock });
  t.teardown(async () => store.close());
  const reopen = async () => {
    await store.close();
    store = await openStore({ path, clock });
    return store;
  };
  return { store, reopen };
};

storeContract(t, makeStore);
