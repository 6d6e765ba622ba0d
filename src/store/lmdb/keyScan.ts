import type { Commits } from './commits.ts';
import type { Database } from './databases.ts';

/** Keys read in one go; the event loop gets its turn between. */
const PAGE_KEYS = 500;
/** Sorts before every key but an empty one. */
const START = Buffer.alloc(1);

/** All keys of a database, page by page, so that no long read keeps old pages of the store from being used again. */
export async function* scanKeys(database: Database, commits: Commits): AsyncIterable<Uint8Array> {
  let start: Uint8Array = START;
  for (;;) {
    commits.assertIntact();
    const keys = Array.from(database.getKeys({ start, exclusiveStart: true, limit: PAGE_KEYS }));
    yield* keys;
    start = keys.at(-1) ?? start;
    if (keys.length < PAGE_KEYS) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
