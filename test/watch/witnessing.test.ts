import { getEventListeners } from 'node:events';
import t from 'tap';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { cosignaturesIn } from '../../src/log/cosignature.ts';
import { parseNote } from '../../src/log/note.ts';
import type { ReadTile } from '../../src/log/tiles.ts';
import { emptyEdge, rootOf } from '../../src/log/tree.ts';
import { encodeVkey } from '../../src/log/verifierKey.ts';
import { makeKey } from '../support/sealing.ts';
import { until } from '../support/until.ts';
import { misbehave, TestWitness } from '../support/witness.ts';
import { type Opened, ORIGIN, openOn, TestLog } from './testLog.ts';

const eventsOf = (lines: Opened['lines']) =>
  lines.flatMap(({ event }) => (typeof event === 'string' ? [event] : []));

function cosignersOf(text: string | undefined, witnesses: readonly TestWitness[]): string[] {
  const note = parseNote(text ?? '');
  const cosigners = witnesses.map(({ cosigner }) => cosigner);
  return note ? cosignaturesIn(note, cosigners).map(({ cosigner }) => cosigner.name.slice(0, 1)) : [];
}

t.test('growth is cosigned by every witness, and the cosignatures are kept', async (t) => {
  const log = new TestLog();
  const [a, b] = [await TestWitness.open(t, 'a'), await TestWitness.open(t, 'b')];
  const policy = `${a.line('a')}${b.line('b')}group both all a b\nquorum both\n`;
  const { witnessing } = await openOn(t, log, policy);
  for (const leaves of [1, 4, 300]) {
    log.grow(leaves);
    await until('it is witnessed', () => log.known.witnessed?.treeSize === log.edge.size);
    t.strictSame(cosignersOf(log.known.witnessed?.checkpoint, [a, b]), ['a', 'b']);
    t.ok(
      log.known.witnessed?.checkpoint.startsWith(log.head?.checkpoint ?? ' '),
      'the lines of the log come first',
    );
  }
  t.strictSame(
    a.asked.map(({ oldSize }) => oldSize),
    [0, 1, 5],
    'each is asked from the tree that it holds, and once',
  );
  t.match(witnessing.status, {
    witnesses: [
      { name: 'a', isAsked: true, treeSize: 305, cosignedAt: Number, trouble: undefined },
      { name: 'b', treeSize: 305 },
    ],
    witnessed: { treeSize: 305, at: Number },
  });
  t.notOk(witnessing.isForked);
  t.ok(Buffer.byteLength(a.bodies.at(-1) ?? '') < 16 * 1024, 'every witness takes so much');
});

t.test('a witness is sent the lines of keys in its policy, or of all Ed25519 keys', async (t) => {
  const log = new TestLog();
  const [first, ecdsa, third] = log.keys.map((key) => encodeVkey(ORIGIN, key));
  log.grow(3);
  const signatures = parseNote(log.head?.checkpoint ?? '')?.signatures ?? [];
  const cases: [lines: string, expected: (typeof signatures)[number][]][] = [
    ['', [signatures[0], signatures[2]] as typeof signatures],
    [`log ${third}\n`, [signatures[2]] as typeof signatures],
    [
      `log ${encodeVkey('another.example/log', log.keys[0] ?? makeKey('ed25519', 'x'))}\nlog ${ecdsa}\n`,
      [signatures[0], signatures[2]] as typeof signatures,
    ],
    [`log ${first}\nlog ${third}\n`, [signatures[0], signatures[2]] as typeof signatures],
  ];
  for (const [lines, expected] of cases) {
    const a = await TestWitness.open(t, 'a');
    log.known = { witnesses: {} };
    const { witnessing } = await openOn(t, log, `${lines}${a.line('a')}quorum a\n`);
    await until('it is asked', () => log.known.witnessed !== undefined);
    await witnessing.close();
    t.strictSame(parseNote(a.asked[0]?.checkpoint ?? '')?.signatures, expected, lines);
    t.strictSame(parseNote(log.known.witnessed?.checkpoint ?? '')?.signatures.length, 5, 'the log keeps all');
  }
});

