import type { Clock } from '../../base/clock.ts';
import { AcceptanceKeys } from '../acceptanceKeys.ts';
import { readable } from '../records.ts';
import { openServiceTime, type ServiceTimePoint } from '../serviceTime.ts';
import type { Store, StoreIdentity } from '../store.ts';
import { witnessStoreIn } from '../witnessStore.ts';
import { acceptanceTable } from './acceptanceTable.ts';
import { arrivalTable } from './arrivalTable.ts';
import { copyTable } from './copyTable.ts';
import { credentialTable } from './credentialTable.ts';
import { type Database, together } from './database.ts';
import { endpointTable } from './endpointTable.ts';
import { epochTable } from './epochTable.ts';
import { IdempotencyTable } from './idempotencyTable.ts';
import { insertArrivals, insertJobs, insertWaiting } from './jobRows.ts';
import { jobTable } from './jobTable.ts';
import type { Use } from './layout.ts';
import { logTable, NEWEST_BATCH } from './logTable.ts';
import { nodeTalk } from './nodeTalk.ts';
import { noteIn, readNote } from './notes.ts';
import { Notifier } from './notifier.ts';
import { outboxTable } from './outboxTable.ts';
import { renewalTable } from './renewalTable.ts';
import { sealingTable } from './sealingTable.ts';
import { tableCheck } from './tableCheck.ts';
import { trailTable } from './trailTable.ts';
import type { Writes } from './writes.ts';

/** Interval at which a front brings its service time in line with that of the sealing daemon. */
const FOLLOW_MS = 30_000;

export interface PostgresqlParts {
  database: Database;
  writes: Writes;
  identity: StoreIdentity;
  use: Use;
  /** Given to a node that accepts jobs. */
  acceptanceKeys?: readonly Uint8Array[] | undefined;
  clock: Clock;
  monotonicMs: Clock;
  backlogMax: number;
  close(): Promise<void>;
}

/** The store in a PostgreSQL database. Every group of the contract is one object over tables of its own. */
export async function postgresqlStore(parts: PostgresqlParts): Promise<Store> {
  const { database, writes, identity, use, clock, monotonicMs, backlogMax } = parts;
  const isFront = use === 'front';
  const keys = parts.acceptanceKeys && new AcceptanceKeys(parts.acceptanceKeys, identity);
  const [newest] = await database.rows<{ record: Buffer }>(NEWEST_BATCH);
  const kept = noteIn(database, writes, 'service_time');
  // The sealing daemon keeps it.
  const time = isFront ? { ...kept, write: async () => {} } : kept;
  const serviceTime = await openServiceTime(time, newest?.record, { clock, monotonicMs });
  /** Never rejects: the next read reports the error. */
  const follow = async () => {
    const bytes = await readNote(database, 'service_time').catch(() => undefined);
    const point = readable<ServiceTimePoint>(bytes);
    if (point !== undefined) serviceTime.follow(point);
  };
  const following = isFront && setInterval(() => void follow(), FOLLOW_MS).unref();
  const notifier =
    use === 'command' ? undefined : new Notifier(database, isFront ? 'pdfseal_ended' : 'pdfseal_accepted');
  const nodes = notifier && nodeTalk(notifier, isFront ? 'front' : 'sealing');
  const trail = trailTable(database, writes, {
    environment: identity.environment,
    clock,
    accept: async (queries, job) => {
      await together([
        insertJobs(queries, [{ job, acceptance: {} }]),
        insertWaiting(queries, [{ id: job.id, mac: null }]),
      ]);
    },
  });
  const endpoints = endpointTable(database, trail);
  const outbox = outboxTable(database, writes, endpoints, { clock, serviceTime, backlogMax });
  const idempotency = new IdempotencyTable(isFront ? undefined : serviceTime);
  const onEnded = () => notifier?.notify('pdfseal_ended');
  const jobs = jobTable(database, writes, {
    idempotency,
    outbox,
    insertWaiting: isFront ? insertArrivals : insertWaiting,
    keys,
    onAccepted: () => {
      if (isFront) notifier?.notify('pdfseal_accepted');
    },
    onEnded,
  });
  return {
    identity,
    jobs,
    copies: copyTable(database, writes),
    log: logTable(database, writes, { jobs, outbox, onEnded }),
    epochs: epochTable(database, trail),
    credentials: credentialTable(database, writes, trail),
    webhooks: { endpoints, outbox },
    trail,
    witnessing: witnessStoreIn(noteIn(database, writes, 'witnessing')),
    renewals: renewalTable(database, writes, trail),
    serviceTime,
    indexes: tableCheck(database, writes, identity, clock),
    space: database.space,
    nodes,
    ...(keys && !isFront && { acceptances: acceptanceTable(database, trail, keys) }),
    ...(notifier && !isFront && { arrivals: arrivalTable({ database, writes, notifier, keys }) }),
    ...(notifier && isFront && { sealing: sealingTable(database, notifier, keys) }),
    close: async () => {
      if (following) clearInterval(following);
      nodes?.leave();
      await notifier?.close();
      await parts.close();
    },
  };
}
