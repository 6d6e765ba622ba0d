import type { Client } from 'pg';
import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { AcceptanceKeys } from '../acceptanceKeys.ts';
import { assertNotUnderRepair } from '../indexStore.ts';
import { assertNotMoving } from '../move.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { Store, StoreIdentity } from '../store.ts';
import { assertExpected, BACKLOG_MAX_DEFAULT, type NewStore, type OpenOptions } from '../storeOptions.ts';
import { Database } from './database.ts';
import { assertMayCreate, LAYOUT, layoutOf, migrate, type Use, usableLayoutOf } from './layout.ts';
import { readNote } from './notes.ts';
import {
  AWAY_MS_MAX,
  begin,
  clientOf,
  commitForSure,
  FRONT_AWAY_MS_MAX,
  isLost,
  type Location,
  NotPrimary,
  setupFault,
} from './pgSession.ts';
import { postgresqlStore } from './postgresqlStore.ts';
import { createRoles, ROLE_NAMES } from './roles.ts';
import { type Sequencing, takeTurn } from './sequencer.ts';
import { Writes } from './writes.ts';

const THERE = { place: 'the database', remedy: 'correct that key, or store.url' };

/** By default, every role of a server may connect to a database. */
const CLOSE_DATABASE = `DO $$ BEGIN
  IF (SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()) THEN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
  END IF;
END $$`;

interface OpenInPostgresql extends OpenOptions {
  location: Location;
  /** For the daemon: it waits until no other is active, and then brings an older layout up to date. A command does neither. */
  sequencing?: Sequencing;
  /** For a front: it accepts jobs for the sealing daemon, and does not wait for a turn. */
  front?: true;
  /** Time for which the database may not answer before this process gives up. */
  awayMsMax?: number;
  /** Given to a daemon or a front: see {@link AcceptanceKeys}. */
  acceptanceKeys?: readonly Uint8Array[] | undefined;
  /** Called when the disk of the server is found full, and when it has space again. */
  onFull?: (isFull: boolean) => void;
}

/** Makes an empty store in the database, whole or not at all. Throws OperatorError if there is one already. */
export async function createInPostgresql({
  location,
  identity,
  epoch,
  act,
}: NewStore & { location: Location }): Promise<void> {
  await onPrimary(location, async (client) => {
    await client.query('BEGIN');
    const layout = await layoutOf(client);
    if (layout !== undefined)
      throw new OperatorError('the database has a store of pdfseald already: a store is never overwritten');
    await migrate(client, 0);
    const whole = { schema: LAYOUT, ...identity };
    await client.query(`INSERT INTO notes VALUES ('identity', $1)`, [encodeRecord(whole)]);
    await client.query('INSERT INTO epochs VALUES (0, $1)', [encodeRecord([epoch])]);
    await client.query(CLOSE_DATABASE);
    await commitForSure(client);
  });
  if (act === undefined) return;
  const store = await openInPostgresql({ location });
  try {
    await store.trail.append(act);
  } finally {
    await store.close();
  }
}

/**
 * Opens a store that {@link createInPostgresql} made. Throws OperatorError if there is none, if it belongs to another environment or log,
 * or if its layout is of a newer program, or of an older one and no daemon brought it up to date.
 */
export async function openInPostgresql({
  location,
  expected = {},
  sequencing,
  front,
  repairing = false,
  moving = false,
  clock = systemClock,
  monotonicMs = () => performance.now(),
  awayMsMax = front ? FRONT_AWAY_MS_MAX : AWAY_MS_MAX,
  backlogMax = BACKLOG_MAX_DEFAULT,
  acceptanceKeys,
  onFull,
}: OpenInPostgresql): Promise<Store> {
  const use: Use = front ? 'front' : sequencing ? 'sealing' : 'command';
  // A daemon that could not use the store must not end the active one's turn, nor fail only when it takes over.
  const prepare = async (client: Client) => {
    await assertDurable(client);
    const layout = await usableLayoutOf(client, 'sealing');
    const { rows } = await client.query<{ record: Buffer }>(
      `SELECT record FROM notes WHERE name = 'identity'`,
    );
    assertExpected(identityIn(rows[0]?.record), expected, THERE);
    if (layout < LAYOUT) await bringUpToDate(client);
  };
  const turn = sequencing && (await takeTurn(location, { ...sequencing, awayMsMax, prepare }));
  const database = new Database(location, {
    ...{ awayMsMax, onFull },
    fence: turn?.fence,
    isFront: use === 'front',
  });
  const writes = new Writes(database, turn);
  const close = async () => {
    await writes.close();
    await turn?.close();
    await database.close();
  };
  try {
    await assertLayout(location, use);
    const identity = identityIn(await readNote(database, 'identity'));
    assertExpected(identity, expected, THERE);
    if (!repairing) assertNotUnderRepair('the store in the database', identity);
    if (!moving) assertNotMoving('the database', identity);
    const store = await postgresqlStore({
      database,
      writes,
      identity,
      use,
      acceptanceKeys,
      clock,
      monotonicMs,
      backlogMax,
      close,
    });
    await store.epochs.newest();
    return store;
  } catch (error) {
    await close();
    throw setupFault(error) ?? error;
  }
}

