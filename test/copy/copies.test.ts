import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/crypto.ts';
import { keystream, newKey } from '../../src/copy/cipher.ts';
import {
  type Copies,
  type CopiesOptions,
  openCopies,
  readCiphered,
  readVerified,
  recordOf,
} from '../../src/copy/copies.ts';
import { LABORIOUS, metadata, onePage, PACKET, pdfFile } from '../support/pdf.ts';
import { randomBytes } from '../support/seed.ts';
import { found } from './found.ts';

const DOCUMENT = pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() });

/** It gets a file of its own. */
const LARGE = Buffer.alloc(2 ** 20 + 1, 'large');

const OWNER = { clientId: 'a', isAwaited: true };

async function open(t: Test, overrides: Partial<CopiesOptions> = {}) {
  const parent = mkdtempSync(join(tmpdir(), 'pdfseal-copies-'));
  const path = join(parent, 'documents');
  t.teardown(() => rmSync(parent, { recursive: true, force: true }));
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1, ...overrides }, []);
  t.teardown(() => copies.close());
  return { copies, path };
}

async function spooled(copies: Copies, document: Buffer, chunkBytes = document.length) {
  const spool = copies.spool();
  for (let at = 0; at < document.length; at += chunkBytes) {
    await spool.update(document.subarray(at, at + chunkBytes));
  }
  return spool.end();
}

t.test('a keystream can begin at any position', async (t) => {
  const key = newKey();
  const data = randomBytes(100);
  const whole = keystream(key)(data);
  t.notSame(whole, data);
  for (const position of [0, 1, 15, 16, 17, 33, 99]) {
    t.same(keystream(key, position)(whole.subarray(position)), data.subarray(position), `${position}`);
  }
});

t.test('a document on disk looks like noise, and is read back unchanged', async (t) => {
  const { copies, path } = await open(t);
  for (const chunkBytes of [1, 7, 1000, DOCUMENT.length]) {
    const file = await spooled(copies, DOCUMENT, chunkBytes);
    t.same(await buffer(readCiphered(file)), DOCUMENT);
    const onDisk = readFileSync(file.path);
    t.equal(onDisk.length, DOCUMENT.length);
    t.equal(onDisk.indexOf('obj'), -1);
    t.equal(statSync(file.path).mode & 0o777, 0o600);
    await copies.remove(recordOf(file));
  }
  t.equal(statSync(path).mode & 0o777, 0o700);
  t.strictSame(readdirSync(path), []);
});

t.test('a large document is read back unchanged, too', async (t) => {
  const { copies } = await open(t);
  const document = randomBytes(5_000_001);
  const file = await spooled(copies, document, 100_000);
  t.ok(document.equals(await buffer(readCiphered(file))));
});

t.test('stripping removes the received document, and gives the copy its own key', async (t) => {
  const { copies, path } = await open(t);
  await copies.probe();
  t.strictSame(readdirSync(path), [], 'a probe leaves nothing');
  const received = await spooled(copies, DOCUMENT);
  const file = await copies.strip(received, OWNER);
  t.strictSame(readdirSync(path), [file.name]);
  t.notSame(file.key, received.key);
  const copy = await buffer(readCiphered(file));
  t.equal(copy.length, DOCUMENT.length);
  t.equal(copy.indexOf('xpacket'), -1);
  t.same(copy.subarray(0, DOCUMENT.indexOf('5 0 obj')), DOCUMENT.subarray(0, DOCUMENT.indexOf('5 0 obj')));

  const bare = await spooled(copies, pdfFile(onePage()));
  t.equal(await copies.strip(bare, OWNER), bare, 'what has no XMP stays as it is');
});

t.test('a document that cannot be stripped is refused, and its file is kept', async (t) => {
  const { copies, path } = await open(t);
  const signed = await spooled(copies, pdfFile({ ...onePage(), 5: '<< /ByteRange [0 1 2 3] >>' }));
  await t.rejects(copies.strip(signed, OWNER), {
    code: 'metadata_not_strippable',
    message: /signed.*preserve_metadata=true/s,
    parameter: 'preserve_metadata',
  });
  t.strictSame(readdirSync(path), [signed.name], 'the file is still its owner’s');
});

