// Spools documents of all sizes, several at once, and removes some, until it is killed. Says what is kept once it is on disk, and what is
// forgotten before it is removed, as the store does.
import { createHash } from 'node:crypto';
import { readFileSync, writeSync } from 'node:fs';
import { openCopies, recordOf } from '../../src/copy/copies.ts';
import type { StoredCopy } from '../../src/store/store.ts';
import { random, randomBytes } from '../support/seed.ts';

export interface Told {
  record: StoredCopy;
  bytes: number;
  digest: string;
}

const AT_ONCE = 16;
const DOCUMENTS_MAX = 10_000;
const LARGE_BYTES = 2 ** 20 + 1;

const [path = '', recordsFile = ''] = process.argv.slice(2);
process.stdin.on('end', () => process.exit()).resume(); // the test is gone
const kept = JSON.parse(readFileSync(recordsFile, 'utf8')) as StoredCopy[];
const copies = await openCopies({ path, freeBytesMin: 0, workers: 1 }, kept);
const randomInt = (below: number) => Math.floor(random() * below);
let said = 0;
const say = (what: string) => writeSync(1, `${++said} ${what}\n`);

await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    while (said < DOCUMENTS_MAX) {
      const document = randomBytes(randomInt(20) === 0 ? LARGE_BYTES : 1 + randomInt(20_000));
      const spool = copies.spool();
      await spool.update(document);
      if (randomInt(10) === 0) {
        await spool.discard();
        continue;
      }
      const record = recordOf(await spool.end());
      const digest = createHash('sha256').update(document).digest('hex');
      say(`kept ${JSON.stringify({ record, bytes: document.length, digest } satisfies Told)}`);
      kept.push(record);
      if (randomInt(2) === 0) {
        const [removed] = kept.splice(randomInt(kept.length), 1);
        if (removed === undefined) continue;
        say(`forgotten ${JSON.stringify(removed)}`);
        await copies.remove(removed);
      }
    }
  }),
);
