import { bytesEqual } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import { documentSha256, isOfClient, type Job } from '../../job/job.ts';
import { HASH_BYTES, TILE_WIDTH, type Tile, tilePath, tileWidth } from '../../log/tiles.ts';
import { appendLeaves, emptyEdge, leafHash } from '../../log/tree.ts';
import { idOf, LEAST_UUID, ownUuid } from '../ids.ts';
import { indexStoreOf, JobsInWindows, windowName } from '../indexCheck.ts';
import type { IndexFlaw, IndexStore } from '../indexStore.ts';
import { parseJob } from '../jobCodec.ts';
import { encodeRecord } from '../records.ts';
import type { StoreIdentity } from '../store.ts';
import { type Database, type Queries, type Query, statements } from './database.ts';
import { referenceSha256 } from './jobRows.ts';
import { announcedBatch } from './logTable.ts';
import { messageFlaws, type TableFlaw } from './messageCheck.ts';
import { putNote } from './notes.ts';
import { putQuota, quotaCounts } from './quotaRows.ts';
import type { Writes } from './writes.ts';

const PAGE_JOBS = 1000;
/** Leaves hashed in one go: some milliseconds. */
const PAGE_LEAVES = 4096;

interface CheckedJob {
  id: string;
  client_id: string;
  organization: string;
  visibility: string;
  document_sha256: Buffer;
  reference_sha256: Buffer | null;
  record: Buffer;
  ended: boolean;
  received: boolean;
  waits: boolean;
  arrived: boolean;
  has_source: boolean;
}

const SQL = statements({
  checked_jobs: `SELECT j.*, ${isBeside('leaves')} OR ${isBeside('failures')} AS ended, ${isBeside('contents')} AS received,
      ${isBeside('waiting')} AS waits, ${isBeside('arrivals')} AS arrived, ${isBeside('sources')} AS has_source
    FROM jobs j WHERE j.id > $1 ORDER BY j.id LIMIT ${PAGE_JOBS}`,
  /** Waiting jobs that do not exist. */
  stray_waiting: 'SELECT job_id FROM waiting w WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = w.job_id)',
  checked_leaves: 'SELECT data FROM leaves WHERE leaf_index >= $1 AND leaf_index < $2 ORDER BY leaf_index',
  checked_size: 'SELECT tree_size FROM log_head',
  checked_tile: 'SELECT hashes FROM tiles WHERE level = $1 AND index = $2',
  checked_tiles:
    'SELECT level, index FROM tiles WHERE (level, index) > ($1, $2) ORDER BY level, index LIMIT 1000',
  mend_tile:
    'INSERT INTO tiles VALUES ($1, $2, $3) ON CONFLICT (level, index) DO UPDATE SET hashes = excluded.hashes',
  remove_tile: 'DELETE FROM tiles WHERE level = $1 AND index = $2',
  remove_waiting: 'DELETE FROM waiting WHERE job_id = $1',
  add_waiting: 'INSERT INTO waiting VALUES ($1) ON CONFLICT DO NOTHING',
  /** A job that a front accepted looks like one that a daemon accepted: it is examined before it is sealed. */
  // Its time of arrival is unknown.
  add_arrival: 'INSERT INTO arrivals (job_id, arrived_at) VALUES ($1, NULL) ON CONFLICT DO NOTHING',
  remove_source: 'DELETE FROM sources WHERE job_id = $1',
  mend_job: `UPDATE jobs SET client_id = $2, organization = $3, visibility = $4, document_sha256 = $5, reference_sha256 = $6
    WHERE id = $1`,
  remove_quota: 'DELETE FROM quotas WHERE client_id = $1 AND name = $2 AND starts_at = $3 AND ends_at = $4',
});

/**
 * Data that follows from other tables, and could differ from them: tiles, waiting jobs, finished sources, the columns that jobs are found
 * by, counts of quotas, messages to endpoints and their counts. All of it is read in one snapshot, so writes of a running daemon are not
 * flaws. Indexes proper are the database's own (`amcheck`).
 */
export function tableCheck(
  database: Database,
  writes: Writes,
  identity: StoreIdentity,
  clock: Clock,
): IndexStore {
  async function* flaws(): AsyncIterable<TableFlaw[]> {
    const { queries, end } = await database.snapshot();
    try {
      for await (const flaw of flawsOf(queries, clock())) yield [flaw];
    } finally {
      await end();
    }
  }

  return indexStoreOf({
    identity,
    clock,
    flaws,
    mend: ([mend]) => writes.run(async (queries) => mend?.(queries)),
    keepIdentity: (identity) => writes.run((queries) => putNote(queries, 'identity', encodeRecord(identity))),
  });
}

async function* flawsOf(queries: Queries, now: number): AsyncIterable<TableFlaw> {
  yield* tiles(queries);
  yield* strays(queries);
  const windows = new JobsInWindows(now);
  const announced = new Set((await announcedBatch(queries))?.jobIds);
  yield* jobs(queries, windows, announced);
  yield* quotas(queries, windows);
  yield* messageFlaws(queries);
}

