/** Witnesses that no network reaches: what is carried to them, and what comes back however it was carried. */
import t, { type Test } from 'tap';
import { cosignaturesIn } from '../../src/log/cosignature.ts';
import { parseNote } from '../../src/log/note.ts';
import { emptyEdge, rootOf } from '../../src/log/tree.ts';
import { readCarriedAnswer } from '../../src/watch/carriedAnswer.ts';
import type { CarriedOutcome } from '../../src/watch/carrying.ts';
import { fc, mutations } from '../support/seed.ts';
import { until } from '../support/until.ts';
import { misbehave, TestWitness } from '../support/witness.ts';
import { openOn, TestLog } from './testLog.ts';

const SIZE_TYPE = 'text/x.tlog.size';

/** A whole HTTP answer, as most servers write a short one. */
function answerOf(status: number, body = '', type = 'text/plain'): string {
  const headers = `Content-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
  return `HTTP/1.1 ${status} Whatever\r\n${headers}\r\n${body}`;
}

/** What curl --include writes when it sends that to the witness. */
async function post(witness: TestWitness, body: string): Promise<string> {
  const response = await fetch(`${witness.url}add-checkpoint`, { method: 'POST', body });
  const text = await response.text();
  return answerOf(response.status, text, response.headers.get('content-type') ?? '');
}

const bodyOf = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4);

function cosigners(checkpoint: string | undefined, witnesses: readonly TestWitness[]): string[] {
  const note = parseNote(checkpoint ?? '');
  const all = witnesses.map(({ cosigner }) => cosigner);
  return note ? cosignaturesIn(note, all).map(({ cosigner }) => cosigner.name.slice(0, 1)) : [];
}

const refused = (message: RegExp, code = 'invalid_request') => ({ name: 'ServiceError', code, message });

/** A log of `leaves` with one witness that is not on the network. */
async function vault(t: Test, leaves: number) {
  const [log, a] = [new TestLog(), await TestWitness.open(t, 'a')];
  log.grow(leaves);
  const policy = `${a.line('a', '')}quorum a\n`;
  const { witnessing, lines } = await openOn(t, log, policy);
  const reopen = async () => (await openOn(t, log, policy)).witnessing.carrying;
  return { log, a, witnessing, lines, reopen, carrying: witnessing.carrying };
}

t.test('an answer counts for the requested checkpoint, whatever has happened since', async (t) => {
  const { log, a, carrying, reopen, witnessing } = await vault(t, 5);
  const first = await carrying.request(undefined);
  t.match(first, {
    witness: 'a',
    oldSize: 0,
    treeSize: 5,
    body: /^old 0\n\nseal\.example\.com\/test\/2026\n5\n/,
  });
  t.equal(log.known.carried?.[0]?.treeSize, 5, 'it is durable before it is given out');
  const answer = bodyOf(await post(a, first.body));
  log.grow(300);
  const restarted = await reopen();
  t.match(await restarted.accept(answer, undefined), {
    kind: 'cosigned',
    witness: 'a',
    treeSize: 5,
    isWitnessed: true,
  });
  t.match(log.known, { witnessed: { treeSize: 5 }, cosigned: { treeSize: 5 } });
  t.strictSame(cosigners(log.known.witnessed?.checkpoint, [a]), ['a']);
  t.match(Object.values(log.known.witnesses), [{ treeSize: 5, cosignedAt: Number }]);

  const again = await restarted.accept(answer, 'a');
  t.match(again, { kind: 'cosigned', treeSize: 5 }, 'twice is as once');
  t.equal(
    parseNote(log.known.witnessed?.checkpoint ?? '')?.signatures.length,
    5,
    'four of the log, one of the witness',
  );

  const second = await restarted.request('a');
  t.match(second, { oldSize: 5, treeSize: 305 });
  t.match(await restarted.accept(await post(a, second.body), 'a'), { kind: 'cosigned', treeSize: 305 });
  await t.rejects(
    restarted.accept(answer, 'a'),
    refused(/old answer, for the tree of 5 leaves: a holds 305/),
  );
  t.equal(log.known.witnessed?.treeSize, 305);
  t.notOk(witnessing.isForked);
});

t.test('a size from the witness gives the next request, as often as it is entered', async (t) => {
  const { log, a, carrying } = await vault(t, 5);
  await post(a, (await carrying.request('a')).body);
  log.grow(7);
  // The answer was lost on its way, and so was what the log remembers of it.
  const stale = await carrying.request('a');
  t.equal(stale.oldSize, 0);
  const told = await post(a, stale.body);
  t.match(told, /^HTTP\/1\.1 409 /);
  log.grow(1);
  for (const [answer, isNews] of [
    [bodyOf(told), true],
    ['5', false],
    [told, false],
  ] as const) {
    const found = await carrying.accept(answer, 'a');
    t.match(found, { kind: 'other_size', heldSize: 5, isNews, request: { oldSize: 5, treeSize: 12 } });
  }
  const { request } = (await carrying.accept('5', 'a')) as Extract<CarriedOutcome, { kind: 'other_size' }>;
  t.match(await carrying.accept(await post(a, request.body), 'a'), { kind: 'cosigned', treeSize: 12 });
  const puts = log.puts;
  await t.rejects(
    carrying.accept('5', 'a'),
    refused(/it cosigned 12: this is an old answer, or a has lost its memory/),
  );
  t.equal(log.puts, puts);
});

t.test('a mistyped size is corrected by the witness', async (t) => {
  const { a, carrying, log } = await vault(t, 5);
  t.match(await carrying.accept('4', 'a'), { request: { oldSize: 4, treeSize: 5 } });
  const { body } = await carrying.request('a');
  t.match(body, /^old 4\n/);
  const found = await carrying.accept(bodyOf(await post(a, body)), 'a');
  t.match(found, { kind: 'other_size', heldSize: 0, isNews: true, request: { oldSize: 0 } });
  t.match(await carrying.accept(await post(a, (await carrying.request('a')).body), 'a'), {
    kind: 'cosigned',
  });
  log.grow(4);
  t.match(await carrying.accept('7', 'a'), { request: { oldSize: 7, treeSize: 9 } });
  t.match(await carrying.accept(await post(a, (await carrying.request('a')).body), 'a'), { heldSize: 5 });
  t.match(await carrying.accept(await post(a, (await carrying.request('a')).body), 'a'), {
    kind: 'cosigned',
    treeSize: 9,
  });
});

t.test('an answer is accepted in any form that a scanner types, and refused if changed', async (t) => {
  const { a, carrying, log } = await vault(t, 5);
  const line = bodyOf(await post(a, (await carrying.request('a')).body)).trim();
  const [dash, name = '', signature = ''] = line.split(' ');
  t.equal(dash, '—');
  const wrong = [
    '',
    '\n\n',
    '5 5',
    '05',
    '+5',
    '5.0',
    '0x5',
    '5\n6',
    '９',
    'no',
    'the proof does not lead from the tree that this witness cosigned to the checkpoint\n',
    `${name}`,
    `— ${name} ${signature} more`,
    `— ${name} ${signature.slice(0, -4)}`,
    `— ${name} ${signature}\n5`,
    `HTTP/1.1 20 OK\r\n\r\n${line}`,
    `HTTP/1.1\r\n\r\n${line}`,
    `${line}\nHTTP/1.1 200 OK`,
    `HTTP/1.1 100 Continue\r\n\r\n`.repeat(20),
  ];
  const puts = log.puts;
  for (const text of wrong)
    await t.rejects(carrying.accept(text, 'a'), refused(/^This is not /), JSON.stringify(text.slice(0, 60)));
  await t.rejects(
    carrying.accept(`— ${name} ${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`, 'a'),
    refused(/^This is not a signature of a, whose key has the name a\.example\/witness/),
  );
  await t.rejects(carrying.accept(`— b.example/w ${signature}`, 'a'), refused(/it is by b\.example\/w/));
  const flipped = `${signature.slice(0, 40)}${signature[40] === 'A' ? 'B' : 'A'}${signature.slice(41)}`;
  await t.rejects(
    carrying.accept(`— ${name} ${flipped}`, 'a'),
    refused(/was changed on its way, or is for another/),
  );
  t.equal(log.puts, puts, 'nothing has changed');
  const good = [
    line,
    `${line}\n`,
    `\uFEFF${line}\r\n`,
    `  ${line}  \r\n\r\n`,
    `\r${line}\r`,
    `- ${name} ${signature}`,
    `â€” ${name}\t${signature}`,
    `${name} ${signature}`,
    `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n${line}\n`,
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/2 200 \ncontent-length: 9\n\n${line}`,
    `— b.example/w ${signature}\n${line}\n`,
  ];
  for (const text of good)
    t.match(
      await carrying.accept(text, undefined),
      { kind: 'cosigned', treeSize: 5 },
      JSON.stringify(text.slice(0, 40)),
    );
});

