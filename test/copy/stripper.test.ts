/** A stripper may be taken over by a document. What it can do then is to be refused. */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readdirSync, rmSync, statSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { encodeFrame } from '../../src/base/frames.ts';
import { type CopiesOptions, openCopies, readCiphered, recordOf } from '../../src/copy/copies.ts';
import { STRIPPER } from '../../src/copy/stripperProcess.ts';
import {
  abandonTask,
  endTask,
  newTaskState,
  requireWanted,
  type TaskState,
  watchTask,
} from '../../src/copy/taskState.ts';
import { LABORIOUS, metadata, onePage, pdfFile } from '../support/pdf.ts';
import { until } from '../support/until.ts';

const DOCUMENT = pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() });

/** A function that strips one document by strippers that do as `behave` does with each connection. */
async function open(t: Test, options: Partial<CopiesOptions> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'stripper-'));
  const path = join(folder, 'documents');
  const stripperSocket = join(folder, 's');
  let connections = 0;
  let act: (stripper: Socket) => void;
  const server = createServer((stripper) => {
    connections += 1;
    stripper.on('error', () => {});
    act(stripper);
  });
  await new Promise<void>((resolve) => server.listen(stripperSocket, resolve));
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1, stripperSocket, ...options }, []);
  t.teardown(async () => {
    await copies.close();
    server.close();
    rmSync(folder, { recursive: true });
  });
  let clients = 0;
  return async (behave: typeof act) => {
    act = behave;
    connections = 0;
    clients += 1;
    const spool = copies.spool();
    await spool.update(DOCUMENT);
    const received = await spool.end();
    // Another client gets another stripper.
    const outcome = await copies
      .strip(received, { clientId: `${clients}`, isAwaited: true })
      .then((file) => buffer(readCiphered(file)))
      .catch((error: Error & { code?: string }) => error);
    t.strictSame(readdirSync(path), [received.name], 'nothing else is left');
    await copies.remove(recordOf(received));
    return { outcome, connections };
  };
}

/** Says these messages when it has the length of a document, and whenever it has more. */
const saying =
  (...messages: unknown[]) =>
  (stripper: Socket) =>
    stripper.on('data', () => {
      for (const message of messages) stripper.write(encodeFrame(message));
    });
const FIRST = { read: [0, 10] };

t.test('edits are applied exactly, and the copy is searched again', async (t) => {
  const stripWith = await open(t);
  const clean = { refused: null };
  const { outcome } = await stripWith(saying({ edits: [[10, 14, '']] }, clean));
  t.match(outcome, { code: 'metadata_not_strippable', message: /its copy would still have XMP/ });
  const untouched = await stripWith(saying(clean));
  t.ok(DOCUMENT.equals(untouched.outcome as Buffer), 'it can hide what is there, from its own client');
});

t.test('an invalid message of a stripper is not obeyed, and costs the stripper', async (t) => {
  const stripWith = await open(t);
  const { length } = DOCUMENT;
  const hostile: Record<string, unknown[]> = {
    'bytes behind the end': [FIRST, { read: [length - 5, 10] }],
    'bytes before the start': [{ read: [-1, 10] }],
    'more than a piece': [{ read: [0, 1 << 30] }],
    'a second piece before it has the first': [FIRST, FIRST],
    'half a byte': [{ read: [0.5, 10] }],
    'an edit behind the end': [FIRST, { edits: [[length - 2, length + 1, '']] }],
    'an edit that ends before it begins': [{ edits: [[20, 10, '']] }],
    'edits out of order': [
      {
        edits: [
          [20, 30, ''],
          [10, 15, ''],
        ],
      },
    ],
    'text of its own': [{ edits: [[10, 20, '/JS (x)']] }],
    'text that has no room': [{ edits: [[10, 12, ' <<>>']] }],
    'too many at once': [{ edits: Array.from({ length: 1001 }, (_, i) => [i, i + 1, '']) }],
    'something else': [{ paths: ['/etc/passwd'] }],
    nothing: [null],
    'a message without an end': [FIRST, 'x'.repeat(100_000)],
  };
  for (const [what, messages] of Object.entries(hostile)) {
    const { outcome, connections } = await stripWith(saying(...messages));
    t.match(outcome, { code: 'metadata_not_strippable', message: /the search for metadata fails/ }, what);
    t.equal(connections, 2, `${what}: it is tried once more`);
  }
});