/** The tiles of the tree that the leaves make (C2SP tlog-tiles), and no others. */
async function* tiles(queries: Queries): AsyncIterable<TableFlaw> {
  const [{ tree_size: size } = { tree_size: 0 }] = await queries.rows<{ tree_size: number }>(
    SQL.checked_size,
  );
  for (let edge = emptyEdge(); edge.size < size; ) {
    const rows = await queries.rows<{ data: Buffer }>(SQL.checked_leaves, [
      edge.size,
      Math.min(edge.size + PAGE_LEAVES, size),
    ]);
    if (rows.length === 0) break; // The log is damaged, which the check of its leaves reports.
    const grown = appendLeaves(
      edge,
      rows.map(({ data }) => leafHash(data)),
    );
    edge = grown.edge;
    for (const tile of grown.tiles) {
      const isFinal = tile.hashes.length === TILE_WIDTH * HASH_BYTES || edge.size === size;
      if (isFinal) yield* tileFlaw(queries, tile);
    }
  }
  for (let last = [-1, 0]; ; ) {
    const rows = await queries.rows<{ level: number; index: number }>(SQL.checked_tiles, last);
    for (const { level, index } of rows) {
      if (tileWidth(level, index, size) > 0) continue;
      const entry = tilePath({ level, index, width: TILE_WIDTH });
      const mend = (queries: Queries) => queries.rows(SQL.remove_tile, [level, index]);
      yield { index: 'tiles', kind: 'superfluous', entry, mend };
    }
    const end = rows.at(-1);
    if (end === undefined) return;
    last = [end.level, end.index];
  }
}

async function* tileFlaw(queries: Queries, { level, index, hashes }: Tile): AsyncIterable<TableFlaw> {
  const [stored] = await queries.rows<{ hashes: Buffer }>(SQL.checked_tile, [level, index]);
  if (stored && bytesEqual(stored.hashes, hashes)) return;
  const entry = tilePath({ level, index, width: TILE_WIDTH });
  const mend = (queries: Queries) => queries.rows(SQL.mend_tile, [level, index, Buffer.from(hashes)]);
  yield { index: 'tiles', kind: stored ? 'wrong' : 'missing', entry, mend };
}

async function* strays(queries: Queries): AsyncIterable<TableFlaw> {
  for (const { job_id } of await queries.rows<{ job_id: string }>(SQL.stray_waiting)) {
    const mend = (queries: Queries) => queries.rows(SQL.remove_waiting, [job_id]);
    yield { index: 'waiting', kind: 'superfluous', entry: idOf('job', job_id), mend };
  }
}

/** `announced`: jobs of the batch that is taken up at the next start, which were examined. */
async function* jobs(
  queries: Queries,
  windows: JobsInWindows,
  announced: ReadonlySet<string>,
): AsyncIterable<TableFlaw> {
  for (let last = LEAST_UUID; ; ) {
    const rows = await queries.rows<CheckedJob>(SQL.checked_jobs, [last]);
    for (const row of rows) {
      const job = readable(row);
      if (job === undefined) continue; // The check of the records themselves reports it.
      yield* jobFlaws(row, job, isOfClient(job) && !announced.has(job.id));
      windows.add(job);
    }
    const end = rows.at(-1);
    if (end === undefined) return;
    last = end.id;
  }
}

function readable({ id, record }: CheckedJob): Job | undefined {
  try {
    return parseJob(idOf('job', id), record);
  } catch {
    return undefined;
  }
}

function* jobFlaws(row: CheckedJob, job: Job, isToBeExamined: boolean): Iterable<TableFlaw> {
  const id = ownUuid('job', job.id);
  const of = (
    index: IndexFlaw['index'],
    kind: IndexFlaw['kind'],
    query: Query,
    values: unknown[] = [id],
  ): TableFlaw => ({
    index,
    kind,
    entry: job.id,
    mend: (queries) => queries.rows(query, values),
  });
  // A front can announce a job again after its end. The sealing daemon removes that entry when it next looks; no index is wrong because of
  // it.
  if (row.waits && row.ended) yield of('waiting', 'superfluous', SQL.remove_waiting);
  if (!row.waits && !row.arrived && !row.ended)
    yield of('waiting', 'missing', isToBeExamined ? SQL.add_arrival : SQL.add_waiting);
  const isFetched = job.content !== undefined || row.received || row.ended;
  if (row.has_source && isFetched) yield of('sources', 'superfluous', SQL.remove_source);
  const columns = [job.clientId, job.organization, job.visibility];
  const document = Buffer.from(documentSha256(job), 'hex');
  const reference = referenceSha256(job.customerReference) ?? null;
  const mending = [id, ...columns, document, reference];
  const isSeen = columns.join('\n') === [row.client_id, row.organization, row.visibility].join('\n');
  if (!isSeen) yield of('scopes', 'wrong', SQL.mend_job, mending);
  const isFound =
    document.equals(row.document_sha256) &&
    (reference === null
      ? row.reference_sha256 === null
      : reference.equals(row.reference_sha256 ?? Buffer.of()));
  if (!isFound) yield of('lookups', 'wrong', SQL.mend_job, mending);
}

/** The count of a window is that of its jobs. */
async function* quotas(queries: Queries, windows: JobsInWindows): AsyncIterable<TableFlaw> {
  const { counts } = windows;
  for (const count of await quotaCounts(queries)) {
    const entry = windowName(count);
    const counted = counts.get(entry);
    counts.delete(entry);
    if (counted?.jobs === count.jobs || (counted === undefined && windows.isOver(count.endsAt))) continue;
    const { clientId, name, startsAt, endsAt } = count;
    const mend = (queries: Queries): Promise<unknown> =>
      counted
        ? putQuota(queries, counted)
        : queries.rows(SQL.remove_quota, [clientId, name, startsAt, endsAt]);
    yield { index: 'quotas', kind: counted ? 'wrong' : 'superfluous', entry, mend };
  }
  for (const [entry, count] of counts)
    yield { index: 'quotas', kind: 'missing', entry, mend: (queries) => putQuota(queries, count) };
}

/** Whether the table has a row of `jobs AS j`. It is looked up for each job: a join could read the table from its beginning with every page. */
function isBeside(table: string): string {
  return `(SELECT job_id FROM ${table} WHERE job_id = j.id) IS NOT NULL`;
}