t.test('a checkpoint that no Ed25519 key signed is not sent to a witness', async (t) => {
  const log = new TestLog();
  log.signers = log.keys.slice(1, 2);
  const a = await TestWitness.open(t, 'a');
  const { lines } = await openOn(t, log, `${a.line('a')}quorum a\n`);
  log.grow(2);
  await until('it says so', () => lines.some(({ msg }) => /no Ed25519 key/.test(String(msg))));
  t.equal(a.asked.length, 0);
});

t.test('the log resynchronizes with the size that a witness holds', async (t) => {
  const log = new TestLog();
  const a = await TestWitness.open(t, 'a');
  log.grow(5);
  a.held = { treeSize: 5, root: rootOf(log.edge) };
  log.grow(7);
  const { lines } = await openOn(t, log, `${a.line('a')}quorum a\n`);
  await until('it is witnessed', () => log.known.witnessed?.treeSize === 12);
  t.strictSame(
    a.asked.map(({ oldSize }) => oldSize),
    [0, 5],
  );
  t.strictSame(eventsOf(lines), []);
  // It lost its memory: what it says it holds is where the proof begins.
  a.held = { treeSize: 0, root: rootOf(emptyEdge()) };
  log.grow(1);
  await until('it is witnessed', () => log.known.witnessed?.treeSize === 13);
  t.strictSame(
    a.asked.map(({ oldSize }) => oldSize),
    [0, 5, 12, 0],
  );
});

t.test('witness state survives a restart, and a cosignature is renewed only once it is old', async (t) => {
  const log = new TestLog();
  const [a, b] = [await TestWitness.open(t, 'a'), await TestWitness.open(t, 'b')];
  const policy = `${a.line('a')}${b.line('b')}quorum b\n`;
  b.misbehaving = misbehave(500);
  log.grow(9);
  const first = await openOn(t, log, policy);
  await until('one has cosigned', () => log.known.cosigned?.treeSize === 9);
  await until('and the other failed', () => eventsOf(first.lines).includes('witness_failing'));
  await first.witnessing.close();
  t.equal(log.known.witnessed, undefined, 'the quorum has not');
  b.misbehaving = undefined;
  const asked = a.asked.length;
  const second = await openOn(t, log, policy);
  await until('the quorum has', () => log.known.witnessed?.treeSize === 9);
  t.strictSame(cosignersOf(log.known.witnessed?.checkpoint, [a, b]), ['a', 'b'], 'both lines are there');
  await second.witnessing.close();
  t.equal(a.asked.length, asked, 'a has cosigned this one');
  let now = Date.now();
  const third = await openOn(t, log, policy, { clock: () => now });
  now += 3_600_001;
  await until('it is asked again', () => a.asked.length > asked);
  t.equal(a.asked.at(-1)?.oldSize, 9);
  await third.witnessing.close();
});

t.test('a cosignature from the future is refused', async (t) => {
  const log = new TestLog();
  const a = await TestWitness.open(t, 'a');
  const policy = `${a.line('a')}quorum a\n`;
  a.misbehaving = (res, { checkpoint }) =>
    void res.writeHead(200).end(a.answerFor(parseNote(checkpoint)?.text ?? '', 4_070_908_800));
  log.grow(9);
  const { witnessing, lines } = await openOn(t, log, policy);
  await until('it is reported', () => eventsOf(lines).includes('witness_failing'));
  t.match(witnessing.status.witnesses, [{ treeSize: 0, trouble: { code: 'faulty', detail: /2099-01-01/ } }]);
  t.equal(log.known.witnessed, undefined);
  a.misbehaving = undefined;
  await until('its clock is right', () => log.known.witnessed?.treeSize === 9);
  await witnessing.close();
  const past = Date.now() - 2 * 86_400_000;
  const early = await openOn(t, log, policy, { clock: () => past });
  t.match(early.witnessing.status.witnessed, { treeSize: 9, at: 0 }, 'nor is what was kept');
});

