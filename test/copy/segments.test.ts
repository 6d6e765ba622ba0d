import { mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { type FileHandle, open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import {
  type Copies,
  type CopiesOptions,
  openCopies,
  readCiphered,
  readVerified,
  recordOf,
} from '../../src/copy/copies.ts';
import type { CipheredFile, Spool } from '../../src/copy/spool.ts';
import type { StoredCopy } from '../../src/store/store.ts';
import { Child } from '../store/child.ts';
import { metadata, onePage, pdfFile } from '../support/pdf.ts';
import { fc, randomBytes, tries } from '../support/seed.ts';
import { SmallDisk } from '../support/smallDisk.ts';
import { found } from './found.ts';
import type { Told } from './spooler.ts';

const MIB = 2 ** 20;
const DOCUMENT = pdfFile(onePage());
const WITH_XMP = pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() });

function newFolder(t: Test): string {
  const parent = mkdtempSync(join(tmpdir(), 'pdfseal-segments-'));
  t.teardown(() => rmSync(parent, { recursive: true, force: true }));
  return join(parent, 'documents');
}

async function open(
  t: Test,
  path: string,
  { kept = [], ...options }: Partial<CopiesOptions> & { kept?: StoredCopy[] } = {},
): Promise<Copies> {
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1, ...options }, kept);
  t.teardown(() => copies.close());
  return copies;
}

async function spooled(copies: Copies, document: Buffer): Promise<CipheredFile> {
  const spool = copies.spool();
  await spool.update(document);
  return spool.end();
}

/** What all open files share. */
async function fileHandles(): Promise<FileHandle> {
  const file = await openFile('/dev/null');
  await file.close();
  return Object.getPrototypeOf(file);
}

/** The next write of any open file fails so, after this share of its bytes was written: if it is 1, at the flush. */
async function failOnce(t: Test, share: number, code: string): Promise<void> {
  const handles = await fileHandles();
  const { writev } = handles;
  const restore = () => Object.assign(handles, { writev });
  t.teardown(restore);
  const failing = async function (this: FileHandle, chunks: readonly Buffer[], at: number) {
    restore();
    const data = Buffer.concat(chunks);
    await this.write(data, 0, Math.floor(share * data.length), at);
    throw Object.assign(new Error('a test'), { code });
  };
  Object.assign(handles, { writev: failing });
}

t.test('documents that end together share a file, and each is read back', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const documents = Array.from({ length: 100 }, (_, n) => randomBytes(1 + 97 * n));
  const files = await Promise.all(documents.map((document) => spooled(copies, document)));
  const bytes = documents.reduce((sum, { length }) => sum + length, 0);
  t.equal(new Set(files.map(({ name }) => name)).size, 1);
  t.equal(new Set(files.map(({ key }) => key.toString('hex'))).size, 100, 'each has its own key');
  t.same(copies.usage, { documents: 100, files: 1, bytes });
  t.equal(statSync(join(path, files[0]?.name ?? '')).size, bytes);
  t.equal(statSync(join(path, files[0]?.name ?? '')).mode & 0o777, 0o600);
  for (const [n, file] of files.entries()) {
    t.ok((await buffer(readCiphered(file))).equals(documents[n] ?? DOCUMENT), `document ${n}`);
  }
  t.notOk(recordOf(files[0] as CipheredFile).at, 'the first one is recorded as if it had the file alone');
  t.ok(recordOf(files[1] as CipheredFile).at);
});

t.test('a document without metadata stays where it is in its file', async (t) => {
  const copies = await open(t, newFolder(t));
  await spooled(copies, randomBytes(1001));
  const bare = await spooled(copies, DOCUMENT);
  t.equal(bare.at, 1001);
  t.equal(await copies.strip(bare, { clientId: 'a', isAwaited: true }), bare);
  t.same(await buffer(readCiphered(bare)), DOCUMENT);
});

