import { generateKeyPairSync, sign } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import t, { type Test } from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { OperatorError } from '../../src/base/errors.ts';
import { encodeAddCheckpoint } from '../../src/log/addCheckpoint.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { cosignaturesIn } from '../../src/log/cosignature.ts';
import { encodeSignatureLines, NOTE_SIGNATURES_MAX, parseNote } from '../../src/log/note.ts';
import { consistencyProof } from '../../src/log/proof.ts';
import { leafHash, rootOf } from '../../src/log/tree.ts';
import { parseVkey, type VerifierKey } from '../../src/log/verifierKey.ts';
import { HeldCheckpoints } from '../../src/witness/heldCheckpoints.ts';
import { type CosigningKey, Witness, type WitnessReply } from '../../src/witness/witness.ts';
import { growTree, makeKey, signNote, type TestKey } from '../support/sealing.ts';
import recorded from '../vectors/witness/litewitness.json' with { type: 'json' };
import omniwitness from '../vectors/witness/omniwitness.json' with { type: 'json' };

const origin = 'seal.example.com/sandbox/2026';
const logKey = makeKey('ed25519', 'eu-1');
const START = Date.parse('2026-03-04T05:06:07.800Z');

function makeCosigningKey(): CosigningKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  return {
    cosigner: { name: 'witness.example.com/w', algorithm: 'ed25519', key },
    sign: async (message) => sign(null, message, privateKey),
  };
}

/** A key that counts its signatures; from `shut` to `open`, they wait. */
function watchedKey() {
  const key = makeCosigningKey();
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  const watched = {
    ...key,
    signatures: 0,
    shut: () => {
      gate = Promise.withResolvers<void>();
    },
    open: () => gate.resolve(),
    sign: async (message: Uint8Array) => {
      watched.signatures += 1;
      await gate.promise;
      return key.sign(message);
    },
  };
  return watched;
}

interface Opening {
  key?: CosigningKey;
  keys?: VerifierKey[];
  clock?: () => number;
  monotonicMs?: () => number;
  logger?: Logger;
}

/** A witness of logs in a folder; opened again on the same folder, it is the same witness after a restart. */
async function openWitness(folder: string, options: Opening = {}) {
  const { key = makeCosigningKey(), clock = () => START, logger = pino({ level: 'silent' }) } = options;
  const { monotonicMs = clock } = options;
  const keys = options.keys ?? [{ name: origin, ...logKey }];
  const name = keys[0]?.name ?? origin;
  const logs = new Map([[name, keys]]);
  const held = await HeldCheckpoints.open(folder, key.cosigner, logs);
  return { held, key, witness: new Witness({ key, logs, held, clock, monotonicMs, logger }) };
}

/** A history of the log, as it could be asked to be cosigned. */
function historyOf(leaf: (n: number) => string, keys: readonly TestKey[] = [logKey]) {
  const leaves = Array.from({ length: 40 }, (_, n) => leafHash(Buffer.from(leaf(n))));
  const { shelf } = growTree(leaves, 1);
  return async (oldSize: number, newSize: number): Promise<string> => {
    const { edge } = growTree(leaves.slice(0, newSize), 1);
    const text = encodeCheckpoint({ origin, treeSize: newSize, root: rootOf(edge) });
    const proof = oldSize > newSize ? [] : await consistencyProof(oldSize, newSize, shelf.read);
    return encodeAddCheckpoint({ oldSize, proof, checkpoint: signNote(origin, text, keys) });
  };
}

const genuine = historyOf((n) => `leaf ${n}`);
const forked = historyOf((n) => (n < 7 ? `leaf ${n}` : `other ${n}`));

/** When the reply says that the witness cosigned what was asked; undefined if it did not. */
function cosignedAt(key: CosigningKey, request: string, { status, body }: WitnessReply): number | undefined {
  const note = parseNote(request.slice(request.indexOf('\n\n') + 2));
  const lines = status === 200 && note ? parseNote(`${note.text}\n${body}`) : undefined;
  return lines && cosignaturesIn(lines, [key.cosigner])[0]?.time;
}

