import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { WIDTHS } from '../../src/hash/calibrate.ts';
import type { Hashed, Piece } from '../../src/hash/engine.ts';
import { loadNativeAddon, type NativeThreads } from '../../src/hash/native.ts';
import { openWasm } from '../../src/hash/wasm.ts';
import { fc, tries } from '../support/seed.ts';

const addon = loadNativeAddon();
const everyWidth = (kernel: string) => WIDTHS.map(() => kernel);
const portable = everyWidth('portable');
let threads = new addon.Threads(2, portable);
t.teardown(() => threads.close());

/** Hashes with other kernels from now on. */
function use(kernels: string[]): void {
  threads.close();
  threads = new addon.Threads(2, kernels);
}

/** Where hashes change what they do: blocks, the room for the length in the last block, strides, groups of strides. */
const EDGES = [
  1, 55, 56, 63, 64, 111, 112, 119, 120, 127, 128, 255, 256, 383, 384, 511, 512, 513, 1024, 2048, 4096,
];

function digests(data: Uint8Array): Hashed {
  return {
    sha256: createHash('sha256').update(data).digest('hex'),
    sha512: createHash('sha512').update(data).digest('hex'),
  };
}

function noise(length: number, seed = 1): Buffer {
  const data = Buffer.alloc(length);
  let x = seed;
  for (let i = 0; i < length; i++) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    data[i] = x >>> 24;
  }
  return data;
}

async function stateAfter(bytes: Uint8Array, state?: Uint8Array): Promise<Uint8Array> {
  const [hashed] = await threads.hash([{ ...(state && { state }), chunks: [bytes], last: false }]);
  assert(hashed !== undefined && 'state' in hashed);
  return hashed.state;
}

function equal(bytes: Uint8Array[], answers: Hashed[]): void {
  assert.deepEqual(answers, bytes.map(digests));
}

const whole = (bytes: Uint8Array): Piece => ({ chunks: [bytes], last: true });

/** Three of them: none or a few bytes, up to a stride, the rest. */
function inChunks(bytes: Uint8Array): Uint8Array[] {
  const [first, second] = [bytes.length % 5, 5 + (bytes.length % 131)];
  return [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)];
}

/** Hashes documents side by side, each cut into pieces of its own sizes, as many per call as have bytes left. */
async function hashInPieces(documents: Uint8Array[], sizes: number[][]): Promise<Hashed[]> {
  const done: Hashed[] = [];
  const lanes = documents.map((bytes, index) => ({
    index,
    bytes,
    at: 0,
    cuts: [...(sizes[index] ?? [])],
    state: undefined as Uint8Array | undefined,
  }));
  for (let open = lanes; open.length > 0; ) {
    const pieces = open.map((lane) => {
      const size = lane.cuts.shift() ?? lane.bytes.length;
      const bytes = lane.bytes.subarray(lane.at, lane.at + size);
      lane.at += bytes.length;
      const last = lane.at === lane.bytes.length && lane.cuts.length === 0;
      return { ...(lane.state && { state: lane.state }), chunks: inChunks(bytes), last };
    });
    const answers = await threads.hash(pieces);
    open = open.filter((lane, i) => {
      const answer = answers[i];
      assert(answer !== undefined);
      if ('state' in answer) lane.state = answer.state;
      else done[lane.index] = answer;
      return 'state' in answer;
    });
  }
  return done;
}

/** Each kernel alone, and all of them together: the first of them for one stream, the second for two, and so on. */
const KERNELS = addon.kernels();
const PLANS: Record<string, string[]> = {
  ...Object.fromEntries(KERNELS.map((kernel) => [kernel, everyWidth(kernel)])),
  'each width by another': WIDTHS.map((_, i) => KERNELS[(i + 1) % KERNELS.length] ?? 'portable'),
};