t.test('a document is stripped wherever it is in its file, and those next to it are kept', async (t) => {
  const copies = await open(t, newFolder(t));
  const documents = [WITH_XMP, DOCUMENT, WITH_XMP, randomBytes(77)];
  const spools = documents.map(() => copies.spool());
  for (const [n, spool] of spools.entries()) void spool.update(documents[n] ?? DOCUMENT);
  const files = await Promise.all(spools.map((spool) => spool.end()));
  t.strictSame(new Set(files.map(({ name }) => name)).size, 1);
  const third = files[2] as CipheredFile;
  const stripped = await copies.strip(third, { clientId: 'a', isAwaited: true });
  const copy = await buffer(readCiphered(stripped));
  const length = WITH_XMP.indexOf('5 0 obj');
  t.ok(length > 0 && copy.subarray(0, length).equals(WITH_XMP.subarray(0, length)));
  t.equal(copy.indexOf('xpacket'), -1);
  t.equal(copy.length, WITH_XMP.length);
  t.match(copies.usage, { documents: 4, files: 2 });
  for (const n of [0, 1, 3]) t.same(await buffer(readCiphered(files[n] as CipheredFile)), documents[n]);
});

t.test('a file goes with the last of its documents, however often one is removed', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const spool = copies.spool();
  await spool.update(randomBytes(500));
  const [first, second] = await Promise.all([spool.end(), spooled(copies, DOCUMENT)]);
  t.equal(first.name, second.name);
  await copies.remove(recordOf(first));
  await copies.remove(recordOf(first));
  await spool.discard();
  t.same(copies.usage, { documents: 1, files: 1, bytes: 500 + DOCUMENT.length });
  t.same(await buffer(readCiphered(second)), DOCUMENT);
  await copies.remove(recordOf(second));
  await copies.remove(recordOf(second));
  t.same(copies.usage, { documents: 0, files: 0, bytes: 0 });
  t.strictSame(readdirSync(path), []);
  const third = await spooled(copies, DOCUMENT);
  t.not(third.name, first.name);
  t.same(await buffer(readCiphered(third)), DOCUMENT);
});

t.test('a document abandoned while it waits for its group gives up its place', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const spools = Array.from({ length: 10 }, () => copies.spool());
  for (const spool of spools) void spool.update(DOCUMENT);
  const ending = spools.map((spool) => spool.end());
  await Promise.all(spools.slice(1).map((spool) => spool.discard()));
  await Promise.all(ending);
  t.equal(copies.usage.documents, 1);
  await spools[0]?.discard();
  t.strictSame(readdirSync(path), []);
});

t.test('a file takes documents until a restart, until it is old, and until it is large', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const first = await spooled(copies, DOCUMENT);
  const again = await open(t, path, { kept: [recordOf(first)] });
  t.same(again.usage, { documents: 1, files: 1, bytes: DOCUMENT.length });
  const second = await spooled(again, DOCUMENT);
  t.not(second.name, first.name, 'a restart');
  t.same(await buffer(readCiphered(await found(again, recordOf(first), first.bytes))), DOCUMENT);

  const hasty = await open(t, path, { kept: [recordOf(first), recordOf(second)], segmentMsMax: 0 });
  t.not((await spooled(hasty, DOCUMENT)).name, (await spooled(hasty, DOCUMENT)).name, 'old');
  t.same(hasty.usage, { documents: 4, files: 4, bytes: 4 * DOCUMENT.length });

  const large = await open(t, path);
  const mebibyte = randomBytes(MIB);
  const names: string[] = [];
  for (let n = 0; n < 66; n += 1) names.push((await spooled(large, mebibyte)).name);
  t.strictSame(
    [...new Set(names)].map((name) => statSync(join(path, name)).size),
    [64 * MIB, 2 * MIB],
  );
});

t.test('a large document has a file of its own, which is on disk before its end', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const small = await spooled(copies, DOCUMENT);
  const spool = copies.spool();
  await spool.update(randomBytes(MIB));
  t.equal(readdirSync(path).length, 1, 'it could still be small');
  await spool.update(randomBytes(MIB));
  t.equal(readdirSync(path).length, 2);
  const large = await spool.end();
  t.not(large.name, small.name);
  t.same(copies.usage, { documents: 2, files: 2, bytes: DOCUMENT.length + 2 * MIB });
  await spool.discard();
  await copies.remove(recordOf(large));
  t.same(copies.usage, { documents: 1, files: 1, bytes: DOCUMENT.length });
});

t.test('a large document is flushed while it arrives, and a flush that fails is not forgotten', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const handles = await fileHandles();
  const { datasync } = handles;
  t.teardown(() => Object.assign(handles, { datasync }));
  let flushes = 0;
  const send = async (spool: Spool) => {
    for (let n = 0; n < 80; n += 1) await spool.update(Buffer.alloc(2 * MIB, n));
    return spool.end();
  };
  const count = function (this: FileHandle) {
    flushes += 1;
    return datasync.call(this);
  };
  Object.assign(handles, { datasync: count });
  const kept = await send(copies.spool());
  t.ok(flushes >= 1, `${flushes} flushes`);
  t.equal((await buffer(readCiphered(kept))).length, 160 * MIB);
  Object.assign(handles, { datasync: () => Promise.reject(new Error('a test')) });
  const spool = copies.spool();
  await t.rejects(send(spool), { message: 'a test' });
  await spool.discard();
  t.strictSame(readdirSync(path), [kept.name], 'nothing of it is left');
});