t.test('the witness answers as litewitness did', async (t) => {
  const log = parseVkey(recorded.log);
  if (log === undefined) throw new Error('the key of the log');
  const { witness, key } = await openWitness(t.testdir(), { keys: [log] });
  for (const { what, request, status, contentType, answer } of recorded.steps) {
    const reply = await witness.addCheckpoint(request);
    t.equal(reply.status, status, what);
    if (status === 200) t.ok(cosignedAt(key, request, reply), what);
    if (status === 409) t.strictSame([reply.type, reply.body], [contentType, answer], what);
  }
});

t.test('the witness answers as omniwitness does', async (t) => {
  // The specification wants 422 for two trees of one size, and a hash has 32 bytes.
  const otherwise: Record<string, number> = {
    'another tree of the same size': 422,
    'a first tree with a hash of one byte': 400,
    'a proof of hashes of two bytes': 400,
  };
  const log = parseVkey(omniwitness.log);
  if (log === undefined) throw new Error('the key of the log');
  for (const { what, known, request, status } of omniwitness.cases) {
    const { witness, key } = await openWitness(t.testdir(), { keys: [log] });
    t.equal((await witness.addCheckpoint(`old 0\n\n${known}`)).status, 200, what);
    const reply = await witness.addCheckpoint(request);
    t.equal(reply.status, otherwise[what] ?? status, what);
    if (status === 200) t.ok(cosignedAt(key, request, reply), what);
  }
});

t.test('a growing log is cosigned, even across restarts', async (t) => {
  const folder = t.testdir();
  const key = makeCosigningKey();
  for (const [oldSize, newSize] of [
    [0, 1],
    [1, 8],
    [8, 8],
    [8, 21],
  ] as const) {
    const { witness, held } = await openWitness(folder, { key });
    const request = await genuine(oldSize, newSize);
    const reply = await witness.addCheckpoint(request);
    t.equal(cosignedAt(key, request, reply), Math.floor(START / 1000));
    t.equal(held.get(origin)?.checkpoint.treeSize, newSize);
  }
  t.equal(readdirSync(folder).length, 1, 'one file for the log, and no draft');
  const { witness } = await openWitness(folder, { key });
  t.strictSame(await witness.addCheckpoint(await genuine(8, 30)), {
    status: 409,
    type: 'text/x.tlog.size',
    body: '21\n',
  });
});

/** A logger for warnings and alarms, and what it was given. */
function watchedLogger() {
  const seen: Record<string, unknown>[] = [];
  const logger = pino({ level: 'warn' }, { write: (line) => void seen.push(JSON.parse(line)) });
  return { seen, logger };
}

const BOGUS_LINE = `${'A'.repeat(43)}=\n`;

t.test('a second history is refused, even after a restart, and is logged', async (t) => {
  const folder = t.testdir();
  const key = makeCosigningKey();
  const { witness, held } = await openWitness(folder, { key });
  t.equal((await witness.addCheckpoint(await genuine(0, 10))).status, 200);
  const before = held.get(origin);
  const proven = await genuine(10, 20);
  const unproven = `old 10\n${proven.slice(proven.indexOf('\n\n') + 1)}`;
  const contradiction = await forked(10, 10);
  for (const [request, status, event, level] of [
    [contradiction, 422, 'contradiction', 50],
    [contradiction.replace('\n\n', `\n${BOGUS_LINE}\n`), 422, 'contradiction', 50],
    [contradiction.replace('old 10\n', 'old 0\n'), 409, 'contradiction', 50],
    [await forked(10, 20), 422, 'not_consistent', 40],
    [unproven, 422, 'not_consistent', 40],
  ] as const) {
    const { seen, logger } = watchedLogger();
    const again = await openWitness(folder, { key, logger });
    t.equal((await again.witness.addCheckpoint(request)).status, status);
    t.match(seen, [{ event, level, origin, held: { text: before?.note.text } }]);
    t.strictSame(again.held.get(origin), before);
  }
  t.equal((await witness.addCheckpoint(await genuine(10, 20))).status, 200, 'the history it knows goes on');
});

t.test('a stranger raises no alarm with the checkpoint that the witness holds', async (t) => {
  const { seen, logger } = watchedLogger();
  const { witness } = await openWitness(t.testdir(), { logger });
  await witness.addCheckpoint(await genuine(0, 10));
  const repeat = await genuine(10, 10);
  for (const [request, status] of [
    [repeat.replace('\n\n', `\n${BOGUS_LINE}\n`), 422],
    [repeat.replace('old 10\n', 'old 3\n'), 409],
    [await historyOf((n) => `other ${n}`, [makeKey('ed25519', 'eu-1')])(10, 10), 403],
  ] as const)
    t.equal((await witness.addCheckpoint(request)).status, status);
  t.strictSame(seen, []);
});

