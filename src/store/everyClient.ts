/** The jobs of all clients in one list, for those who may see everything. */
import type { JobRecord } from '../job/job.ts';
import type { JobPage, JobQuery, Store } from './store.ts';

export interface EveryJobQuery extends Omit<JobQuery, 'viewer'> {
  /** Only jobs of this client. */
  clientId?: string;
}

/** How many records one page may take from the lists of all clients together, or one from each if there are more clients. */
const RECORDS_MAX = 1000;

/**
 * Jobs of all clients that ever had a credential, newest first: credentials are never removed. As with {@link JobPage}, a page can be
 * short, or empty, and still say where to go on. The work is that of one bounded list for each client.
 */
export async function listEveryClient(
  store: Pick<Store, 'jobs' | 'credentials'>,
  { clientId, ...query }: EveryJobQuery,
): Promise<JobPage> {
  const clients = clientId === undefined ? await clientsOf(store) : [clientId];
  const share = Math.max(1, Math.floor(RECORDS_MAX / Math.max(1, clients.length)));
  const limit = Math.min(query.limit, share);
  const pages = await Promise.all(
    clients.map((client) =>
      // Of no organization: the lists of the clients are disjoint, and their union is everything.
      store.jobs.list({
        ...query,
        limit,
        viewer: { clientId: client, organization: '', partnerOf: [] },
      }),
    ),
  );
  return merge(pages, query.limit);
}

/** The clients that ever had a credential, in the order of their names. */
export async function clientsOf({ credentials }: Pick<Store, 'credentials'>): Promise<string[]> {
  return [...new Set((await credentials.all()).map(({ clientId }) => clientId))].sort();
}

/** Below where the first list ends that goes on, others may have jobs between those of the pages. */
function merge(pages: readonly JobPage[], limit: number): JobPage {
  const ends = pages.flatMap(({ next }) => (next === undefined ? [] : [next]));
  const end = ends.reduce<string | undefined>((a, b) => (a !== undefined && a > b ? a : b), undefined);
  const known = pages
    .flatMap(({ records }) => records)
    .filter(({ job }) => end === undefined || job.id >= end)
    .sort(newestFirst);
  const records = known.slice(0, limit);
  const next = known.length > limit ? records.at(-1)?.job.id : end;
  return { records, ...(next !== undefined && { next }) };
}

function newestFirst(one: JobRecord, other: JobRecord): number {
  return one.job.id < other.job.id ? 1 : -1;
}