for (const [name, kernels] of Object.entries(PLANS)) {
  t.test(name, async (t) => {
    t.before(() => use(kernels));

    t.test('gives its known answers', async (t) => {
      for (const kernel of kernels) t.ok(addon.selfTest(kernel), kernel);
    });

    t.test('gives the digests of the FIPS 180-4 example vectors', async (t) => {
      const messages = [
        '',
        'abc',
        'abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq',
        'abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu',
      ].map((text) => Buffer.from(text));
      t.match(await threads.hash(messages.map(whole)), [
        {
          sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
          sha512:
            'cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e',
        },
        {
          sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
          sha512:
            'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
        },
        { sha256: '248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1' },
        {
          sha256: 'cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1',
          sha512:
            '8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909',
        },
      ]);
    });

    t.test('gives the digest of the long vector of FIPS 180, a million times "a"', async (t) => {
      const [answer] = await threads.hash([whole(Buffer.alloc(1_000_000, 'a'))]);
      t.match(answer, {
        sha256: 'cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0',
        sha512:
          'e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973ebde0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b',
      });
    });

    t.test('is right for every length from 0 to 1024, alone and side by side', async (t) => {
      const text = noise(1024);
      const documents = Array.from({ length: 1025 }, (_, length) => text.subarray(0, length));
      const sideBySide = await threads.hash(documents.map(whole));
      t.doesNotThrow(() => equal(documents, sideBySide));
      const alone = await Promise.all(documents.map((bytes) => threads.hash([whole(bytes)])));
      t.doesNotThrow(() => equal(documents, alone.flat()));
    });

    t.test('is right for any cut and any alignment of the bytes', async (t) => {
      const text = noise(9000);
      for (const [i, length] of EDGES.entries()) {
        const documents = [-1, 0, 1].map((d) => text.subarray(i, i + length + d + 4200));
        const answers = await hashInPieces(documents, [[length - 1], [length], [length + 1, 0, 1]]);
        t.doesNotThrow(() => equal(documents, answers));
      }
    });

    t.test('is right for 1 to 40 documents of all sizes, in any pieces', async (t) => {
      const size = fc.oneof(fc.nat(200), fc.nat(5000), fc.constantFrom(...EDGES));
      const document = fc.record({ length: size, cuts: fc.array(size, { maxLength: 6 }), seed: fc.nat() });
      const property = fc.asyncProperty(
        fc.array(document, { minLength: 1, maxLength: 40 }),
        async (given) => {
          const documents = given.map(({ length, seed }) => noise(length, seed));
          const answers = await hashInPieces(
            documents,
            given.map(({ cuts }) => cuts),
          );
          equal(documents, answers);
        },
      );
      await t.resolves(fc.assert(property, { numRuns: tries(60) }));
    });

    t.test('is right for millions of bytes, with as many streams as there are', async (t) => {
      const text = noise(3_000_000);
      const documents = Array.from({ length: 19 }, (_, i) =>
        text.subarray(i * 1000, i * 1000 + (i + 1) * 150_001),
      );
      const answers = await hashInPieces(
        documents,
        documents.map((_, i) => Array(40).fill(65_536 - i)),
      );
      t.doesNotThrow(() => equal(documents, answers));
    });
  });
}

t.test('kernels continue from each other’s states', async (t) => {
  const text = noise(5000);
  let state: Uint8Array | undefined;
  for (const [i, kernel] of addon.kernels().entries()) {
    use(everyWidth(kernel));
    state = await stateAfter(text.subarray(i * 777, (i + 1) * 777), state);
  }
  const [answer] = await threads.hash([{ ...(state && { state }), chunks: [], last: true }]);
  t.same(answer, digests(text.subarray(0, addon.kernels().length * 777)));
});

t.test('bytes can be in shared memory, and neither they nor the state are changed', async (t) => {
  const shared = new Uint8Array(new SharedArrayBuffer(4000));
  shared.set(noise(4000));
  const state = await stateAfter(shared.subarray(0, 1001));
  const before = [Buffer.from(state), Buffer.from(shared)];
  for (let i = 0; i < 2; i++) {
    const answers = await threads.hash([{ state, chunks: [shared.subarray(1001)], last: true }]);
    t.same(answers, [digests(Buffer.from(shared))]);
  }
  t.same([Buffer.from(state), Buffer.from(shared)], before);
});