t.test('an alarm shows only lines that the log signed, and is logged once a minute', async (t) => {
  const { seen, logger } = watchedLogger();
  let elapsed = 0;
  const { witness } = await openWitness(t.testdir(), { logger, monotonicMs: () => elapsed });
  await witness.addCheckpoint(await genuine(0, 10));
  const noise = [{ name: 'x.example.com', keyId: Buffer.alloc(4), signature: Buffer.alloc(64) }];
  const contradiction = `${await forked(10, 10)}${encodeSignatureLines(noise)}`;
  for (let n = 0; n < 100; n++) {
    await witness.addCheckpoint(await forked(10, 20));
    await witness.addCheckpoint(contradiction);
  }
  t.strictSame(
    seen.map(({ event }) => event),
    ['not_consistent', 'contradiction'],
    'one flood does not hide the other',
  );
  const { presented } = seen[1] as { presented: { signatures: { name: string }[] } };
  t.strictSame(
    presented.signatures.map(({ name }) => name),
    [origin],
  );
  elapsed += 60_000;
  await witness.addCheckpoint(contradiction);
  t.match(seen[2], { event: 'contradiction', unlogged_before: 99 });
});

t.test('of two simultaneous histories, one is cosigned', async (t) => {
  const { witness, key } = await openWitness(t.testdir());
  t.equal((await witness.addCheckpoint(await genuine(0, 5))).status, 200);
  const requests = [await genuine(5, 20), await forked(5, 20), await forked(5, 12), await genuine(5, 9)];
  const replies = await Promise.all(requests.map((request) => witness.addCheckpoint(request)));
  t.strictSame(
    replies.map(({ status }) => status),
    [200, 409, 409, 409],
  );
  t.ok(cosignedAt(key, requests[0] ?? '', replies[0] ?? { status: 400, body: '' }));
});

t.test('simultaneous requests for one checkpoint share a signature', async (t) => {
  const key = watchedKey();
  const { witness } = await openWitness(t.testdir(), { key });
  const request = await genuine(0, 5);
  const replies = await Promise.all(Array.from({ length: 300 }, () => witness.addCheckpoint(request)));
  t.strictSame([...new Set(replies.map(({ status, body }) => `${status} ${body}`))].length, 1);
  t.ok(replies.every((reply) => cosignedAt(key, request, reply)));
  t.equal(key.signatures, 1);
});

t.test('a repeat is answered from memory for a minute, even after a restart', async (t) => {
  const [folder, key] = [t.testdir(), watchedKey()];
  let now = START;
  const options = { key, clock: () => now };
  const first = await openWitness(folder, options);
  const { body } = await first.witness.addCheckpoint(await genuine(0, 5));
  first.held.put = () => Promise.reject(new Error('it is not written'));
  now += 59_000;
  for (const { witness } of [first, await openWitness(folder, options)])
    t.strictSame(await witness.addCheckpoint(await genuine(5, 5)), { status: 200, body });
  t.equal(key.signatures, 1);
});

t.test('an old cosignature is renewed at most once a minute', async (t) => {
  const key = watchedKey();
  let [now, elapsed] = [START, 0];
  const { witness } = await openWitness(t.testdir(), { key, clock: () => now, monotonicMs: () => elapsed });
  const repeat = await genuine(5, 5);
  const renew = async (ms: number) => {
    now += ms;
    elapsed += ms;
    return cosignedAt(key, repeat, await witness.addCheckpoint(repeat));
  };
  await witness.addCheckpoint(await genuine(0, 5));
  t.equal(await renew(60_000), Math.floor((START + 60_000) / 1000));
  t.equal(await renew(59_000), Math.floor((START + 60_000) / 1000));
  t.equal(key.signatures, 2);
  now += 3_600_000;
  t.equal((await witness.addCheckpoint(repeat)).status, 429, 'whatever the clock says');
  t.ok(await renew(1_000));
  const { sign } = key;
  key.sign = () => Promise.reject(new Error('the HSM is away'));
  now += 60_000;
  elapsed += 60_000;
  await t.rejects(witness.addCheckpoint(repeat));
  key.sign = sign;
  t.equal((await witness.addCheckpoint(repeat)).status, 429, 'nor after a failure');
  t.equal((await witness.addCheckpoint(await genuine(5, 6))).status, 200, 'growth is cosigned at once');
});