function identityIn(bytes: Buffer | undefined): StoreIdentity {
  if (bytes === undefined) throw new OperatorError('the database has no store of pdfseald');
  return parseRecord<StoreIdentity>(bytes, 'the identity of the store');
}

async function assertLayout(location: Location, use: Use): Promise<void> {
  await onPrimary(location, async (client) => {
    const layout = await usableLayoutOf(client, use);
    if (layout === LAYOUT) return;
    throw new OperatorError(
      `the store in the database was made by an older pdfseald (layout ${layout}, this program writes ${LAYOUT}): start the daemon, which migrates it`,
      { code: 'older_store' },
    );
  });
}

/** An active older daemon could not continue with newer tables: its turn ends with the same commit. */
async function bringUpToDate(client: Client): Promise<void> {
  await client.query('BEGIN; SELECT FROM sequencer FOR UPDATE');
  const layout = await usableLayoutOf(client, 'sealing');
  if (layout < LAYOUT) {
    await client.query('UPDATE sequencer SET fence = gen_random_uuid()');
    await migrate(client, layout);
  }
  await commitForSure(client);
}

/** Makes the roles pdfseal_front, pdfseal_seal and pdfseal_admin if the server lacks them, and grants their rights in the database. */
export async function makeRolesInPostgresql(location: Location): Promise<readonly string[]> {
  await onPrimary(location, async (client) => {
    await client.query('BEGIN');
    await createRoles(client);
    await migrate(client, await usableLayoutOf(client, 'sealing'));
    await commitForSure(client);
  });
  return ROLE_NAMES;
}

/** Whether the database has a store, whatever state it is in. Throws OperatorError if no primary answers. */
export async function isInPostgresql(location: Location): Promise<boolean> {
  let layout: number | undefined;
  await onPrimary(location, async (client) => {
    layout = await layoutOf(client);
  });
  return layout !== undefined;
}

/** Throws OperatorError if the role may not make a store in the database, or if no primary answers. */
export function assertMayCreateInPostgresql(location: Location): Promise<void> {
  return onPrimary(location, assertMayCreate);
}

/** Runs `work` on a connection of its own. Throws OperatorError if no server is a primary that answers and keeps its promises. */
async function onPrimary(location: Location, work: (client: Client) => Promise<void>): Promise<void> {
  let last: unknown;
  for (const server of location.urls.keys()) {
    const client = clientOf(location, server, 600_000);
    try {
      await client.connect();
      await begin(client, { statementMsMax: 0 });
      await assertDurable(client);
      await work(client);
      return;
    } catch (error) {
      const fault = setupFault(error);
      if (error instanceof OperatorError || (!isLost(error) && fault === undefined)) throw error;
      last = fault ?? error;
    } finally {
      client.end().catch(() => {});
    }
  }
  if (last instanceof OperatorError) throw last;
  const reason = last instanceof NotPrimary ? 'no server is a primary' : (last as Error).message;
  throw new OperatorError(`the database of the store cannot be reached: ${reason}`, {
    cause: last,
    code: 'database_unreachable',
    remedy: 'check store.url, and that the server runs',
  });
}

/** With these off, a loss of power undoes acknowledged data. */
async function assertDurable(client: Client): Promise<void> {
  for (const name of ['fsync', 'full_page_writes']) {
    const { rows } = await client.query<{ value: string }>('SELECT current_setting($1) AS value', [name]);
    if (rows[0]?.value !== 'on')
      throw new OperatorError(
        `the database has ${name} off: what it acknowledges can be lost with power; set ${name} = on`,
      );
  }
}