t.test('only a whole answer raises the fork alarm, and only after confirmation', async (t) => {
  const { a, carrying, log, witnessing, lines } = await vault(t, 5);
  const typed = async (answer: string, message: RegExp, isSure = [false, true]) => {
    const puts = log.puts;
    for (const raisesAlarm of isSure)
      await t.rejects(carrying.accept(answer, 'a', raisesAlarm), refused(message), answer);
    t.equal(log.puts, puts);
    t.notOk(witnessing.isForked);
  };
  const { body } = await carrying.request('a');
  await typed(
    '6\n',
    /^a contradicts the log, if this is its whole answer: it holds a tree of 6 leaves, and the log has 5/,
  );
  const conflict = 'HTTP/1.1 409 Conflict';
  const size = `${conflict}\r\nContent-Type: ${SIZE_TYPE}\r\n`;
  for (const cut of [
    conflict,
    `${conflict}\r\nContent-Length: 0\r\nContent-Type: text/x.tlog.si`,
    `${conflict}\r\nContent-Length: 0\r\n`,
    `${size}Transfer-Encoding: chunked\r\n\r\n`,
    `${size}\r\n6\n`,
    'HTTP/1.1 422 Unprocessable Content\r\n\r\nno\n',
    'HTTP/1.1 422 Unprocessable Entity\r\nContent-Type: application/json\r\n\r\n{"detail":[]}',
  ])
    await typed(cut, /if this is its whole answer: .*with its Content-Length/);
  for (const foreign of [
    answerOf(409, '<html>Conflict</html>', 'text/html'),
    answerOf(409, '-1\n', SIZE_TYPE),
    answerOf(409, '9007199254740992\n', SIZE_TYPE),
  ])
    await typed(foreign, /a answered with status 409 and no size: ask its operator/);
  await typed(`${size}Content-Length: 2\r\n\r\n`, /if this is its whole answer/);
  await typed(`${size}Content-Length: 3\r\n\r\n6\n`, /if this is its whole answer/);
  for (const [status, message] of [
    [403, /does not know the log/],
    [404, /does not know the log/],
    [429, /asked too often/],
    [500, /answered with status 500/],
    [302, /answered with status 302/],
  ] as const)
    await typed(`HTTP/1.1 ${status} X\r\n\r\nno\n`, message);
  a.misbehaving = misbehave(422, 'the proof is wrong\n');
  const whole = await post(a, body);
  await typed(whole, /if this is its answer to an unchanged request: it refuses .* --raise-fork-alarm/, [
    false,
  ]);
  t.match(await carrying.accept(whole, 'a', true), {
    kind: 'contradiction',
    witness: 'a',
    detail: /^it refuses a tree/,
  });
  t.ok(witnessing.isForked);
  t.match(
    lines.filter(({ event }) => event === 'fork_alarm'),
    [{ witness: 'a', msg: /nothing is sealed/ }],
  );
  t.match(
    Object.values(log.known.witnesses),
    [{ contradiction: { at: Number } }],
    'a restart does not end it',
  );
  const good = a.answerFor(parseNote(body.slice(body.indexOf('\n\n') + 2))?.text ?? '');
  for (const answer of ['4', '5', good, `HTTP/1.1 200 OK\r\n\r\n${good}`])
    await t.rejects(carrying.accept(answer, 'a'), refused(/a holds another history of the log/));
  await t.rejects(carrying.request('a'), refused(/a holds another history of the log/));
  t.ok(witnessing.isForked, 'no later answer ends it');
});