t.test('what the system writes of a part at a time is written whole', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const handles = await fileHandles();
  const { writev } = handles;
  t.teardown(() => Object.assign(handles, { writev }));
  const partly = async function (this: FileHandle, chunks: readonly Buffer[], at: number) {
    const data = Buffer.concat(chunks);
    return this.write(data, 0, Math.ceil(data.length / 3), at);
  };
  Object.assign(handles, { writev: partly });
  const documents = [randomBytes(5), randomBytes(1), randomBytes(70_000), randomBytes(3 * MIB)];
  const files = await Promise.all(documents.map((document) => spooled(copies, document)));
  for (const [n, file] of files.entries())
    t.ok((await buffer(readCiphered(file))).equals(documents[n] ?? DOCUMENT), `document ${n}`);
});

t.test('documents that arrive at once are not all held in memory', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path);
  const half = randomBytes(MIB / 2);
  const spools = Array.from({ length: 128 }, () => copies.spool());
  for (const spool of spools) await spool.update(half);
  const written = readdirSync(path).length;
  t.ok(written >= 64 && written < 128, `${written} of 128 were written`);
  for (const spool of spools) await spool.update(half);
  const files = await Promise.all(spools.map((spool) => spool.end()));
  const whole = Buffer.concat([half, half]);
  for (const file of files) t.ok(whole.equals(await buffer(readCiphered(file))));
  for (const file of files) await copies.remove(recordOf(file));
  t.strictSame(readdirSync(path), []);
});

t.test('the bound counts what is kept and what is arriving, and nothing is accepted above it', async (t) => {
  const path = newFolder(t);
  const copies = await open(t, path, { bytesMax: 10_000 });
  const full = { code: 'storage_full', retryAfterSeconds: 60 };
  const kept = await spooled(copies, randomBytes(4_000));
  const arriving = copies.spool();
  await arriving.update(randomBytes(4_000));
  const tooMuch = copies.spool();
  await t.rejects(async () => tooMuch.update(randomBytes(2_001)), full);
  await t.rejects(tooMuch.end(), full);
  await tooMuch.discard();
  const last = copies.spool();
  await last.update(randomBytes(2_000));
  t.throws(() => copies.spool(), full);
  await last.discard();
  await last.discard();
  const next = await spooled(copies, randomBytes(2_000));
  await arriving.end();
  t.equal(copies.usage.bytes, 10_000);
  t.throws(() => copies.spool(), full);
  for (const file of [kept, next]) await copies.remove(recordOf(file));
  t.throws(() => copies.spool(), full, 'their file is still there for the third');
  await arriving.discard();
  t.strictSame(readdirSync(path), []);
  t.same(await buffer(readCiphered(await spooled(copies, DOCUMENT))), DOCUMENT);

  const none = await open(t, newFolder(t), { bytesMax: 0 });
  t.throws(() => none.spool(), full);
  await t.resolves(none.probe(), 'a daemon with as many documents can start');
});

t.test('a group that cannot be written fails, and the next one has a new file', async (t) => {
  for (const share of [0.3, 1]) {
    const path = newFolder(t);
    const copies = await open(t, path);
    const before = await spooled(copies, DOCUMENT);
    await failOnce(t, share, 'ENOSPC');
    const group = Array.from({ length: 5 }, () => spooled(copies, DOCUMENT));
    for (const outcome of group) await t.rejects(outcome, { code: 'storage_full', retryAfterSeconds: 60 });
    t.same(copies.usage, { documents: 1, files: 1, bytes: DOCUMENT.length });
    t.equal(statSync(before.path).size, DOCUMENT.length, 'nothing is left of it');
    const after = await spooled(copies, DOCUMENT);
    t.not(after.name, before.name);
    for (const file of [before, after]) {
      t.same(await buffer(readCiphered(file)), DOCUMENT);
      await copies.remove(recordOf(file));
    }
    await failOnce(t, share, 'EIO');
    await t.rejects(spooled(copies, DOCUMENT), { code: 'EIO' });
    t.same(copies.usage, { documents: 0, files: 0, bytes: 0 });
    t.strictSame(readdirSync(path), []);
  }
});

