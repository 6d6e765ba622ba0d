import { assert } from '../../base/assert.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { AnnouncedBatch, Batch, Leaf, LogStore, SealedBatch } from '../store.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases, Range } from './databases.ts';
import type { EpochRecords } from './epochRecords.ts';
import type { JobRecords } from './jobRecords.ts';
import { counterKey, parseCounterKey, tileKey } from './keyLayout.ts';
import type { Outbox } from './outbox.ts';
import { encodeLeaf, parseLeaf } from './outcomeRecords.ts';

/** Beside the identity, as the one batch it is about. */
const ANNOUNCED_KEY = Buffer.from('announced');

/** What is written together with a batch. */
interface Beside {
  jobs: JobRecords;
  outbox: Outbox;
  epochs: EpochRecords;
}

/** The transparency log: leaves, tiles, and the batches that explain them. */
export class LogRecords implements LogStore {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #beside: Beside;

  constructor(databases: Databases, commits: Commits, beside: Beside) {
    this.#databases = databases;
    this.#commits = commits;
    this.#beside = beside;
  }

  async commit(batch: SealedBatch): Promise<boolean> {
    const { leaves, tiles, epochsRevision, ...evidence } = batch;
    const epochsChanged = this.#beside.epochs.after(epochsRevision);
    const happened = await this.#commits.inTurn(async () => {
      const { firstLeaf, treeSize, sealedAt } = evidence;
      const announced = await this.announced();
      assert(
        announced === undefined || announced.checkpoint === evidence.checkpoint,
        'witnesses may have seen another batch',
      );
      const size = logSize(this.#databases);
      assert(size === firstLeaf, `the log has ${size} leaves, the batch begins at ${firstLeaf}`);
      assert(treeSize - firstLeaf === leaves.length, 'the batch has not as many leaves as it says');
      assert(leaves.length > 0, 'the batch is empty');
      assert(new Set(leaves.map(({ jobId }) => jobId)).size === leaves.length, 'the batch has a job twice');
      const sealed = leaves.map((one, offset) => {
        const { key, changes, written } = this.#beside.jobs.seal(one, firstLeaf + offset);
        const leaf = {
          database: this.#databases.leaves,
          key: counterKey(firstLeaf + offset),
          value: encodeLeaf(key, one.data),
        };
        return { key, clientId: one.clientId, changes: [leaf, ...changes], written };
      });
      const changes: Change[] = [
        ...sealed.flatMap((leaf) => leaf.changes),
        ...tiles.map(({ level, index, hashes }) => ({
          database: this.#databases.tiles,
          key: tileKey(level, index),
          value: hashes,
        })),
        {
          database: this.#databases.batches,
          key: counterKey(treeSize),
          value: encodeRecord(evidence satisfies Batch),
        },
        ...(announced ? [{ database: this.#databases.identity, key: ANNOUNCED_KEY }] : []),
      ];
      const isNext = { database: this.#databases.leaves, key: counterKey(firstLeaf) };
      const unless = announced ? [isNext] : [isNext, epochsChanged];
      let isWritten = false;
      try {
        isWritten = await this.#beside.outbox.tell('job.completed', sealedAt, sealed, { unless, changes });
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
  }

  async announce(batch: AnnouncedBatch): Promise<boolean> {
    const { identity: database, leaves } = this.#databases;
    const epochsChanged = this.#beside.epochs.after(batch.epochsRevision);
    return this.#commits.inTurn(async () => {
      const size = logSize(this.#databases);
      assert(size === batch.firstLeaf, `the log has ${size} leaves, the batch begins at ${batch.firstLeaf}`);
      assert((await this.announced()) === undefined, 'another batch is announced');
      const changes = [{ database, key: ANNOUNCED_KEY, value: encodeRecord(batch) }];
      const unless = [{ database: leaves, key: counterKey(size) }, epochsChanged];
      return this.#commits.write({ changes, unless });
    });
  }

  async announced(): Promise<AnnouncedBatch | undefined> {
    const bytes = this.#databases.identity.getBinary(ANNOUNCED_KEY);
    return bytes && parseRecord<AnnouncedBatch>(bytes, 'the announced batch');
  }

  async head(): Promise<Batch | undefined> {
    return firstBatch(this.#databases, { reverse: true });
  }

  async batchOf(leafIndex: number): Promise<Batch | undefined> {
    return batchOfLeaf(this.#databases, leafIndex);
  }

  async batchAt(treeSize: number): Promise<Batch | undefined> {
    const bytes = this.#databases.batches.getBinary(counterKey(treeSize));
    return bytes && parseRecord<Batch>(bytes);
  }

  async leaves(from: number, to: number): Promise<Leaf[]> {
    return readLeaves(this.#databases, from, to);
  }

  async tile(level: number, index: number): Promise<Uint8Array | undefined> {
    return this.#databases.tiles.getBinary(tileKey(level, index));
  }
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