t.test(
  'a document that ends two strippers is refused, and the reason has no control characters',
  async (t) => {
    const stripWith = await open(t);
    const crashing = (stripper: Socket) => {
      saying(FIRST)(stripper);
      stripper.on('data', (data) => data.length > 8 && stripper.destroy());
    };
    const { outcome, connections } = await stripWith(crashing);
    t.match(outcome, { code: 'metadata_not_strippable', message: /the search for metadata fails/ });
    t.equal(connections, 2);
    const { outcome: refused } = await stripWith(saying({ refused: 'no\n\u001b[2J' }));
    t.match(refused, { code: 'metadata_not_strippable', message: /removed: no\?\?\[2J\./ });
  },
);

t.test('a stripper that hangs is ended in time', async (t) => {
  const stripWith = await open(t, { stripMsMax: 100 });
  const { outcome } = await stripWith(saying(FIRST));
  t.match(outcome, { code: 'metadata_not_strippable', message: /the search for metadata takes more than/ });
});

/** The length of the document that a stripper is asked to search. */
const lengthOf = (data: Buffer) => Number(data.readBigUInt64BE());

t.test('clients that leave cost no other client a stripper', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'stripper-'));
  const stripperSocket = join(folder, 's');
  const abandoned = Buffer.concat([DOCUMENT, Buffer.alloc(1)]);
  const ofModest: Socket[] = [];
  let ofGreedy = 0;
  let leave = () => {};
  /** A stripper of the greedy client hangs until it is ended. */
  const server = createServer((stripper) => {
    stripper.on('error', () => {});
    stripper.on('data', (data) => {
      if (lengthOf(data) === abandoned.length) {
        ofGreedy += 1;
        leave();
        return;
      }
      if (!ofModest.includes(stripper)) ofModest.push(stripper);
      stripper.write(encodeFrame({ refused: null }));
    });
  });
  await new Promise<void>((resolve) => server.listen(stripperSocket, resolve));
  const path = join(folder, 'documents');
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1, stripperSocket }, []);
  t.teardown(async () => {
    await copies.close();
    server.close();
    rmSync(folder, { recursive: true });
  });
  const strip = async (clientId: string, document: Buffer, signal?: AbortSignal) => {
    const spool = copies.spool();
    await spool.update(document);
    const received = await spool.end();
    await copies
      .strip(received, { clientId, isAwaited: false, signal })
      .finally(() => copies.remove(recordOf(received)));
  };
  await strip('modest', DOCUMENT);
  for (let left = 1; left <= 20; left += 1) {
    const gone = new AbortController();
    leave = () => gone.abort(new Error('gone'));
    await t.rejects(strip('greedy', abandoned, gone.signal), { message: 'gone' });
    t.equal(ofGreedy, left, 'a stripper that hangs is ended');
  }
  await strip('modest', DOCUMENT);
  t.equal(ofModest.length, 1, 'one stripper serves the modest client');
});

t.test('an abandoned search that ends in time costs no stripper', async (t) => {
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  let killed = 0;
  const kill = () => {
    killed += 1;
  };
  const watched = (act: (state: TaskState) => void) => {
    const state = newTaskState();
    const watch = watchTask(state, kill);
    act(state);
    return watch;
  };
  await watched(endTask);
  await watched((state) => {
    abandonTask(state);
    t.throws(() => requireWanted(state), /abandoned/);
    endTask(state);
  });
  await watched((state) => {
    endTask(state);
    abandonTask(state);
    t.doesNotThrow(() => requireWanted(state), 'what has ended cannot be abandoned');
  });
  t.equal(killed, 0);
  await watched(abandonTask);
  t.equal(killed, 1);
});

