import { generateKeyPairSync, sign } from 'node:crypto';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import t, { type Test } from 'tap';
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

/** A witness of logs in a folder; opened again on the same folder, it is the same witness after a restart. */
async function openWitness(
  folder: string,
  options: { key?: CosigningKey; keys?: VerifierKey[]; clock?: () => number; logger?: Logger } = {},
) {
  const { key = makeCosigningKey(), clock = () => START, logger = pino({ level: 'silent' }) } = options;
  const keys = options.keys ?? [{ name: origin, ...logKey }];
  const name = keys[0]?.name ?? origin;
  const held = await HeldCheckpoints.open(folder, [name]);
  return { held, key, witness: new Witness({ key, logs: new Map([[name, keys]]), held, clock, logger }) };
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

t.test('it answers as litewitness answered', async (t) => {
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

t.test('a log grows, across restarts', async (t) => {
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

t.test('a second history is refused, also after a restart, and is seen', async (t) => {
  const folder = t.testdir();
  const key = makeCosigningKey();
  const { witness, held } = await openWitness(folder, { key });
  t.equal((await witness.addCheckpoint(await genuine(0, 10))).status, 200);
  const before = held.get(origin);
  for (const request of [await forked(10, 10), await forked(10, 20)]) {
    const seen: object[] = [];
    const logger = pino({ level: 'error' }, { write: (line) => void seen.push(JSON.parse(line)) });
    const again = await openWitness(folder, { key, logger });
    t.equal((await again.witness.addCheckpoint(request)).status, 422);
    t.match(seen, [{ event: 'contradiction', origin, held: { text: before?.note.text } }]);
    t.strictSame(again.held.get(origin), before);
  }
  t.equal((await witness.addCheckpoint(await genuine(10, 20))).status, 200, 'the history it knows goes on');
});

t.test('of two histories that come at once, one is cosigned', async (t) => {
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

t.test('more requests than a log has are sent away', async (t) => {
  const { witness } = await openWitness(t.testdir());
  const request = await genuine(0, 5);
  const replies = await Promise.all(Array.from({ length: 20 }, () => witness.addCheckpoint(request)));
  t.equal(replies.filter(({ status }) => status === 429).length, 12);
  t.equal((await witness.addCheckpoint(await genuine(5, 5))).status, 200);
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
  'no room for its signature': [
    400,
    async () => (await genuine(0, 5)) + '— x.example.com AAAAAAAA\n'.repeat(NOTE_SIGNATURES_MAX - 1),
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

t.test('its time never goes back', async (t) => {
  const [folder, key] = [t.testdir(), makeCosigningKey()];
  const at = async (clock: () => number, oldSize: number, newSize: number) => {
    const request = await genuine(oldSize, newSize);
    const { witness } = await openWitness(folder, { key, clock });
    return cosignedAt(key, request, await witness.addCheckpoint(request));
  };
  const first = await at(() => START, 0, 5);
  t.equal(await at(() => START - 86_400_000, 5, 6), first);
  t.equal(await at(() => START + 10_000, 6, 6), Math.floor(START / 1000) + 10);
});

t.test('what cannot be signed or written is not cosigned', async (t) => {
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

t.test('a damaged memory is not taken for none', async (t) => {
  const folder = t.testdir();
  const { witness } = await openWitness(folder);
  await witness.addCheckpoint(await genuine(0, 5));
  const [name = ''] = readdirSync(folder);
  for (const text of ['', 'noise', signNote('x', 'x\n1\n\n', [logKey])]) {
    writeFileSync(join(folder, name), text);
    await t.rejects(openWitness(folder), {
      constructor: OperatorError,
      message: /is damaged: it is not a checkpoint of seal\.example\.com/,
    });
  }
});

t.test('other signature lines do not disturb', async (t) => {
  const { witness, key } = await openWitness(t.testdir());
  const line = encodeSignatureLines([
    { name: 'x.example.com', keyId: Buffer.alloc(4), signature: Buffer.alloc(64) },
  ]);
  const request = `${await genuine(0, 5)}${line}`;
  t.ok(cosignedAt(key, request, await witness.addCheckpoint(request)));
});