for (const [what, answer] of [
  ['409 without a size', misbehave(409)],
  ['a tree larger than the log', misbehave(409, '6\n', 'text/x.tlog.size')],
] as const)
  t.test(`the fork alarm: ${what}`, async (t) => {
    const { a, carrying, witnessing } = await vault(t, 5);
    const { body } = await carrying.request('a');
    a.misbehaving = answer;
    const whole = await post(a, body);
    await t.rejects(carrying.accept(whole, 'a'), refused(/--raise-fork-alarm/));
    t.notOk(witnessing.isForked);
    t.match(await carrying.accept(whole, 'a', true), { kind: 'contradiction' });
    t.ok(witnessing.isForked);
  });

t.test('the fork alarm is raised for another tree of the same size', async (t) => {
  const { a, carrying, witnessing } = await vault(t, 5);
  await carrying.accept(await post(a, (await carrying.request('a')).body), 'a');
  const { body, oldSize, treeSize } = await carrying.request('a');
  t.strictSame([oldSize, treeSize], [5, 5]);
  a.misbehaving = misbehave(409, '5\n', SIZE_TYPE);
  const whole = await post(a, body);
  t.match(await carrying.accept(whole, 'a'), { kind: 'other_size', isNews: false });
  await t.rejects(carrying.accept('5', 'a', true), refused(/if this is its whole answer/));
  t.notOk(witnessing.isForked);
  t.match(await carrying.accept(whole, 'a', true), {
    kind: 'contradiction',
    detail: 'it also holds a tree of 5 leaves, but with another root',
  });
  t.ok(witnessing.isForked);
});