t.test('another text for the tree that was just cosigned is refused for a minute', async (t) => {
  let now = START;
  const { witness, held } = await openWitness(t.testdir(), { clock: () => now });
  const text = (extension: string) =>
    `${encodeCheckpoint({ origin, treeSize: 1, root: leafHash(Buffer.from('leaf 0')) })}${extension}`;
  const ask = (oldSize: number, extension: string) =>
    witness.addCheckpoint(
      encodeAddCheckpoint({ oldSize, proof: [], checkpoint: signNote(origin, text(extension), [logKey]) }),
    );
  t.equal((await ask(0, '')).status, 200);
  t.equal((await ask(1, 'one\n')).status, 200);
  t.equal((await ask(1, 'another\n')).status, 429);
  t.equal((await ask(1, 'one\n')).status, 200);
  now += 60_000;
  t.equal((await ask(1, 'another\n')).status, 200);
  t.equal(held.get(origin)?.note.text, text('another\n'));
});

t.test('repeats of a public checkpoint take no place from growth', async (t) => {
  const key = watchedKey();
  let now = Math.floor(START / 1000) * 1000;
  const { witness } = await openWitness(t.testdir(), { key, clock: () => now });
  await witness.addCheckpoint(await genuine(0, 5));
  now += 60_000;
  key.shut();
  const [repeat, growth] = [await genuine(5, 5), await genuine(5, 9)];
  const before = Array.from({ length: 300 }, () => witness.addCheckpoint(repeat));
  const grown = witness.addCheckpoint(growth);
  const after = Array.from({ length: 300 }, () => witness.addCheckpoint(repeat));
  key.open();
  const replies = await Promise.all([...before, ...after]);
  t.strictSame([...new Set(replies.map((reply) => cosignedAt(key, repeat, reply)))], [now / 1000]);
  t.ok(cosignedAt(key, growth, await grown));
  t.equal(key.signatures, 3);
});

t.test('what waits for a signature begins when that fails', async (t) => {
  const key = watchedKey();
  const { sign } = key;
  const { witness } = await openWitness(t.testdir(), { key });
  key.sign = async () => {
    key.sign = sign;
    throw new Error('the HSM is away');
  };
  const [failed, next] = [
    witness.addCheckpoint(await genuine(0, 5)),
    witness.addCheckpoint(await genuine(0, 9)),
  ];
  await t.rejects(failed);
  t.equal((await next).status, 200);
});

const refused: Record<string, [status: number, () => Promise<string>]> = {
  nothing: [400, async () => ''],
  'no request': [400, async () => 'old 0\n\nno note\n'],
  'an old size beyond the new one': [400, () => genuine(9, 8)],
  'a log that it does not know': [
    404,
    async () => (await genuine(0, 5)).replaceAll(origin, 'else.example.com'),
  ],
  'the signature of a stranger': [
    403,
    () => historyOf((n) => `leaf ${n}`, [makeKey('ed25519', 'eu-1')])(0, 5),
  ],
  'a signature over another checkpoint': [403, async () => (await genuine(0, 5)).replace('\n5\n', '\n6\n')],
  'a proof from nothing': [
    422,
    async () => (await genuine(0, 5)).replace('old 0\n', `old 0\n${'A'.repeat(43)}=\n`),
  ],
  'a text without end': [
    400,
    async () => {
      const text = `${encodeCheckpoint({ origin, treeSize: 1, root: leafHash(Buffer.from('leaf 0')) })}${'x'.repeat(20_000)}\n`;
      return encodeAddCheckpoint({ oldSize: 0, proof: [], checkpoint: signNote(origin, text, [logKey]) });
    },
  ],
};
for (const [name, [status, request]] of Object.entries(refused)) {
  t.test(`refused: ${name}`, async (t) => {
    const folder = t.testdir();
    const { witness } = await openWitness(folder);
    t.equal((await witness.addCheckpoint(await request())).status, status);
    t.strictSame(readdirSync(folder), []);
  });
}

