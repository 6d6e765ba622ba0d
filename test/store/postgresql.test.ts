import t, { type Test } from 'tap';
import type { Clock } from '../../src/base/clock.ts';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { startPostgres } from '../support/postgres.ts';
import { storeContract } from './contract.ts';
import { epoch, identity } from './samples.ts';

const postgres = await startPostgres(t, { settings: { max_connections: '500' } }); // A property opens many stores.
const template = await postgres.createDatabase();
await createInPostgresql({ location: { urls: [postgres.url(template)] }, identity, epoch });

const makeStore = async (t: Test, clock: Clock = Date.now, options: { backlogMax?: number } = {}) => {
  const location = { urls: [postgres.url(await postgres.createDatabase(template))] };
  const open = () =>
    openInPostgresql({
      location,
      clock,
      monotonicMs: clock,
      sequencing: { onWait: () => {}, onLost: t.fail },
      acceptanceKeys: [Buffer.alloc(32, 1)],
      ...options,
    });
  let store = await open();
  t.teardown(async () => store.close());
  const reopen = async (meanwhile = () => {}) => {
    await store.serviceTime.keep(clock());
    await store.close();
    meanwhile();
    store = await open();
    return store;
  };
  return { store, reopen };
};

storeContract(t, makeStore);