const contradictions: Record<string, (witness: TestWitness, log: TestLog) => void> = {
  'another tree of the same size': (witness, log) => {
    witness.held = { treeSize: log.edge.size, root: Buffer.alloc(32, 1) };
  },
  'another history, grown since': (witness, log) => {
    witness.held = { treeSize: log.edge.size, root: rootOf(log.edge) };
    log.restart();
    log.grow(20, 'other ');
  },
  'an older copy of the log': (witness, log) => {
    witness.held = { treeSize: log.edge.size, root: rootOf(log.edge) };
    log.restart();
    log.grow(4);
  },
  'status 409 without a size': (witness) => {
    witness.misbehaving = misbehave(409);
  },
  'status 409 with the size that was asked from': (witness) => {
    witness.misbehaving = (res, asked) =>
      misbehave(409, `${asked.oldSize}\n`, 'text/x.tlog.size')(res, asked);
  },
  'status 422': (witness) => {
    witness.misbehaving = misbehave(422, 'no\n');
  },
};
for (const [what, prepare] of Object.entries(contradictions)) {
  t.test(`fork alarm: ${what}`, async (t) => {
    const log = new TestLog();
    log.grow(8);
    const [a, b] = [await TestWitness.open(t, 'a'), await TestWitness.open(t, 'b')];
    prepare(a, log);
    const policy = `${a.line('a')}${b.line('b')}quorum b\n`;
    const { witnessing, lines } = await openOn(t, log, policy);
    await until('the alarm is kept', () => log.known.witnesses[a.vkey]?.contradiction !== undefined);
    t.ok(witnessing.isForked);
    t.match(
      lines.find(({ event }) => event === 'fork_alarm'),
      {
        level: 50,
        witness: 'a',
        msg: /the witness a holds another history of the log: it .*; nothing is sealed$/,
      },
    );
    t.match(witnessing.status.witnesses[0], { name: 'a', contradiction: { detail: /^it / } });
    const asked = a.asked.length + b.asked.length;
    log.grow(1);
    await witnessing.close();
    const again = await openOn(t, log, policy);
    t.ok(again.witnessing.isForked, 'it survives a restart');
    t.strictSame(eventsOf(again.lines), ['fork_alarm'], 'and is said again');
    await again.witnessing.close();
    t.equal(a.asked.length + b.asked.length, asked, 'nobody is asked to cosign the fork');
    const without = await openOn(t, log, `${b.line('b')}quorum b\n`);
    t.notOk(without.witnessing.isForked, 'an administrator took the witness out');
    await until('the others go on', () => log.known.witnessed?.treeSize === log.edge.size);
    t.notOk(a.vkey in log.known.witnesses, 'nothing is known of the witness any more');
  });
}

const troubles: Record<string, [(witness: TestWitness) => void, code: string, tries: number]> = {
  'status 500': [(a) => (a.misbehaving = misbehave(500)), 'faulty', 3],
  'status 400': [(a) => (a.misbehaving = misbehave(400)), 'faulty', 3],
  'a redirect': [
    (a) => (a.misbehaving = (res) => void res.writeHead(307, { Location: a.url }).end()),
    'faulty',
    3,
  ],
  'status 404': [(a) => (a.misbehaving = misbehave(404)), 'unknown_log', 1],
  'status 403': [(a) => (a.misbehaving = misbehave(403)), 'unknown_log', 1],
  'status 429': [(a) => (a.misbehaving = misbehave(429)), 'too_often', 1],
  'no line': [(a) => (a.misbehaving = misbehave(200, 'ok\n')), 'faulty', 3],
  'an endless answer': [(a) => (a.misbehaving = misbehave(200, 'x'.repeat(100_000))), 'unreachable', 3],
  'the line of another checkpoint': [
    (a) =>
      (a.misbehaving = misbehave(
        200,
        a.answerFor(encodeCheckpoint({ origin: ORIGIN, treeSize: 1, root: Buffer.alloc(32) })),
      )),
    'invalid_cosignature',
    1,
  ],
  'other sizes each time': [
    (a) =>
      (a.misbehaving = (res, asked) =>
        misbehave(409, `${asked.oldSize === 0 ? 1 : asked.oldSize - 1}\n`, 'text/x.tlog.size')(res, asked)),
    'faulty',
    3,
  ],
  'a connection that breaks': [(a) => (a.misbehaving = (res) => void res.destroy()), 'unreachable', 3],
};
for (const [what, [prepare, code, tries]] of Object.entries(troubles)) {
  t.test(`${what}: the others go on, and it is asked again`, async (t) => {
    const log = new TestLog();
    log.grow(3);
    const [a, b] = [await TestWitness.open(t, 'a'), await TestWitness.open(t, 'b')];
    prepare(a);
    const policy = `${a.line('a')}${b.line('b')}group one any a b\nquorum one\n`;
    const { witnessing, lines } = await openOn(t, log, policy, { intervalMs: 100_000 });
    await until('the other has cosigned', () => log.known.witnessed?.treeSize === 3);
    t.match(witnessing.status.witnesses, [{ trouble: { code } }, { treeSize: 3, trouble: undefined }]);
    t.equal(a.asked.length, tries);
    t.strictSame(eventsOf(lines), ['witness_failing']);
    t.notOk(witnessing.isForked);
    await witnessing.close();
    a.misbehaving = undefined;
    const again = await openOn(t, log, policy);
    await until('it cosigns', () => log.known.witnesses[a.vkey]?.treeSize === 3);
    t.strictSame(cosignersOf(log.known.cosigned?.checkpoint, [a, b]), ['a', 'b']);
    await again.witnessing.close();
  });
}

