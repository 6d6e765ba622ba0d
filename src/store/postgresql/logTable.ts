import { assert } from '../../base/assert.ts';
import { sha256 } from '../../base/crypto.ts';
import { idOf, ownUuid } from '../ids.ts';
import { assertWholeBatch } from '../jobRules.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { AnnouncedBatch, Batch, LogStore, NewJob } from '../store.ts';
import { type Database, type Queries, type Query, statements, together } from './database.ts';
import { Conflicting, type JobTable } from './jobTable.ts';
import { putNote, readNote, removeNotes } from './notes.ts';
import type { OutboxTable } from './outboxTable.ts';
import { SharedReads } from './sharedReads.ts';
import type { Writes } from './writes.ts';

const SQL = statements({
  /** Until the transaction ends, no other process changes the epochs. */
  lock_epochs: `SELECT revision FROM revisions WHERE name = 'epochs' FOR SHARE`,
  lock_head: 'SELECT tree_size, checkpoint_sha256 FROM log_head FOR UPDATE',
  swap_head: `UPDATE log_head SET tree_size = $1, checkpoint_sha256 = $2
    WHERE tree_size = $3 AND checkpoint_sha256 = $4 RETURNING tree_size`,
  insert_leaves:
    'INSERT INTO leaves (leaf_index, job_id, data) SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bytea[])',
  put_tiles: `INSERT INTO tiles (level, index, hashes) SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bytea[])
    ON CONFLICT (level, index) DO UPDATE SET hashes = excluded.hashes`,
  insert_batch: 'INSERT INTO batches (tree_size, record) VALUES ($1, $2)',
  newest_batch: 'SELECT record FROM batches ORDER BY tree_size DESC LIMIT 1',
  /** Each batch once, however many of these leaves it has: with its time-stamp it is some kilobytes. */
  batches_of: `SELECT tree_size, record FROM (
      SELECT DISTINCT (SELECT tree_size FROM batches WHERE tree_size > leaf ORDER BY tree_size LIMIT 1) AS size
      FROM unnest($1::bigint[]) AS leaf
    ) AS sizes CROSS JOIN LATERAL (SELECT tree_size, record FROM batches WHERE tree_size = size LIMIT 1) AS batch
    ORDER BY tree_size`,
  batch_at: 'SELECT record FROM batches WHERE tree_size = $1',
  leaves: 'SELECT job_id, data FROM leaves WHERE leaf_index >= $1 AND leaf_index < $2 ORDER BY leaf_index',
  tile: 'SELECT hashes FROM tiles WHERE level = $1 AND index = $2',
});
export const NEWEST_BATCH = SQL.newest_batch;

interface Head {
  tree_size: number;
  checkpoint_sha256: Buffer;
}

/**
 * The transparency log. Its head is swapped against the one that this process wrote or read last: whatever else happened, there is one log.
 */