t.test('a state holds no bytes of the document except those of an unfinished stride', async (t) => {
  const text = Buffer.alloc(300, 'x');
  const state = await stateAfter(text.subarray(100, 265), await stateAfter(text.subarray(0, 100)));
  t.same(
    Buffer.from(state).subarray(112),
    Buffer.concat([Buffer.alloc(265 % 128, 'x'), Buffer.alloc(128 - (265 % 128))]),
  );
});

t.test('an input that is not a piece is refused', async (t) => {
  const bytes = Buffer.from('a');
  const state = await stateAfter(bytes);
  const wasm = (await openWasm())({ bytes, last: false });
  assert('state' in wasm);
  const changed = Buffer.from(state);
  changed[0] = 0;
  const chunks = [bytes];
  const cases: [unknown, RegExp][] = [
    [{ length: 1 }, /not an array/],
    [[{}], /not an object with chunks/],
    [[{ chunks: bytes, last: true }], /not an object with chunks/],
    [[{ chunks: ['text'], last: true }], /a chunk is not a Uint8Array/],
    [[{ chunks: [bytes, new Uint16Array(4)], last: true }], /a chunk is not a Uint8Array/],
    [[{ chunks: [new DataView(new ArrayBuffer(4))], last: true }], /a chunk is not a Uint8Array/],
    [[{ chunks, last: 1 }], /last is not a boolean/],
    [[{ chunks }], /last is not a boolean/],
    [[{ state: wasm.state, chunks, last: true }], /state is not one/],
    [[{ state: changed, chunks, last: true }], /state is not one/],
    [[{ state: state.subarray(1), chunks, last: true }], /state is not one/],
    [[{ state: null, chunks, last: true }], /state is not one/],
    [[whole(bytes), { chunks, last: 'yes' }], /last is not a boolean/],
  ];
  for (const [pieces, message] of cases) {
    t.throws(() => threads.hash(pieces as Piece[]), {
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_VALUE',
      message,
    });
  }
  t.throws(() => threads.hash([null as unknown as Piece]), { name: 'TypeError' });
  t.same(await threads.hash([]), []);
});

t.test('an error of a getter is passed on, and it cannot detach bytes that were already found', async (t) => {
  const bytes = new Uint8Array(new ArrayBuffer(1000));
  const failing = {
    chunks: [bytes],
    get last(): boolean {
      throw new RangeError('mine');
    },
  };
  t.throws(() => threads.hash([failing]), { name: 'RangeError', message: 'mine' });
  const detaching = {
    chunks: [Buffer.from('b')],
    get last() {
      structuredClone(bytes, { transfer: [bytes.buffer] });
      return true;
    },
  };
  const answers = await threads.hash([whole(bytes), detaching]);
  t.same(answers, [digests(Buffer.alloc(0)), digests(Buffer.from('b'))]);
  const closing = new addon.Threads(1, portable);
  const last = {
    chunks: [bytes],
    get last() {
      closing.close();
      return true;
    },
  };
  t.throws(() => closing.hash([last]), /the threads are closed/);
});

t.test('OpenSSL is the first kernel', async (t) => {
  t.equal(addon.kernels()[0], 'openssl');
});

t.test('only kernels of this processor are accepted, one for each width', async (t) => {
  const start = (kernels: unknown) => () => new addon.Threads(1, kernels as string[]);
  for (const ask of [addon.selfTest, (kernel: string) => addon.measure(kernel, 1)]) {
    t.throws(() => ask('abacus'), /no kernel of this name/);
    t.throws(() => ask('a'.repeat(1000)), /no kernel of this name/);
    t.throws(() => ask(1 as unknown as string), /name is not a string/);
  }
  t.throws(start(everyWidth('abacus')), /no kernel of this name/);
  t.throws(start([...portable.slice(1), 1]), /name is not a string/);
  for (const kernels of [undefined, 'portable', [], portable.slice(1), [...portable, 'portable']])
    t.throws(start(kernels), /not as many as there are widths/);
});