t.test('a trouble is logged once, as is its end', async (t) => {
  const log = new TestLog();
  log.grow(3);
  const a = await TestWitness.open(t, 'a');
  a.misbehaving = misbehave(404);
  const { lines } = await openOn(t, log, `${a.line('a')}quorum a\n`);
  await until('it is asked often', () => a.asked.length > 4);
  a.misbehaving = undefined;
  await until('it is witnessed', () => log.known.witnessed?.treeSize === 3);
  t.strictSame(eventsOf(lines), ['witness_failing', 'witness_back']);
});

t.test('a witness that answers 429 is asked at growing intervals', async (t) => {
  const log = new TestLog();
  log.grow(3);
  const a = await TestWitness.open(t, 'a');
  a.misbehaving = misbehave(429);
  const times: number[] = [];
  const { witnessing } = await openOn(t, log, `${a.line('a')}quorum a\n`, { intervalMs: 20 });
  for (let n = 1; n <= 4; n++) {
    await until('it is asked again', () => a.asked.length >= n);
    times.push(performance.now());
  }
  await witnessing.close();
  const [first = 0, , , last = 0] = times;
  t.ok(last - first >= 40 + 80 + 160 - 60, `${last - first} ms`);
});

t.test('damaged tiles are not blamed on a witness or reported as a fork', async (t) => {
  const log = new TestLog();
  log.grow(300);
  const a = await TestWitness.open(t, 'a');
  a.held = { treeSize: 5, root: Buffer.alloc(32) };
  log.known = { witnesses: { [a.vkey]: { treeSize: 5 } } };
  log.damage();
  const { witnessing } = await openOn(t, log, `${a.line('a')}quorum a\n`);
  await until('it is noticed', () => witnessing.status.witnesses[0]?.trouble?.code === 'log_damaged');
  t.equal(a.asked.length, 0);
  t.notOk(witnessing.isForked);
});

t.test('a witness without a URL is not asked, and a stop does not wait for one that hangs', async (t) => {
  const log = new TestLog();
  log.grow(3);
  const [a, b] = [await TestWitness.open(t, 'a'), await TestWitness.open(t, 'b')];
  b.misbehaving = () => {};
  const { witnessing } = await openOn(t, log, `${a.line('a', '')}${b.line('b')}quorum a\n`);
  await until('it is asked', () => b.asked.length > 0);
  await witnessing.close();
  t.equal(a.asked.length, 0);
  t.match(witnessing.status.witnesses[0], { name: 'a', isAsked: false, treeSize: 0 });
});

/** The batch that the log is about to take up, as the sealer announces it. */
function announce(
  log: TestLog,
  leaves: number,
): { checkpoint: string; readTile: ReadTile; commit: () => void } {
  const before = log.head;
  log.grow(leaves);
  const announced = log.head;
  log.head = before;
  log.announced = announced;
  const commit = () => {
    log.head = announced;
    log.announced = undefined;
  };
  return {
    checkpoint: announced?.checkpoint ?? '',
    readTile: (level, index) => log.store.log.tile(level, index),
    commit,
  };
}

