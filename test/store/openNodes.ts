/** A daemon that seals, and fronts of one log, as stores. */
import type { Test } from 'tap';
import {
  createInPostgresql,
  makeRolesInPostgresql,
  openInPostgresql,
} from '../../src/store/postgresql/postgresqlOpen.ts';
import type { Store } from '../../src/store/store.ts';
import type { Postgres } from '../support/postgres.ts';
import { epoch, identity } from './samples.ts';

export interface Nodes {
  database: string;
  active: Store;
  openFront(): Promise<Store>;
}

export async function openNodes(t: Test, postgres: Postgres): Promise<Nodes> {
  await postgres.query('ALTER ROLE pdfseal CREATEROLE');
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  await createInPostgresql({ location, identity, epoch });
  await makeRolesInPostgresql(location);
  await postgres.query(`GRANT pdfseal_front TO node; GRANT CONNECT ON DATABASE ${database} TO node`);
  const active = await openInPostgresql({ location, sequencing: { onWait: t.fail, onLost: t.fail } });
  t.teardown(() => active.close());
  const openFront = async () => {
    const front = await openInPostgresql({
      location: { urls: [postgres.url(database, 'node')] },
      front: true,
      awayMsMax: 120_000, // However busy the machine is.
    });
    t.teardown(() => front.close());
    return front;
  };
  return { database, active, openFront };
}