t.test('honest answers that look like a fork change nothing', async (t) => {
  const [x, y] = [await vault(t, 300), await vault(t, 5)];
  const later = refused(/Nothing has changed\. Make sure that the answer is from a, and is for this log/);
  await post(x.a, (await x.carrying.request('a')).body);
  x.log.grow(10);
  const forX = await post(x.a, (await x.carrying.request('a')).body);
  await y.carrying.request('a');
  await t.rejects(y.carrying.accept(forX, 'a'), later, 'the answer to another log');

  await y.carrying.accept(await post(y.a, (await y.carrying.request('a')).body), 'a');
  y.log.grow(20);
  const lines = (await y.carrying.request('a')).body.split('\n');
  lines.splice(1, 1);
  const puts = y.log.puts;
  await t.rejects(
    y.carrying.accept(await post(y.a, lines.join('\n')), 'a'),
    later,
    'a lost line of the proof',
  );
  t.equal(y.log.puts, puts);
  t.notOk(y.witnessing.isForked);
});

t.test('the size of the log does not depend on who signed its newest checkpoint', async (t) => {
  const { a, log, carrying, witnessing } = await vault(t, 5);
  await post(a, (await carrying.request('a')).body);
  log.grow(2);
  const told = await post(a, (await carrying.request('a')).body);
  log.signers = log.keys.slice(1, 2);
  log.grow(3);
  t.match(await carrying.accept(told, 'a', true), {
    kind: 'other_size',
    heldSize: 5,
    request: { oldSize: 5, treeSize: 7 },
  });
  t.match(await carrying.accept('6', 'a'), { request: { oldSize: 6, treeSize: 7 } });
  const before = JSON.stringify(log.known);
  await t.rejects(carrying.accept('9', 'a'), refused(/No Ed25519 key signed/));
  t.equal(JSON.stringify(log.known), before, 'what cannot be requested is not remembered');
  t.match(await carrying.request('a', 7), { oldSize: 6 });
  log.announced = { ...(log.head as NonNullable<typeof log.head>), treeSize: 12 };
  await t.rejects(carrying.accept(answerOf(409, '11\n', SIZE_TYPE), 'a', true), refused(/No Ed25519/));
  t.notOk(witnessing.isForked, 'a witness on the network may have seen what is announced');
});