t.test('stripping stops if its document is no longer wanted', async (t) => {
  const { copies, path } = await open(t);
  const laborious = await spooled(copies, LABORIOUS);
  const gone = new AbortController();
  const stripping = copies.strip(laborious, { ...OWNER, signal: gone.signal });
  setImmediate(() => gone.abort(new Error('gone')));
  await t.rejects(stripping, { message: 'gone' });
  t.strictSame(readdirSync(path), [laborious.name]);
  await t.rejects(copies.strip(laborious, { ...OWNER, signal: gone.signal }), { message: 'gone' });
  const file = await copies.strip(await spooled(copies, DOCUMENT), OWNER);
  t.equal((await buffer(readCiphered(file))).indexOf('xpacket'), -1, 'and the next one is');
});

t.test('a document that takes too long is refused', async (t) => {
  const { copies, path } = await open(t, { stripMsMax: 1 });
  const laborious = await spooled(copies, LABORIOUS);
  await t.rejects(copies.strip(laborious, OWNER), {
    code: 'metadata_not_strippable',
    message: /the search for metadata takes more than/,
  });
  t.strictSame(readdirSync(path), [laborious.name]);
});

t.test('one client does not occupy all workers', async (t) => {
  const { copies } = await open(t);
  const gone = new AbortController();
  const greedy = Array.from({ length: 5 }, async () =>
    copies.strip(await spooled(copies, LABORIOUS), {
      clientId: 'greedy',
      signal: gone.signal,
      isAwaited: false,
    }),
  );
  const ended = Promise.allSettled(greedy);
  await new Promise(setImmediate);
  await copies.strip(await spooled(copies, DOCUMENT), { clientId: 'modest', isAwaited: true });
  gone.abort(new Error('gone'));
  for (const { status } of await ended) t.equal(status, 'rejected');
});

t.test('a document abandoned at any moment leaves nothing', async (t) => {
  const { copies, path } = await open(t);
  await copies.spool().discard();
  const begun = copies.spool();
  void begun.update(Buffer.alloc(3 << 20));
  await begun.discard();
  const ended = copies.spool();
  void ended.update(DOCUMENT);
  await ended.end();
  await ended.discard();
  t.strictSame(readdirSync(path), []);
});

t.test('a start removes unknown files', async (t) => {
  const { copies, path } = await open(t);
  const file = await spooled(copies, DOCUMENT);
  await spooled(copies, LARGE);
  t.equal(readdirSync(path).length, 2);
  const again = await openCopies({ path, freeBytesMin: 0, workers: 1 }, [recordOf(file)]);
  t.teardown(() => again.close());
  t.strictSame(readdirSync(path), [file.name]);
  t.same(await buffer(readCiphered(await found(again, recordOf(file), file.bytes))), DOCUMENT);
});

t.test('a full disk is reported as such', async (t) => {
  const full = await open(t, { freeBytesMin: 2 ** 60 });
  const spool = full.copies.spool();
  void spool.update(DOCUMENT);
  await t.rejects(spool.end(), { code: 'storage_full', retryAfterSeconds: 60 });
  await t.rejects(async () => spool.update(PACKET), { code: 'storage_full' }, 'and everything after it');
  await spool.discard();
  t.strictSame(readdirSync(full.path), []);
});

t.test('a missing folder is not reported as a full disk', async (t) => {
  const { copies, path } = await open(t);
  rmSync(path, { recursive: true });
  writeFileSync(path, '');
  const spool = copies.spool();
  void spool.update(DOCUMENT);
  await t.rejects(spool.end(), { code: 'ENOTDIR' });
  rmSync(path);
  mkdirSync(path);
  await t.resolves(spool.discard());
});

t.test('a damaged copy is never served whole', async (t) => {
  const { copies } = await open(t);
  const document = randomBytes(600_000);
  const file = await spooled(copies, document);
  const digest = toHex(sha256(document));
  t.ok(document.equals(await buffer(readVerified(file, digest))));

  const onDisk = readFileSync(file.path);
  onDisk[5] = (onDisk[5] ?? 0) ^ 1;
  writeFileSync(file.path, onDisk);
  let given = 0;
  const reading = async () => {
    for await (const chunk of readVerified(file, digest)) given += chunk.length;
  };
  await t.rejects(reading(), /is damaged/);
  t.ok(given > 0 && given < document.length, `${given} bytes`);
  truncateSync(file.path, 1000);
  await t.rejects(reading(), /shorter/);
});