const disk = new SmallDisk(8 * MIB);
t.teardown(() => disk.close());
t.test('a full disk refuses documents until there is room again', async (t) => {
  const path = join(disk.dir, 'documents');
  const freeBytesMin = statfsFree(disk.dir) - 2 * MIB;
  mkdirSync(path);
  const copies = await open(t, path, { freeBytesMin });
  const kept: CipheredFile[] = [];
  const fill = async () => {
    for (;;) kept.push(await spooled(copies, randomBytes(MIB / 4)));
  };
  await t.rejects(fill(), { code: 'storage_full' });
  t.ok(kept.length >= 6 && kept.length <= 8, `${kept.length} have room`);
  t.equal(copies.usage.documents, kept.length);
  for (const file of kept) await copies.remove(recordOf(file));
  t.strictSame(readdirSync(path), []);
  await t.resolves(spooled(copies, randomBytes(MIB / 4)));
});

function statfsFree(dir: string): number {
  const { bavail, bsize } = statfsSync(dir);
  return bavail * bsize;
}

t.test('whatever is removed and abandoned, a restart finds what is kept, and only that', async (t) => {
  const path = newFolder(t);
  mkdirSync(path);
  const act = fc.record({
    bytes: fc.oneof({ weight: 20, arbitrary: fc.integer({ min: 1, max: 3000 }) }, fc.constant(MIB + 7)),
    fate: fc.constantFrom('kept', 'kept', 'removed', 'abandoned', 'removed twice'),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(act, { maxLength: 8 }), { maxLength: 6 }), async (groups) => {
      const kept: { record: StoredCopy; document: Buffer }[] = [];
      const copies = await openCopies({ path, freeBytesMin: 0, workers: 1 }, []);
      for (const group of groups)
        await Promise.all(
          group.map(async ({ bytes, fate }) => {
            const document = randomBytes(bytes);
            const spool = copies.spool();
            await spool.update(document);
            const record = recordOf(await spool.end());
            if (fate === 'kept') kept.push({ record, document });
            if (fate.startsWith('removed')) await copies.remove(record);
            if (fate === 'abandoned' || fate === 'removed twice') await spool.discard();
          }),
        );
      const usage = { ...copies.usage };
      await copies.close();
      const again = await openCopies(
        { path, freeBytesMin: 0, workers: 1 },
        kept.map(({ record }) => record),
      );
      t.same(again.usage, usage, 'a restart counts the same');
      for (const { record, document } of kept)
        t.ok(document.equals(await buffer(readCiphered(await found(again, record, document.length)))));
      for (const { record } of kept) await again.remove(record);
      t.strictSame(readdirSync(path), []);
      await again.close();
    }),
    { numRuns: tries(30) },
  );
});

t.test('after kill -9 at any moment, all that was acknowledged is read back whole', async (t) => {
  const path = newFolder(t);
  const recordsFile = join(path, '../records.json');
  const kept = new Map<string, Told>();
  for (let round = 0; round < 6; round += 1) {
    writeFileSync(recordsFile, JSON.stringify(Array.from(kept.values(), ({ record }) => record)));
    const child = new Child('../copy/spooler.ts', path, recordsFile);
    const acknowledged = 1 + randomBytes(1).readUInt8();
    await child.line(`${acknowledged} `);
    await child.kill();
    t.equal(child.process.signalCode, 'SIGKILL');
    for (const line of child.lines) {
      const [, act, text = ''] = /^\d+ (kept|forgotten) (.*)$/.exec(line) ?? [];
      if (act === undefined) continue;
      if (act === 'forgotten') kept.delete((JSON.parse(text) as StoredCopy).key);
      else {
        const told = JSON.parse(text) as Told;
        kept.set(told.record.key, told);
      }
    }
    const records = Array.from(kept.values(), ({ record }) => record);
    const copies = await openCopies({ path, freeBytesMin: 0, workers: 1 }, records);
    t.equal(copies.usage.documents, kept.size);
    t.strictSame(readdirSync(path).sort(), [...new Set(records.map(({ file }) => file))].sort());
    for (const { record, bytes, digest } of kept.values()) {
      await t.resolves(buffer(readVerified(await found(copies, record, bytes), digest)));
    }
    await copies.close();
  }
});
