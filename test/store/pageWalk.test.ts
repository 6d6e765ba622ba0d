/** A page of the store that is not in order is found before LMDB reads it: whatever bit of its structure is wrong. */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openDatabases } from '../../src/store/lmdb/databases.ts';
import { beginWalk } from '../../src/store/lmdb/dataFile.ts';
import { readPages } from '../faults/lmdbPages.ts';
import { random } from '../support/seed.ts';
import { makeWholeStore } from '../support/wholeStore.ts';

/** Of the pages of each kind, so many are looked at, and so many bits of each of their parts. */
const PAGES = 2;
const BITS = 8;
/** In a header: the padding means nothing; a transaction may be any that was, and there were fewer than 65,536. */
const HARMLESS = [8, 9, 16, 17];
/** The length of a value or the number of a page; in leaves, what the value is; the length of the key. */
const NODE_HEAD_BYTES = 8;

const dir = join(t.testdir(), 'store');
const path = join(dir, 'data.mdb');
await makeWholeStore(dir);
const whole = readFileSync(path);
const file = openSync(path, 'r+');

t.test('a changed bit in a header, a pointer or the head of a node is found', async (t) => {
  const pages = readPages(path);
  t.ok(pages.size > 20, `${[...pages.keys()].join(', ')}`);
  for (const [kind, all] of pages) {
    if (kind === 'meta') continue;
    const isLong = kind.startsWith('long value');
    for (const [header, pointers, nodes] of all.slice(0, PAGES)) {
      // The node that lies first: its sizes and its kind.
      const node = nodes && { from: nodes.from, to: nodes.from + NODE_HEAD_BYTES };
      const parts = isLong ? [header] : [header, pointers, node];
      for (const part of parts) {
        if (part === undefined) continue;
        const missed = Array.from({ length: BITS }, () => {
          const at = Math.floor(random() * (part.to - part.from));
          const bit = Math.floor(random() * 8);
          // A node has an even length: one byte more or less of a key or value can be its padding.
          const isLength = part === node && (at === 0 || at === 6) && bit === 0;
          const isHarmless = isLength || (part === header && HARMLESS.includes(at));
          return isHarmless || isRefused(part.from + at, bit) ? [] : [`bit ${bit} of byte ${at}`];
        }).flat();
        t.strictSame(missed, [], `${kind}, at ${part.from}`);
      }
    }
  }
});

t.test('the pages of a snapshot stay unchanged during commits', async (t) => {
  const folder = t.testdir();
  const { root, jobs, close } = await openDatabases(folder, { readOnly: false });
  const commit = () =>
    root.transactionSync(() => {
      for (let n = 0; n < 40; n++) void jobs.put(Buffer.of(n), Buffer.alloc(300, Math.floor(random() * 256)));
    });
  for (let n = 0; n < 10; n++) commit();
  const snapshot = root.useReadTransaction();
  const walk = beginWalk(join(folder, 'data.mdb'));
  for (let n = 0; n < 10; n++) commit();
  walk();
  snapshot.done();
  root.resetReadTxn();
  for (let n = 0; n < 10; n++) commit();
  t.throws(walk, /damaged/, 'and no longer');
  await close();
});

t.test('a thorough opening checks the pages of a file of any size', async (t) => {
  const folder = t.testdir();
  const large = join(folder, 'data.mdb');
  const { root, jobs, close } = await openDatabases(folder, { readOnly: false });
  root.transactionSync(() => {
    for (let n = 0; n < 80; n++) void jobs.put(Buffer.of(n), Buffer.alloc(2 ** 20));
  });
  await close();
  const [[header] = []] = readPages(large).get('leaf of jobs') ?? [];
  const opened = openSync(large, 'r+');
  writeSync(opened, Buffer.of(0xff), 0, 1, (header?.from ?? 0) + 20);
  closeSync(opened);
  await (await openDatabases(folder, { readOnly: true })).close();
  await t.rejects(
    openDatabases(folder, { readOnly: true, isThorough: true }),
    /page \d+ is damaged.*restore/,
  );
});

function isRefused(offset: number, bit: number): boolean {
  const byte = whole[offset] ?? 0;
  writeSync(file, Buffer.of(byte ^ (1 << bit)), 0, 1, offset);
  try {
    beginWalk(path)();
    return false;
  } catch (error) {
    if (!/is damaged|is cut short/.test(String(error))) throw error;
    return true;
  } finally {
    writeSync(file, Buffer.of(byte), 0, 1, offset);
  }
}
