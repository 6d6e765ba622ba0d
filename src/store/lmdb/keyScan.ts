import type { DatabaseName, Databases } from './databases.ts';

/** Keys read in one go; then the event loop gets its turn. */
const PAGE_KEYS = 500;
/** Sorts before every key but an empty one. */
const START = Buffer.alloc(1);

/** All keys of a database, page by page: a long read would keep LMDB from using old pages of the store again. */
export async function* scanKeys(databases: Databases, name: DatabaseName): AsyncIterable<Uint8Array> {
  let start: Uint8Array = START;
  for (;;) {
    const keys = Array.from(databases[name].getKeys({ start, exclusiveStart: true, limit: PAGE_KEYS }));
    yield* keys;
    start = keys.at(-1) ?? start;
    if (keys.length < PAGE_KEYS) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
