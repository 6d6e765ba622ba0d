/** The jobs of all clients in one list, for viewers who may see everything. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Job, JobRecord } from '../job/job.ts';
import type { Credential } from './credentialStore.ts';
import type { JobPage, JobQuery, Store } from './store.ts';

export interface EveryJobQuery extends Omit<JobQuery, 'viewer'> {
  /** Only jobs of this client. */
  clientId?: string;
}

/**
 * Maximum number of records that a page reads before it ends short, or one of each client if there are more clients. A list without any
 * counts as one.
 */
const RECORDS_MAX = 1000;
/** Number of records read before other work of the process gets its turn. */
const STEP_RECORDS = 100;

/** The jobs of one client: those that are read and not listed yet, and the start of the rest. */
interface ClientList {
  readonly viewer: JobQuery['viewer'];
  records: JobRecord[];
  next: string | undefined;
}

/**
 * Lists jobs of all clients that ever had a credential, newest first, and only those that fit: credentials are never removed. As with
 * {@link JobPage}, a page can be short, or empty, and still have a `next`.
 */
export async function listEveryClient(
  store: Pick<Store, 'jobs' | 'credentials'>,
  { clientId, ...query }: EveryJobQuery,
  fits: (job: Job) => boolean = () => true,
): Promise<JobPage> {
  const clients = clientId === undefined ? await clientsOf(store) : [clientId];
  const share = Math.max(1, Math.floor(RECORDS_MAX / Math.max(1, clients.length)));
  const lists = clients.map((client): ClientList => {
    // Without an organization, the lists of the clients are disjoint, and their union is everything.
    const viewer = { clientId: client, organization: '', partnerOf: [] };
    return { viewer, records: [], next: query.before };
  });
  const found: JobRecord[] = [];
  let read = 0;
  for (let wanted = lists; ; ) {
    read += await readOn(store, wanted, { ...query, limit: Math.min(query.limit, share) });
    const end = newestNext(lists);
    const known = takeUntil(end, lists);
    for (const record of known) {
      if (!fits(record.job)) continue;
      found.push(record);
      const isLast = end === undefined && record === known.at(-1);
      if (found.length === query.limit) return { records: found, ...(!isLast && { next: record.job.id }) };
    }
    if (end === undefined) return { records: found };
    if (read >= RECORDS_MAX) return { records: found, next: end };
    wanted = lists.filter(({ next }) => next === end);
  }
}

/** The clients that ever had a credential, in the order of their names. */
export async function clientsOf({ credentials }: Pick<Store, 'credentials'>): Promise<string[]> {
  return clientNamesIn(await credentials.all());
}

export function clientNamesIn(credentials: readonly Pick<Credential, 'clientId'>[]): string[] {
  return [...new Set(credentials.map(({ clientId }) => clientId))].sort();
}

/** Continues each list where it ended. Returns the number of records read. */
async function readOn(
  { jobs }: Pick<Store, 'jobs'>,
  lists: readonly ClientList[],
  query: Omit<JobQuery, 'viewer'>,
): Promise<number> {
  const atOnce = Math.max(1, Math.floor(STEP_RECORDS / query.limit));
  let read = 0;
  for (let n = 0; n < lists.length; n += atOnce) {
    const some = lists.slice(n, n + atOnce).map(async (list) => {
      const from = list.next === undefined ? {} : { before: list.next };
      const { records, next } = await jobs.list({ ...query, ...from, viewer: list.viewer });
      Object.assign(list, { records, next });
      read += Math.max(1, records.length);
    });
    await Promise.all(some);
    await nextTurn();
  }
  return read;
}

/** The newest end of a list that continues: below it, that list may have jobs between those of the others. */
function newestNext(lists: readonly ClientList[]): string | undefined {
  return lists.reduce<string | undefined>(
    (newest, { next }) => (newest === undefined || (next !== undefined && next > newest) ? next : newest),
    undefined,
  );
}

/** Takes the jobs that are known to be next in the list of all, newest first: down to that id, or everything. */
function takeUntil(end: string | undefined, lists: readonly ClientList[]): JobRecord[] {
  const taken: JobRecord[] = [];
  for (const list of lists) {
    const own = list.records.filter(({ job }) => end === undefined || job.id >= end);
    list.records = list.records.slice(own.length);
    taken.push(...own);
  }
  return taken.sort(newestFirst);
}

function newestFirst(one: JobRecord, other: JobRecord): number {
  return one.job.id < other.job.id ? 1 : -1;
}
