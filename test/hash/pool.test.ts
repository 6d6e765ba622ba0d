import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Digests } from '../../src/hash/lane.ts';
import { type HashPool, type HashPoolOptions, openHashPool } from '../../src/hash/pool.ts';
import { fc, randomBytes, tries } from '../support/seed.ts';

const FAULTY_WORKER = new URL('./faulty-worker.ts', import.meta.url);
const CHUNK_BYTES = 64 * 1024;

const expected = (data: Uint8Array): Digests => ({
  sha256: createHash('sha256').update(data).digest('hex'),
  sha512: createHash('sha512').update(data).digest('hex'),
  bytes: data.length,
});

async function open(test: Test, options: Partial<HashPoolOptions> = {}) {
  const troubles: unknown[] = [];
  const pool = await openHashPool({
    workers: 1,
    engine: 'native',
    onTrouble: (error) => troubles.push(error),
    ...options,
  });
  test.teardown(() => pool.close());
  return { pool, troubles };
}

async function digest(pool: HashPool, chunks: Uint8Array[]): Promise<Digests> {
  const hasher = pool.hasher();
  for (const chunk of chunks) await hasher.update(chunk);
  return hasher.digest();
}

/** What the pool promises whichever engines hash. */
const ENGINES: Record<string, Partial<HashPoolOptions>> = {
  native: { engine: 'native' },
  wasm: { engine: 'wasm' },
  'both, compared': { engine: 'native', crossCheckShare: 1 },
};

for (const [name, options] of Object.entries(ENGINES)) {
  t.test(name, async (t) => {
    t.test('digests are those of node:crypto, at every edge of a block, a share and a slab', async (t) => {
      const { pool } = await open(t, options);
      const around = (n: number) => [n - 1, n, n + 1];
      const blocks = Array.from({ length: 131 }, (_, length) => length);
      const edges = [1024, 16 * 1024, 64 * 1024, 256 * 1024, 512 * 1024, 1024 * 1024].flatMap(around);
      for (const length of [...blocks, ...edges]) {
        const data = randomBytes(length);
        t.same(await digest(pool, [data]), expected(data), `${length} bytes`);
      }
    });

    t.test('documents hashed in parallel do not affect each other, however they are cut', async (t) => {
      const { pool } = await open(t, { ...options, workers: 2 });
      const chunks = fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 8 });
      const property = fc.asyncProperty(
        fc.array(chunks, { minLength: 1, maxLength: 40 }),
        async (documents) => {
          const digests = await Promise.all(documents.map((chunks) => digest(pool, chunks)));
          assert.deepEqual(
            digests,
            documents.map((chunks) => expected(Buffer.concat(chunks))),
          );
        },
      );
      await t.resolves(fc.assert(property, { numRuns: tries(40) }));
    });

    t.test('several large documents are hashed at the same time', async (t) => {
      const { pool } = await open(t, { ...options, workers: 2 });
      const documents = Array.from({ length: 5 }, (_, i) => randomBytes(1_000_000 + i * 77_777));
      const cut = (data: Buffer) =>
        Array.from({ length: Math.ceil(data.length / CHUNK_BYTES) }, (_, i) =>
          data.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
        );
      t.same(await Promise.all(documents.map((data) => digest(pool, cut(data)))), documents.map(expected));
    });

    t.test('a document that arrives faster than it is hashed must wait', async (t) => {
      const { pool } = await open(t, options);
      const hasher = pool.hasher();
      const chunk = randomBytes(CHUNK_BYTES);
      const answers = Array.from({ length: 8 }, () => hasher.update(chunk));
      t.same(
        answers.map((answer) => answer !== undefined),
        [false, false, false, true, true, true, true, true],
      );
      await Promise.all(answers);
      t.same(await hasher.digest(), expected(Buffer.concat(Array(8).fill(chunk))));
    });

    t.test('many documents together must wait earlier', async (t) => {
      const { pool } = await open(t, options);
      const chunk = randomBytes(200 * 1024);
      const hashers = Array.from({ length: 100 }, () => pool.hasher());
      const waits = hashers.map((hasher) => hasher.update(chunk));
      t.equal(waits[0], undefined);
      t.type(waits.at(-1), Promise);
      await Promise.all(waits);
      const digests = await Promise.all(hashers.map((hasher) => hasher.digest()));
      t.same(digests, Array(100).fill(expected(chunk)));
    });

    t.test('a small document is hashed while a large one keeps arriving', async (t) => {
      const { pool } = await open(t, options);
      const large = pool.hasher();
      let small: Digests | undefined;
      void digest(pool, [Buffer.from('small')]).then((digests) => {
        small = digests;
      });
      const chunk = Buffer.alloc(CHUNK_BYTES);
      while (small === undefined) await (large.update(chunk) ?? nextTurn());
      t.same(small, expected(Buffer.from('small')));
      large.abort();
    });

    t.test('documents that stand still occupy no worker', async (t) => {
      const { pool } = await open(t, options);
      const waiting = Array.from({ length: 300 }, (_, i) => ({
        hasher: pool.hasher(),
        data: Buffer.from(`${i}`),
      }));
      for (const { hasher, data } of waiting) await hasher.update(data);
      const data = randomBytes(100_000);
      t.same(await digest(pool, [data]), expected(data));
      const digests = await Promise.all(waiting.map(({ hasher }) => hasher.digest()));
      t.same(
        digests,
        waiting.map(({ data }) => expected(data)),
      );
    });

    t.test('an abandoned document is forgotten, the others are not', async (t) => {
      const { pool } = await open(t, options);
      const [left, kept] = [pool.hasher(), pool.hasher()];
      const chunk = randomBytes(CHUNK_BYTES * 8);
      const waiting = left.update(chunk);
      await kept.update(chunk);
      const digests = left.digest();
      left.abort();
      await waiting;
      await t.rejects(digests, { message: 'the document was abandoned' });
      t.same(await kept.digest(), expected(chunk));
      left.abort();
    });
  });
}