t.test('a batch is cosigned before it is in the log, and a slow witness delays nothing', async (t) => {
  const log = new TestLog();
  const [a, b] = [await TestWitness.open(t, 'a'), await TestWitness.open(t, 'b')];
  b.misbehaving = () => {};
  const { witnessing, lines } = await openOn(
    t,
    log,
    `${a.line('a')}${b.line('b')}group one any a b\nquorum one\n`,
  );
  for (const leaves of [3, 1, 300]) {
    const { checkpoint, readTile, commit } = announce(log, leaves);
    t.ok(witnessing.accept(checkpoint));
    const { signal } = new AbortController();
    t.equal(await witnessing.cosign(checkpoint, readTile, signal), true);
    t.strictSame(getEventListeners(signal, 'abort'), [], 'nothing listens on');
    t.not(log.known.witnessed?.treeSize, log.edge.size, 'what is no part of the log is not served');
    commit();
    witnessing.released();
    await until('it is kept', () => log.known.witnessed?.treeSize === log.edge.size);
  }
  t.ok(witnessing.canCosign());
  t.strictSame(eventsOf(lines), [], 'the rounds of the timer meanwhile found no fork');
});

t.test('below the quorum, the daemon reports it, asks again, and goes on', async (t) => {
  const log = new TestLog();
  const a = await TestWitness.open(t, 'a');
  a.misbehaving = misbehave(503);
  const { witnessing } = await openOn(t, log, `${a.line('a')}quorum a\n`);
  const { checkpoint, readTile } = announce(log, 5);
  const stop = new AbortController();
  const cosigned = witnessing.cosign(checkpoint, readTile, stop.signal);
  await until('it gives notice', () => !witnessing.canCosign());
  const recovered = witnessing.recovered(new AbortController().signal);
  a.misbehaving = undefined;
  await recovered;
  t.equal(await cosigned, true);
  a.misbehaving = misbehave(503);
  const next = announce(log, 1);
  const hopeless = witnessing.cosign(next.checkpoint, next.readTile, stop.signal);
  await until('it gives notice again', () => !witnessing.canCosign());
  stop.abort();
  t.equal(await hopeless, false, 'the daemon is being stopped');
});

t.test('while a batch waits, a witness that answered 429 is asked again within seconds', async (t) => {
  const log = new TestLog();
  log.grow(2);
  const a = await TestWitness.open(t, 'a');
  a.misbehaving = misbehave(429);
  const { witnessing } = await openOn(t, log, `${a.line('a')}quorum a\n`, { intervalMs: 3_600_000 });
  await until('the timer asks', () => witnessing.status.witnesses[0]?.trouble?.code === 'too_often');
  const { checkpoint, readTile } = announce(log, 5);
  const asked = a.asked.length;
  const cosigned = witnessing.cosign(checkpoint, readTile, new AbortController().signal);
  await until('the batch asks twice', () => a.asked.length >= asked + 2);
  a.misbehaving = undefined;
  await until('it is cosigned', () => a.held.treeSize === 7);
  t.equal(await cosigned, true);
});

t.test('a checkpoint that a witness saw before a crash does not count as a fork', async (t) => {
  const log = new TestLog();
  const a = await TestWitness.open(t, 'a');
  log.grow(2);
  const policy = `${a.line('a')}quorum a\n`;
  const first = await openOn(t, log, policy);
  const { checkpoint, readTile, commit } = announce(log, 5);
  t.equal(await first.witnessing.cosign(checkpoint, readTile, new AbortController().signal), true);
  await first.witnessing.close();
  log.known = { witnesses: {} };
  const second = await openOn(t, log, policy);
  const asked = a.asked.length;
  await until('it is asked by the timer, with the head of the log', () => a.asked.length > asked);
  t.equal(await second.witnessing.cosign(checkpoint, readTile, new AbortController().signal), true);
  commit();
  second.witnessing.released();
  await until('it is kept', () => log.known.witnessed?.treeSize === 7);
  t.notOk(second.witnessing.isForked);
});

t.test('a batch that no Ed25519 key signed is not sent to a witness', async (t) => {
  const log = new TestLog();
  log.signers = log.keys.slice(1, 2);
  const a = await TestWitness.open(t, 'a');
  const { witnessing } = await openOn(t, log, `${a.line('a')}quorum a\n`);
  const { checkpoint } = announce(log, 1);
  t.notOk(witnessing.accept(checkpoint));
  t.notOk(witnessing.canCosign(), 'so that no key signs one after the other');
  await witnessing.recovered(new AbortController().signal);
  t.ok(witnessing.canCosign());
});