t.test('a kernel is measured with any allowed number of streams', async (t) => {
  for (const kernel of addon.kernels())
    for (let streams = 1; streams <= 16; streams++) t.ok(addon.measure(kernel, streams) > 0);
  for (const streams of [0, -1, 17, undefined])
    t.throws(() => addon.measure('portable', streams as number), /not a number of them/);
});

t.test('a worker thread has threads of its own, and can end while they run', async (t) => {
  const source = `
    const { parentPort, workerData } = require('node:worker_threads');
    const addon = require(workerData);
    const threads = new addon.Threads(2, Array(5).fill('portable'));
    parentPort.postMessage('ready');
    const task = () => threads.hash(Array.from({ length: 20 }, () => ({ chunks: [Buffer.alloc(4000)], last: false })));
    (async () => { for (;;) await Promise.all([task(), task(), task(), task()]); })();`;
  const path = new URL('../../native/build/Release/pdfseal_hash.node', import.meta.url).pathname;
  for (let i = 0; i < 24; i++) {
    const worker = new Worker(source, { eval: true, workerData: path });
    const ready = await new Promise((resolve, reject) =>
      worker.once('message', resolve).once('error', reject),
    );
    t.equal(ready, 'ready');
    await worker.terminate();
  }
  t.same(await threads.hash([whole(noise(100))]), [digests(noise(100))]);
});

t.test('threads: each of many simultaneous tasks gets its own result', async (t) => {
  const many = new addon.Threads(4, portable);
  t.teardown(() => many.close());
  const documents = Array.from({ length: 200 }, (_, i) => noise(i * 97, i));
  const answers = await Promise.all(documents.map((bytes) => many.hash([whole(bytes)])));
  t.doesNotThrow(() => equal(documents, answers.flat()));
});

t.test('threads: closing settles every task under way, and refuses further ones', async (t) => {
  const closed = new addon.Threads(2, portable);
  const documents = Array.from({ length: 50 }, (_, i) => noise(100_000, i));
  const answers = documents.map((bytes) => closed.hash([whole(bytes)]));
  closed.close();
  closed.close();
  t.throws(() => closed.hash([]), /the threads are closed/);
  for (const [i, outcome] of (await Promise.allSettled(answers)).entries()) {
    if (outcome.status === 'fulfilled') t.same(outcome.value, [digests(documents[i] ?? Buffer.alloc(0))]);
    else t.match(outcome.reason, { message: 'the threads are closed' });
  }
});

t.test('threads: bytes without another reference are kept until they are hashed', async (t) => {
  const answers = Array.from({ length: 100 }, (_, i) => threads.hash([whole(noise(50_000, i))]));
  for (let i = 0; i < 100; i++) Buffer.alloc(1_000_000, i);
  const documents = Array.from({ length: 100 }, (_, i) => noise(50_000, i));
  const settled = await Promise.all(answers);
  t.doesNotThrow(() => equal(documents, settled.flat()));
});

t.test('threads: a process waits for digests, but not for idle threads', async (t) => {
  const path = new URL('../../native/build/Release/pdfseal_hash.node', import.meta.url).pathname;
  const script = `
    const { Threads } = require(${JSON.stringify(path)});
    const threads = new Threads(2, Array(5).fill('portable'));
    threads.hash([{ chunks: [Buffer.alloc(5_000_000)], last: true }]).then(([{ sha256 }]) => console.log(sha256));`;
  const output = execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' });
  t.equal(output.trim(), createHash('sha256').update(Buffer.alloc(5_000_000)).digest('hex'));
});

t.test('threads: an invalid number of threads is refused', async (t) => {
  for (const count of [0, -1, 1025, '2', undefined])
    t.throws(() => new addon.Threads(count as number, portable), /not a number of threads/);
  const { hash } = addon.Threads.prototype;
  t.throws(() => hash.call({} as NativeThreads, []), /Illegal invocation/);
});