t.test('a mistyped size discards nothing', async (t) => {
  const { a, log, carrying } = await vault(t, 100);
  await carrying.accept(await post(a, (await carrying.request('a')).body), 'a');
  log.grow(50);
  const good = await post(a, (await carrying.request('a')).body);
  log.grow(50);
  const old = refused(/says that it holds 3 leaves, but it cosigned 100: this is an old answer/);
  await t.rejects(carrying.accept('3', 'a'), old);
  t.match(await carrying.accept('180', 'a'), { request: { oldSize: 180, treeSize: 200 } });
  await t.rejects(carrying.accept('3', 'a'), old);
  t.match(await carrying.accept(good, 'a'), { kind: 'cosigned', treeSize: 150, isWitnessed: true });
  t.match(await carrying.request('a'), { oldSize: 150, treeSize: 200 });
});

t.test('a cosignature from the future is refused', async (t) => {
  const { a, log, carrying, witnessing } = await vault(t, 5);
  const { body } = await carrying.request('a');
  const text = parseNote(body.slice(body.indexOf('\n\n') + 2))?.text ?? '';
  const puts = log.puts;
  await t.rejects(
    carrying.accept(a.answerFor(text, 4_070_908_800), 'a'),
    refused(/it dates its cosignature 2099-01-01T00:00:00\.000Z, more than a day after the clock of this/),
  );
  t.equal(log.puts, puts);
  const now = Math.floor(Date.now() / 1000);
  t.match(await carrying.accept(a.answerFor(text, now + 86_000), 'a'), { cosignedAt: now + 86_000 });
  t.equal(witnessing.status.witnessed?.at, (now + 86_000) * 1000);
});

t.test('no request or answer under way ends the fork alarm', async (t) => {
  const { log, carrying, witnessing } = await vault(t, 5);
  await carrying.request('a');
  const size = carrying.accept('4', 'a');
  const asked = carrying.request('a');
  t.match(await carrying.accept(answerOf(422), 'a', true), { kind: 'contradiction' });
  await t.rejects(size, refused(/holds another history/));
  await t.rejects(asked, refused(/holds another history/));
  t.ok(witnessing.isForked);
  t.match(Object.values(log.known.witnesses), [{ contradiction: { at: Number } }]);
});

t.test('a witness that left the policy is forgotten, and so is its alarm', async (t) => {
  const { a, log, carrying, witnessing, reopen } = await vault(t, 5);
  await carrying.request('a');
  await carrying.accept(answerOf(422), 'a', true);
  await witnessing.close();
  await t.rejects((await reopen()).request('a'), refused(/holds another history/));
  const without = await openOn(t, log, 'quorum none\n');
  await without.witnessing.close();
  t.strictSame(log.known.witnesses, {});
  const puts = log.puts;
  const again = await openOn(t, log, `${a.line('a', '')}quorum a\n`);
  t.notOk(again.witnessing.isForked);
  t.equal(log.puts, puts, 'nothing is written where nothing is to be forgotten');
});