for (const [fault, deaths] of [
  ['die', 1],
  ['die', 2],
  ['hang', 1],
] as const) {
  t.test(`a task whose worker does ${fault} is repeated, ${deaths} of 3 attempts lost`, async (t) => {
    const { pool, troubles } = await open(t, {
      engine: 'wasm',
      worker: FAULTY_WORKER,
      taskTimeoutMs: fault === 'hang' ? 4000 : 60_000,
    });
    const hurt = Buffer.from(`${fault}${String.fromCharCode(deaths)} and the rest`);
    const others = Array.from({ length: 9 }, (_, i) => randomBytes(1000 * i));
    const digests = await Promise.all([hurt, ...others].map((data) => digest(pool, [data])));
    const healed = Buffer.from(`${fault}\0 and the rest`);
    t.same(digests, [healed, ...others].map(expected));
    t.ok(troubles.length >= deaths, 'the log is told');
  });
}

t.test('a document keeps its state when the worker of a later piece dies', async (t) => {
  const { pool } = await open(t, { engine: 'wasm', worker: FAULTY_WORKER });
  const hasher = pool.hasher();
  const start = randomBytes(100_000);
  await hasher.update(start);
  await digest(pool, [Buffer.from('one worker, so the start is hashed when this is')]);
  await hasher.update(Buffer.from('die\x01!'));
  t.same(await hasher.digest(), expected(Buffer.concat([start, Buffer.from('die\0!')])));
});

t.test('a task that fails three times fails only its own documents', async (t) => {
  const { pool, troubles } = await open(t, { engine: 'wasm', worker: FAULTY_WORKER });
  await t.rejects(digest(pool, [Buffer.from('die\x09')]), { message: 'a hash task failed for good' });
  t.equal(troubles.length, 3);
  const data = randomBytes(5000);
  t.same(await digest(pool, [data]), expected(data));
});

t.test('a worker that cannot load is found at the start', async (t) => {
  const worker = new URL('./no-such-worker.ts', import.meta.url);
  const opened = openHashPool({
    workers: 1,
    engine: 'wasm',
    onTrouble: () => {},
    taskTimeoutMs: 1000,
    worker,
  });
  await t.rejects(opened, { message: 'the hash workers did not start' });
});

t.test('closing the pool fails the documents under way', async (t) => {
  const pool = await openHashPool({
    workers: 1,
    engine: 'native',
    onTrouble: (error) => t.fail(String(error)),
  });
  const digests = digest(pool, [randomBytes(200_000)]);
  const rejected = t.rejects(digests, { message: 'the document was abandoned' });
  await nextTurn();
  await pool.close();
  await rejected;
});

t.test('a document on which the engines differ has no digest', async (t) => {
  const documents = Array.from({ length: 20 }, (_, i) => Buffer.from(i === 7 ? 'mishash' : `${i}`));
  const { pool } = await open(t, { worker: FAULTY_WORKER, crossCheckShare: 1 });
  const outcomes = await Promise.allSettled(documents.map((data) => digest(pool, [data])));
  for (const [i, outcome] of outcomes.entries()) {
    if (i === 7)
      t.match(outcome, { status: 'rejected', reason: { name: 'BrokenInvariant', message: /agree/ } });
    else t.match(outcome, { status: 'fulfilled' });
  }
});

t.test('only a share of the documents is compared', async (t) => {
  const { pool } = await open(t, { worker: FAULTY_WORKER, crossCheckShare: 0.5 });
  const digests = Array.from({ length: 100 }, () => digest(pool, [Buffer.from('mishash')]));
  const found = (await Promise.allSettled(digests)).filter(({ status }) => status === 'rejected').length;
  t.ok(found > 0 && found < 100, `${found} of 100`);
});

t.test('one engine is not compared with itself', async (t) => {
  const { pool } = await open(t, { worker: FAULTY_WORKER, engine: 'wasm', crossCheckShare: 1 });
  t.match(await digest(pool, [Buffer.from('mishash')]), { bytes: 7 });
});

t.test(
  'chunks that belong to the pool are freed after hashing, and others are left as they are',
  async (t) => {
    for (const engine of ['native', 'wasm'] as const) {
      const { pool } = await open(t, { engine });
      for (const owned of [true, false]) {
        const chunks = Array.from({ length: 20 }, () => new Uint8Array(randomBytes(CHUNK_BYTES)));
        const shared = new Uint8Array(100).subarray(50);
        const whole = Buffer.concat([...chunks, shared]);
        const hasher = pool.hasher(owned);
        for (const chunk of [...chunks, shared]) await hasher.update(chunk);
        t.same(await hasher.digest(), expected(whole));
        t.ok(
          chunks.every(({ length }) => length === (owned ? 0 : CHUNK_BYTES)),
          `${engine}, owned: ${owned}`,
        );
        t.equal(shared.length, 50, 'what lies in a larger buffer is not the pool’s to free');
      }
    }
  },
);

t.test('a chunk that two engines compare is freed by neither', async (t) => {
  const { pool } = await open(t, { crossCheckShare: 1 });
  const hasher = pool.hasher(true);
  const chunk = new Uint8Array(randomBytes(CHUNK_BYTES));
  void hasher.update(chunk);
  t.same(await hasher.digest(), expected(chunk));
});