t.test('the time of a cosignature never goes back', async (t) => {
  const [folder, key] = [t.testdir(), makeCosigningKey()];
  const at = async (clock: () => number, oldSize: number, newSize: number) => {
    const request = await genuine(oldSize, newSize);
    const { witness } = await openWitness(folder, { key, clock });
    return cosignedAt(key, request, await witness.addCheckpoint(request));
  };
  const first = await at(() => START, 0, 5);
  t.equal(await at(() => START - 86_400_000, 5, 6), first);
  t.equal(await at(() => START + 60_000, 6, 6), Math.floor(START / 1000) + 60);
});

t.test('a log line has the time of the cosignature in addition to its own', async (t) => {
  const lines: string[] = [];
  const logger = pino({}, { write: (line) => void lines.push(line) });
  const { witness } = await openWitness(t.testdir(), { logger });
  await witness.addCheckpoint(await genuine(0, 5));
  t.equal(lines.join('').match(/"time":/g)?.length, 1);
  t.match(JSON.parse(lines[0] ?? ''), { origin, tree_size: 5, cosigned_at: '2026-03-04T05:06:07.000Z' });
});

t.test('without a signature or a written state, no cosignature is given', async (t) => {
  const fails = async (t: Test, options: { key?: CosigningKey; folder?: string }) => {
    const folder = options.folder ?? t.testdir();
    const { witness, held } = await openWitness(folder, options);
    const put = held.put.bind(held);
    if (options.key === undefined) held.put = () => Promise.reject(new Error('disk full'));
    await t.rejects(witness.addCheckpoint(await genuine(0, 5)));
    t.equal(held.get(origin), undefined);
    held.put = put;
    return witness;
  };
  await fails(t, { key: { ...makeCosigningKey(), sign: () => Promise.reject(new Error('no key')) } });
  const witness = await fails(t, {});
  t.equal((await witness.addCheckpoint(await genuine(0, 6))).status, 200, 'the next request is served');
});

t.test('a damaged state is refused, and not taken for a missing one', async (t) => {
  const [folder, key] = [t.testdir(), makeCosigningKey()];
  const { witness } = await openWitness(folder, { key });
  await witness.addCheckpoint(await genuine(0, 20));
  const [name = ''] = readdirSync(folder);
  const text = readFileSync(join(folder, name), 'utf8');
  for (const damaged of [
    '',
    'noise',
    signNote('x', 'x\n1\n\n', [logKey]),
    text.replace('\n20\n', '\n2\n'),
    text.replace(/^— .*$/gm, '— x AAAAAAAA'),
  ]) {
    writeFileSync(join(folder, name), damaged);
    await t.rejects(openWitness(folder, { key }), {
      constructor: OperatorError,
      message: /is damaged: it is not a signed checkpoint of seal\.example\.com/,
    });
  }
  writeFileSync(join(folder, name), text);
  const other = { name: origin, ...makeKey('ed25519', 'eu-1') };
  for (const options of [{ key }, { key, keys: [other] }, { key: makeCosigningKey() }])
    t.ok((await openWitness(folder, options)).held.get(origin), 'a new key of the log, or of the witness');
});

t.test('lines of strangers are ignored, and not kept', async (t) => {
  const { witness, held, key } = await openWitness(t.testdir());
  const line = encodeSignatureLines([
    { name: 'x.example.com', keyId: Buffer.alloc(4), signature: Buffer.alloc(64) },
  ]);
  const request = `${await genuine(0, 5)}${line.repeat(NOTE_SIGNATURES_MAX - 1)}`;
  t.ok(cosignedAt(key, request, await witness.addCheckpoint(request)));
  t.strictSame(
    held.get(origin)?.note.signatures.map(({ name }) => name),
    [origin, key.cosigner.name],
  );
});

t.test('a key with a wrong signature cosigns nothing', async (t) => {
  const [key, other] = [makeCosigningKey(), makeCosigningKey()];
  const { witness, held } = await openWitness(t.testdir(), { key: { ...key, sign: other.sign } });
  await t.rejects(witness.addCheckpoint(await genuine(0, 5)), BrokenInvariant);
  t.equal(held.get(origin), undefined);
});
