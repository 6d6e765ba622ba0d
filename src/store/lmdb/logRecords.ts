import { assert } from '../../base/assert.ts';
import { remember } from '../../base/remember.ts';
import { assertWholeBatch } from '../jobRules.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { AnnouncedBatch, Batch, Leaf, LogStore } from '../store.ts';
import { StoreError } from '../storeError.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases, Range } from './databases.ts';
import type { EpochRecords } from './epochRecords.ts';
import type { JobRecords } from './jobRecords.ts';
import { counterKey, parseCounterKey, tileKey } from './keyLayout.ts';
import type { OutboxRecords } from './outboxRecords.ts';
import { encodeLeaf, parseLeaf } from './outcomeRecords.ts';

/** A page of a list may need the time of another batch for each job, and the record of a batch is long. */
const TIMES_REMEMBERED = 16_384;
/** Stored next to the identity, as the only batch of its kind. */
const ANNOUNCED_KEY = Buffer.from('announced');

/** Sealing time of the leaves of a batch. It never changes. */
type BatchTime = Pick<Batch, 'firstLeaf' | 'treeSize' | 'sealedAt'>;

/** Parts of the store that are written together with a batch. */
interface Beside {
  jobs: JobRecords;
  outbox: OutboxRecords;
  epochs: EpochRecords;
}

/** What `work` returns, or the conflict that it throws. */
function unlessConflict<Result>(work: () => Result): Result | StoreError {
  try {
    return work();
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
}

/** The transparency log: leaves, tiles, and the batches that explain them. */
export function logRecords(databases: Databases, commits: Commits, beside: Beside): LogStore {
  async function readAnnounced(): Promise<AnnouncedBatch | undefined> {
    const bytes = databases.identity.getBinary(ANNOUNCED_KEY);
    return bytes && parseRecord<AnnouncedBatch>(bytes, 'the announced batch');
  }

  const timeOfSize = remember(TIMES_REMEMBERED, (size): BatchTime | undefined => {
    const bytes = databases.batches.getBinary(counterKey(Number(size)));
    if (bytes === undefined) return undefined;
    const { firstLeaf, treeSize, sealedAt } = parseRecord<Batch>(bytes);
    return { firstLeaf, treeSize, sealedAt };
  });
  /** The time of the last requested leaf: the jobs of a page were often sealed together. */
  let last: BatchTime | undefined;

  return {
    async commit(batch) {
      const { leaves, tiles, epochsRevision, ...evidence } = batch;
      const epochsChanged = beside.epochs.after(epochsRevision);
      const happened = await commits.serially(async () => {
        const { firstLeaf, treeSize, sealedAt } = evidence;
        const announced = await readAnnounced();
        assert(
          announced === undefined || announced.checkpoint === evidence.checkpoint,
          'witnesses may have seen another batch',
        );
        const size = logSize(databases);
        assert(size === firstLeaf, `the log has ${size} leaves, the batch begins at ${firstLeaf}`);
        assertWholeBatch(batch);
        const conflicts = new Map<string, StoreError>();
        const sealed = leaves.flatMap((one, offset) => {
          const adding = unlessConflict(() => beside.jobs.seal(one, firstLeaf + offset));
          if (adding instanceof StoreError) {
            conflicts.set(one.jobId, adding);
            return [];
          }
          const { key, changes, written } = adding;
          const leaf = {
            database: databases.leaves,
            key: counterKey(firstLeaf + offset),
            value: encodeLeaf(key, one.data),
          };
          return [{ key, clientId: one.clientId, changes: [leaf, ...changes], written }];
        });
        if (conflicts.size > 0) {
          for (const { written } of sealed) written(false);
          return conflicts;
        }
        const changes: Change[] = [
          ...sealed.flatMap((leaf) => leaf.changes),
          ...tiles.map(({ level, index, hashes }) => ({
            database: databases.tiles,
            key: tileKey(level, index),
            value: hashes,
          })),
          {
            database: databases.batches,
            key: counterKey(treeSize),
            value: encodeRecord(evidence satisfies Batch),
          },
          ...(announced ? [{ database: databases.identity, key: ANNOUNCED_KEY }] : []),
        ];
        const isNext = { database: databases.leaves, key: counterKey(firstLeaf) };
        const unless = announced ? [isNext] : [isNext, epochsChanged];
        let isWritten = false;
        try {
          isWritten = await beside.outbox.tell('job.completed', sealedAt, sealed, { unless, changes });
        } finally {
          for (const { written } of sealed) written(isWritten);
        }
        return isWritten;
      });
      assert(
        happened || epochsChanged.database.doesExist(epochsChanged.key),
        `leaf ${evidence.firstLeaf} was written by another process`,
      );
      return happened;
    },

    async announce(batch) {
      const { identity: database, leaves } = databases;
      const epochsChanged = beside.epochs.after(batch.epochsRevision);
      return commits.serially(async () => {
        const size = logSize(databases);
        assert(
          size === batch.firstLeaf,
          `the log has ${size} leaves, the batch begins at ${batch.firstLeaf}`,
        );
        assert((await readAnnounced()) === undefined, 'another batch is announced');
        const changes = [{ database, key: ANNOUNCED_KEY, value: encodeRecord(batch) }];
        const unless = [{ database: leaves, key: counterKey(size) }, epochsChanged];
        return commits.write({ changes, unless });
      });
    },

    announced: readAnnounced,
    head: async () => firstBatch(databases, { reverse: true }),
    batchOf: async (leafIndex) => batchOfLeaf(databases, leafIndex),

    async sealedAt(leafIndex) {
      if (last !== undefined && leafIndex >= last.firstLeaf && leafIndex < last.treeSize)
        return last.sealedAt;
      for (const key of databases.batches.getKeys({ start: counterKey(leafIndex + 1), limit: 1 })) {
        last = timeOfSize(`${parseCounterKey(key)}`);
        return last?.sealedAt;
      }
      return undefined;
    },

    async batchAt(treeSize) {
      const bytes = databases.batches.getBinary(counterKey(treeSize));
      return bytes && parseRecord<Batch>(bytes);
    },

    leaves: async (from, to) => readLeaves(databases, from, to),
    tile: async (level, index) => databases.tiles.getBinary(tileKey(level, index)),
  };
}

/** Number of leaves. */
export function logSize({ leaves }: Databases): number {
  for (const key of leaves.getKeys({ reverse: true, limit: 1 })) return parseCounterKey(key) + 1;
  return 0;
}

export function readLeaves({ leaves }: Databases, from: number, to: number): Leaf[] {
  const range = leaves.getRange({ start: counterKey(from), end: counterKey(to) });
  return Array.from(range, ({ value }) => parseLeaf(value));
}

export function batchOfLeaf(databases: Databases, leafIndex: number): Batch | undefined {
  return firstBatch(databases, { start: counterKey(leafIndex + 1) });
}

function firstBatch({ batches }: Databases, range: Range): Batch | undefined {
  for (const { value } of batches.getRange({ ...range, limit: 1 })) return parseRecord<Batch>(value);
  return undefined;
}