t.test('a quorum over several witnesses cosigns one checkpoint', async (t) => {
  const log = new TestLog();
  const [a, b, c] = [
    await TestWitness.open(t, 'a'),
    await TestWitness.open(t, 'b'),
    await TestWitness.open(t, 'c'),
  ];
  const policy = `${a.line('a', '')}${b.line('b', '')}${c.line('c')}group all all a b c\nquorum all\n`;
  log.grow(5);
  const { witnessing } = await openOn(t, log, policy);
  const { carrying } = witnessing;
  await t.rejects(
    carrying.request(undefined),
    refused(/Name the witness: the policy has a, b, c/, 'missing_parameter'),
  );
  await t.rejects(carrying.request('d'), refused(/has no witness "d"/, 'invalid_parameter'));
  const first = await carrying.request('a');
  t.equal(c.held.treeSize, 5, 'who is on the network was asked first');
  log.grow(4);
  await until('the log goes on', () => c.held.treeSize === 9);
  await t.rejects(
    carrying.request('b', 4),
    refused(/those that are kept have 5 leaves/, 'invalid_parameter'),
  );
  const second = await carrying.request('b', 5);
  t.equal(second.treeSize, 5);
  // Whose it is tells who answered.
  t.match(await carrying.accept(await post(b, second.body), undefined), { witness: 'b', isWitnessed: false });
  t.equal(log.known.witnessed, undefined);
  t.match(await carrying.accept(await post(a, first.body), undefined), { witness: 'a', isWitnessed: true });
  t.strictSame(cosigners(log.known.witnessed?.checkpoint, [a, b, c]), ['a', 'b', 'c']);
  t.equal(log.known.cosigned?.treeSize, 9, 'what is newer is served on');
  t.match(witnessing.status, {
    witnesses: [
      { name: 'a', isAsked: false, treeSize: 5 },
      { name: 'b', isAsked: false, treeSize: 5 },
      { name: 'c', isAsked: true, treeSize: 9 },
    ],
    witnessed: { treeSize: 5 },
    isByHand: true,
  });
});

t.test('a witness on the network can be asked by hand too', async (t) => {
  const log = new TestLog();
  const a = await TestWitness.open(t, 'a');
  log.grow(5);
  const { witnessing } = await openOn(t, log, `${a.line('a', 'http://127.0.0.1:9/')}quorum a\n`);
  const { body } = await witnessing.carrying.request('a');
  t.notOk(witnessing.status.isByHand);
  t.match(await witnessing.carrying.accept(await post(a, body), 'a'), {
    kind: 'cosigned',
    isWitnessed: true,
  });
});

t.test('no request is made for a log that cannot be cosigned', async (t) => {
  const { log, carrying } = await vault(t, 0);
  log.head = undefined;
  await t.rejects(carrying.request('a'), refused(/no checkpoint yet/));
  log.signers = log.keys.slice(1, 2);
  log.grow(3);
  await t.rejects(carrying.request('a'), refused(/No Ed25519 key signed/));
  log.signers = log.keys;
  log.grow(3);
  log.damage();
  await t.rejects(carrying.accept('3', 'a'), refused(/run pdfseal check/));
});

t.test('of many requests the newest are kept, except those that no witness would cosign', async (t) => {
  const { log, a, carrying } = await vault(t, 1);
  const bodies: string[] = [];
  for (let n = 0; n < 20; n++) {
    bodies.push((await carrying.request('a')).body);
    log.grow(1);
  }
  t.strictSame(
    log.known.carried?.map(({ treeSize }) => treeSize),
    Array.from({ length: 16 }, (_, n) => 20 - n),
  );
  await t.rejects(carrying.accept(await post(a, bodies[0] ?? ''), 'a'), refused(/or is for another request/));
  a.held = { treeSize: 0, root: rootOf(emptyEdge()) };
  t.match(await carrying.accept(await post(a, bodies[9] ?? ''), 'a'), { kind: 'cosigned', treeSize: 10 });
  await carrying.request('a');
  t.strictSame(
    log.known.carried?.map(({ treeSize }) => treeSize),
    [21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10],
  );
});

t.test('any text is accepted as input, and a second reading gives the same', async () => {
  const scraps = [
    'HTTP/1.1 200 OK',
    '\r\n',
    '\n\n',
    '409',
    '— a.example/w AAAAAAAA',
    'Content-Length: 2',
    '\uFEFF',
  ];
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constantFrom(...scraps), fc.string()), { maxLength: 12 }), (parts) => {
      const found = readCarriedAnswer(parts.join(''));
      if (found?.answer.kind === 'contradiction' && !parts.join('').includes('HTTP/'))
        throw new Error('an alarm');
      if (found?.isWhole && !parts.join('').includes('HTTP/')) throw new Error('whole');
    }),
    { numRuns: mutations(20_000) },
  );
});