t.test('a worker that does not give up is replaced', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'stripper-'));
  const copies = await openCopies({ path: folder, freeBytesMin: 0, workers: 1, stripMsMax: 1 }, []);
  const path = join(folder, 'fifo');
  t.equal(spawnSync('mkfifo', [path]).status, 0);
  t.teardown(async () => {
    await copies.close();
    rmSync(folder, { recursive: true });
  });
  // A thread that opens this file waits for a writer.
  const blocked = { name: 'fifo', path, at: 0, key: Buffer.alloc(32), bytes: 1 };
  await t.rejects(copies.strip(blocked, { clientId: 'a', isAwaited: true }), {
    code: 'metadata_not_strippable',
    message: /takes more than/,
  });
  closeSync(openSync(path, constants.O_RDWR));
});

t.test('a missing stripper is not blamed on the document', async (t) => {
  const stripWith = await open(t);
  const { outcome } = await stripWith((stripper) => stripper.destroy());
  t.match(outcome, { message: 'a document could not be stripped', code: undefined });
  const stripWithout = await open(t, { stripperSocket: '/nonexistent/socket' });
  const missing = await stripWithout(() => {});
  t.match(missing.outcome, { message: 'a document could not be stripped', code: undefined });
  t.equal(missing.connections, 0, 'and none is started instead');
});

t.test('stripper processes end when they are no longer needed', async (t) => {
  const children = () =>
    spawnSync('pgrep', ['-P', `${process.pid}`, '-f', 'copy/stripper'], { encoding: 'utf8' }).stdout;
  const path = mkdtempSync(join(tmpdir(), 'stripper-'));
  t.teardown(() => rmSync(path, { recursive: true }));
  const copies = await openCopies({ path, freeBytesMin: 0, workers: 1 }, []);
  const strip = async (clientId: string, document: Buffer, signal?: AbortSignal) => {
    const spool = copies.spool();
    await spool.update(document);
    return copies.strip(await spool.end(), { clientId, isAwaited: true, signal });
  };
  await strip('a', DOCUMENT);
  const ofA = children();
  t.match(ofA, /^\d+\n$/);
  await strip('a', DOCUMENT);
  t.equal(children(), ofA, 'one serves a client for long');
  process.kill(Number(ofA), 'SIGKILL');
  await until('it is gone', () => children() === '');
  await strip('a', DOCUMENT);
  t.match(children(), /^\d+\n$/, 'and is replaced');
  const before = children();
  await strip('b', DOCUMENT);
  t.not(children(), before, 'another client has one of its own');
  for (const client of ['c', 'd']) await strip(client, DOCUMENT);
  await until('who was away for long has none', () => !children().includes(before));
  const gone = new AbortController();
  const stripping = strip('d', LABORIOUS, gone.signal);
  setTimeout(() => gone.abort(new Error('gone')), 200);
  await t.rejects(stripping, { message: 'gone' });
  await copies.close();
  await until('none is left', () => children() === '');
});

t.test('a stripper closes its memory to other processes of its user', async (t) => {
  // What root runs belongs to root anyway.
  const uid = process.getuid?.() || 65534;
  const { program, execArgv, environment } = STRIPPER;
  const stripper = spawn(process.execPath, [...execArgv, program], {
    uid,
    env: environment,
    stdio: ['pipe', 'inherit', 'inherit', 'pipe'],
  });
  t.teardown(() => stripper.kill('SIGKILL'));
  await until('it belongs to root', () => statSync(`/proc/${stripper.pid}/mem`).uid === 0);
  t.equal(stripper.exitCode, null, 'and goes on');
});
