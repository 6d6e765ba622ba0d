/** Strippers that plan attachments: what a document can do to them, and to documents beside it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { encodeFrame } from '../../src/base/frames.ts';
import { type Copies, openCopies } from '../../src/copy/copies.ts';
import type { HeldDocument } from '../../src/copy/spool.ts';
import { GIVEN_BYTES_MAX, HEAD_BYTES, parseHead } from '../../src/copy/stripperMessages.ts';
import { makePdf, onePage, pdfFile, stream } from '../support/pdf.ts';

const PLAN = {
  format: 'pdfseal-suffix/1',
  name: 'pdfseal-receipt.json',
  lead: '',
  catalog: { number: 1, generation: 0, text: '<< >>' },
  first: 30,
  objects: [],
  section: 'table',
  trailer: '/Root 1 0 R',
} as const;
const READY = { ready: true };
const OWNER = { clientId: 'acme', isAwaited: true };

/** Copies whose strippers do as `behave` does with each document that they are given. */
async function open(t: Test, behave: (document: string, stripper: Socket) => void, stripMsMax = 60_000) {
  const folder = mkdtempSync(join(tmpdir(), 'planners-'));
  const stripperSocket = join(folder, 's');
  let connections = 0;
  const server = createServer((stripper) => {
    connections += 1;
    stripper.on('error', () => {});
    stripper.write(encodeFrame(READY));
    let held = Buffer.alloc(0);
    stripper.on('data', (data: Buffer) => {
      held = Buffer.concat([held, data]);
      while (held.length >= HEAD_BYTES) {
        const { documentBytes } = parseHead(held.subarray(0, HEAD_BYTES));
        if (held.length < HEAD_BYTES + documentBytes) return;
        behave(held.toString('latin1', HEAD_BYTES, HEAD_BYTES + documentBytes), stripper);
        held = held.subarray(HEAD_BYTES + documentBytes);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(stripperSocket, resolve));
  const path = join(folder, 'documents');
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1, stripperSocket, stripMsMax }, []);
  t.teardown(async () => {
    await copies.close();
    server.close();
    rmSync(folder, { recursive: true });
  });
  return { copies, connections: () => connections };
}

async function held(copies: Copies, document: string | Buffer): Promise<HeldDocument> {
  const spool = copies.spool();
  await spool.update(Buffer.from(document));
  const held = spool.hold();
  await spool.end();
  if (held === undefined) throw new Error('the document is too large');
  return held;
}

const say = (stripper: Socket, message: unknown) => stripper.write(encodeFrame(message));
const planOf = (document: string) => ({ ...PLAN, bytes: document.length });

t.test('small documents of a client wait for each other in one stripper', async (t) => {
  const { copies, connections } = await open(t, (document, stripper) =>
    say(stripper, document.includes('bad') ? { refused: 'no' } : { plan: planOf(document) }),
  );
  const documents = ['%PDF one', '%PDF number two', '%PDF bad', '%PDF'];
  const plans = await Promise.allSettled(
    documents.map(async (document) => copies.plan(await held(copies, document), OWNER)),
  );
  t.match(plans, [
    { value: { bytes: 8 } },
    { value: { bytes: 15 } },
    { reason: { code: 'pdf_not_sealable', message: /: no\. / } },
    { value: { bytes: 4 } },
  ]);
  t.equal(connections(), 1);
});

t.test(
  'a small document is planned as it came, or as it was encrypted if that memory was freed',
  async (t) => {
    const { copies } = await open(t, (document, stripper) => say(stripper, { plan: planOf(document) }));
    for (const pieces of [['%PDF'], ['%PDF', ' in ', 'pieces'], []]) {
      for (const isFreed of [false, true]) {
        const spool = copies.spool();
        const sent = pieces.map((piece) => new Uint8Array(Buffer.from(piece)));
        for (const piece of sent) await spool.update(piece);
        const document = spool.hold();
        if (isFreed) for (const { buffer } of sent) buffer.transfer(0);
        await spool.end();
        t.equal(document?.copy().toString(), pieces.join(''));
        const bytes = pieces.join('').length;
        if (document && bytes > 0) t.match(await copies.plan(document, OWNER), { bytes });
      }
    }
  },
);

t.test('a document that ends strippers is refused, and those beside it are planned', async (t) => {
  const { copies } = await open(t, (document, stripper) => {
    if (document.includes('bad')) stripper.destroy();
    else say(stripper, { plan: planOf(document) });
  });
  const documents = ['%PDF good', '%PDF bad', '%PDF good', '%PDF good'];
  const plans = await Promise.allSettled(
    documents.map(async (document) => copies.plan(await held(copies, document), OWNER)),
  );
  const statuses = plans.map(({ status }) => status);
  t.strictSame(statuses, ['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  t.match(plans[1], { reason: { code: 'pdf_not_sealable', message: /fails, or needs too much memory/ } });
});

t.test('what no stripper says ends it', async (t) => {
  for (const answer of [
    { plan: { ...PLAN, bytes: 5 } },
    { plan: { ...PLAN, bytes: 6, trailer: '\u0100' } },
    { plan: { ...PLAN, bytes: 6, more: 1 } },
    { plan: null },
    { edits: [[0, 99, '']] },
    { read: [0, 3] },
  ]) {
    const { copies } = await open(t, (_, stripper) => say(stripper, answer));
    const plan = copies.plan(await held(copies, '%PDF 6'), OWNER);
    await t.rejects(plan, { code: 'pdf_not_sealable' }, JSON.stringify(answer));
  }
});

t.test('a stripper that hangs is ended in time, and so is the wait of a client that leaves', async (t) => {
  const { copies } = await open(t, () => {}, 100);
  const document = await held(copies, '%PDF');
  await t.rejects(copies.plan(document, OWNER), {
    code: 'pdf_not_sealable',
    message: /takes more than 0\.1/,
  });
  const gone = new AbortController();
  const plan = copies.plan(document, { ...OWNER, signal: gone.signal });
  gone.abort(new Error('it left'));
  await t.rejects(plan, { message: 'it left' });
});

t.test('the strippers of the service plan small and large documents', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'planners-'));
  const copies = await openCopies({ path: join(folder, 'documents'), freeBytesMin: 0, workers: 1 }, []);
  t.teardown(async () => {
    await copies.close();
    rmSync(folder, { recursive: true });
  });
  const small = Buffer.from(await makePdf('small'));
  t.match(await copies.plan(await held(copies, small), OWNER), { bytes: small.length });
  for (const bytes of [GIVEN_BYTES_MAX, 3 << 20]) {
    const large = pdfFile({ ...onePage(), 5: stream('', Buffer.alloc(bytes, ' ')) });
    const spool = copies.spool();
    await spool.update(large);
    t.equal(spool.hold(), undefined);
    t.match(await copies.plan(await spool.end(), OWNER), { bytes: large.length });
  }
});