export function logTable(
  database: Database,
  writes: Writes,
  { jobs, outbox, onEnded }: { jobs: JobTable; outbox: OutboxTable; onEnded(): void },
): LogStore {
  /** Batches by leaf. A page of jobs requests those of all its jobs at one moment. */
  const batches = new SharedReads(async (leaves) => batchesOf(database, leaves));
  /** SHA-256 of the newest checkpoint; undefined until the first batch of this process. */
  let newest: Buffer | undefined;

  /** Throws BrokenInvariant unless the log ends where the batch begins, and as this process left it. */
  async function lockHead(queries: Queries, firstLeaf: number): Promise<Head> {
    const [head] = await queries.rows<Head>(SQL.lock_head);
    assert(head, 'the store has no head of the log');
    const { tree_size, checkpoint_sha256 } = head;
    assert(tree_size === firstLeaf, `the log has ${tree_size} leaves, the batch begins at ${firstLeaf}`);
    const isKnown = newest === undefined || newest.equals(checkpoint_sha256);
    assert(isKnown, `the newest checkpoint of the log is not the one that this process wrote`);
    return head;
  }

  async function swapHead(
    queries: Queries,
    from: Head,
    to: Pick<Batch, 'treeSize' | 'checkpoint'>,
  ): Promise<void> {
    const swapped = await queries.rows(SQL.swap_head, [
      to.treeSize,
      hashOf(to.checkpoint),
      from.tree_size,
      from.checkpoint_sha256,
    ]);
    assert(swapped.length === 1, 'the head of the log changed while a batch was written');
  }

  async function batch(query: Query, ...values: number[]): Promise<Batch | undefined> {
    const [row] = await database.rows<{ record: Buffer }>(query, values);
    return row && parseRecord<Batch>(row.record);
  }

  return {
    async commit(batch) {
      const { leaves, tiles, epochsRevision, ...evidence } = batch;
      const { firstLeaf, treeSize, sealedAt, checkpoint } = evidence satisfies Batch;
      assertWholeBatch(batch);
      const newJobs: NewJob[] = [];
      const waiting: string[] = [];
      for (const { jobId, newJob } of leaves) {
        if (newJob === undefined) waiting.push(jobId);
        else {
          assert(newJob.job.id === jobId && newJob.job.content, `${jobId} is not the new job of its leaf`);
          newJobs.push(newJob);
        }
      }
      const written = writes.run(async (queries) => {
        const [isCurrent, announced, head, addJobs] = await together([
          isAsDrafted(queries, epochsRevision),
          announcedBatch(queries),
          lockHead(queries, firstLeaf),
          jobs.admit(queries, newJobs),
        ]);
        const isOther = announced !== undefined && announced.checkpoint !== checkpoint;
        assert(!isOther, 'witnesses may have seen another batch');
        if (!isCurrent && announced === undefined) return undefined;
        const [told] = await together([
          outbox.tell(
            queries,
            'job.completed',
            sealedAt,
            leaves.map(({ jobId, clientId }) => ({ id: jobId, clientId })),
          ),
          waiting.length > 0 && jobs.endWaiting(queries, waiting),
          waiting.length > 0 && jobs.assertFetched(queries, waiting),
          addJobs(),
          queries.rows(SQL.insert_leaves, [
            leaves.map((_, offset) => firstLeaf + offset),
            leaves.map(({ jobId }) => ownUuid('job', jobId)),
            leaves.map(({ data }) => Buffer.from(data)),
          ]),
          queries.rows(SQL.put_tiles, [
            tiles.map(({ level }) => level),
            tiles.map(({ index }) => index),
            tiles.map(({ hashes }) => Buffer.from(hashes)),
          ]),
          queries.rows(SQL.insert_batch, [treeSize, encodeRecord(evidence)]),
          announced && removeNotes(queries, ['announced']),
          swapHead(queries, head, batch),
        ]);
        return told;
      });
      const told = await written.catch((error) => {
        if (error instanceof Conflicting) return error.conflicts;
        throw error;
      });
      if (told === undefined) return false;
      if (!Array.isArray(told)) return told;
      newest = hashOf(checkpoint);
      outbox.wake(told);
      if (waiting.length > 0) onEnded();
      return true;
    },

    async announce(batch) {
      return writes.run(async (queries) => {
        const [isCurrent, , announced] = await together([
          isAsDrafted(queries, batch.epochsRevision),
          lockHead(queries, batch.firstLeaf),
          announcedBatch(queries),
        ]);
        assert(announced === undefined, 'another batch is announced');
        if (!isCurrent) return false;
        await together([
          jobs.keepArrivals(queries, batch.jobIds),
          putNote(queries, 'announced', encodeRecord(batch)),
        ]);
        return true;
      });
    },

    announced: async () => announcedBatch(database),
    head: async () => batch(NEWEST_BATCH),
    batchOf: async (leafIndex) => (await batches.get(`${leafIndex}`))?.(),
    sealedAt: async (leafIndex) => (await batches.get(`${leafIndex}`))?.().sealedAt,
    batchAt: async (treeSize) => batch(SQL.batch_at, treeSize),

    async leaves(from, to) {
      const rows = await database.rows<{ job_id: string; data: Buffer }>(SQL.leaves, [from, to]);
      return rows.map(({ job_id, data }) => ({ jobId: idOf('job', job_id), data }));
    },

    async tile(level, index) {
      const [row] = await database.rows<{ hashes: Buffer }>(SQL.tile, [level, index]);
      return row?.hashes;
    },
  };
}

async function isAsDrafted(queries: Queries, epochsRevision: number): Promise<boolean> {
  const [row] = await queries.rows<{ revision: number }>(SQL.lock_epochs);
  return row?.revision === epochsRevision;
}

export async function announcedBatch(queries: Queries): Promise<AnnouncedBatch | undefined> {
  const bytes = await readNote(queries, 'announced');
  return bytes && parseRecord<AnnouncedBatch>(bytes, 'the announced batch');
}

/** A reader for the batch of each leaf: of batches read at one moment, a damaged one fails only for callers that need it. */
async function batchesOf(queries: Queries, leaves: readonly string[]): Promise<Map<string, () => Batch>> {
  const rows = await queries.rows<{ tree_size: number; record: Buffer }>(SQL.batches_of, [leaves]);
  const batches = rows.map(({ tree_size, record }) => {
    let batch: Batch | undefined;
    const read = () => {
      batch ??= parseRecord<Batch>(record);
      return batch;
    };
    return { treeSize: tree_size, read };
  });
  const found = new Map<string, () => Batch>();
  // Both are ascending: each batch is passed once.
  let at = 0;
  for (const leaf of leaves.toSorted((a, b) => Number(a) - Number(b))) {
    while ((batches[at]?.treeSize ?? Infinity) <= Number(leaf)) at += 1;
    const batch = batches[at];
    if (batch !== undefined) found.set(leaf, batch.read);
  }
  return found;
}

function hashOf(checkpoint: string): Buffer {
  return Buffer.from(sha256(Buffer.from(checkpoint)));
}
