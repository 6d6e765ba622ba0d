import type { Batch, Leaf } from '../store.ts';
import type { Databases } from './databases.ts';
import { counterKey, parseCounterKey, tileKey } from './keyLayout.ts';
import { parseLeaf, parseRecord } from './records.ts';

/** Reads the transparency log: leaves, tiles, and the batches that explain them. */
export class Log {
  readonly #databases: Databases;

  constructor(databases: Databases) {
    this.#databases = databases;
  }

  /** Number of leaves. */
  size(): number {
    for (const key of this.#databases.leaves.getKeys({ reverse: true, limit: 1 }))
      return parseCounterKey(key) + 1;
    return 0;
  }

  head(): Batch | undefined {
    return this.#firstBatch({ reverse: true });
  }

  batchOf(leafIndex: number): Batch | undefined {
    return this.#firstBatch({ start: counterKey(leafIndex + 1) });
  }

  batchAt(treeSize: number): Batch | undefined {
    const bytes = this.#databases.batches.getBinary(counterKey(treeSize));
    return bytes && parseRecord<Batch>(bytes);
  }

  leaves(from: number, to: number): Leaf[] {
    const range = this.#databases.leaves.getRange({ start: counterKey(from), end: counterKey(to) });
    return Array.from(range, ({ value }) => parseLeaf(value));
  }

  tile(level: number, index: number): Uint8Array | undefined {
    return this.#databases.tiles.getBinary(tileKey(level, index));
  }

  #firstBatch(range: { start?: Uint8Array; reverse?: boolean }): Batch | undefined {
    for (const { value } of this.#databases.batches.getRange({ ...range, limit: 1 }))
      return parseRecord<Batch>(value);
    return undefined;
  }
}
