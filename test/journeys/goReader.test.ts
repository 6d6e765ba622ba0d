/** Go's `golang.org/x/mod` reads a log as the daemon serves it, and refuses one that was changed. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { openCheckpoint, signersOf } from '../../src/log/signedCheckpoint.ts';
import { tilePath, tileWidth } from '../../src/log/tiles.ts';
import { encodeVkey, parseVkey } from '../../src/log/verifierKey.ts';
import { Client, digestLines, sealBatch } from '../support/client.ts';
import { goProgram } from '../support/goProgram.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { makeKey, signNote } from '../support/sealing.ts';
import { change, fc, mutations } from '../support/seed.ts';
import { until } from '../support/until.ts';

/** The second is so many that a tile is full, one is partial, and there is one above them. */
const [FEW, MANY] = [40, 300];

interface Trust {
  logs: { origin: string; epochs: { keys: { vkey: string }[] }[] }[];
}

const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2, tables: { log: 'public = true' } });
t.teardown(() => sandbox.close());
await sandbox.start();
const apiKey = await sandbox.issueKey();
const anyone = await Client.connect(sandbox.url);
const lines = digestLines(MANY);

/** The checkpoint after so many lines are sealed, or records of the audit trail in their place. */
async function sealUpTo(count: number): Promise<{ text: string; size: number }> {
  await sealBatch(sandbox.url, apiKey, lines.slice(0, count));
  let [text, size] = ['', 0];
  await until(`${count} leaves`, async () => {
    text = (await anyone.get('/v1/log/checkpoint')).text;
    size = openCheckpoint(text)?.checkpoint.treeSize ?? 0;
    return size >= count;
  });
  return { text, size };
}

const older = await sealUpTo(FEW);
const newest = await sealUpTo(MANY);
const mirror = t.testdir({ 'checkpoint.old': older.text, checkpoint: newest.text });
for (const level of ['entries', 0, 1] as const) {
  for (let index = 0; ; index += 1) {
    const width = tileWidth(level === 'entries' ? 0 : level, index, newest.size);
    if (width === 0) break;
    const path = tilePath({ level, index, width });
    mkdirSync(dirname(join(mirror, path)), { recursive: true });
    writeFileSync(join(mirror, path), (await anyone.get(`/v1/log/${path}`)).bytes);
  }
}

function trusted({ trustFile }: Sandbox): { origin: string; vkeys: string[] } {
  const { logs } = JSON.parse(readFileSync(trustFile, 'utf8')) as Trust;
  const { origin = '', epochs = [] } = logs[0] ?? {};
  return { origin, vkeys: epochs.flatMap(({ keys }) => keys.map(({ vkey }) => vkey)) };
}

const { origin, vkeys } = trusted(sandbox);

const program = await goProgram('readLog');
const read = (folder: string, keys: string[]) => {
  const { status, stdout } = spawnSync(program, [folder, ...keys], { encoding: 'utf8' });
  return { status, stdout };
};

t.test('the Go reader reads the log', async (t) => {
  const stdout = `${newest.size} entries, signed by 2 keys, continues a tree of ${older.size}\n`;
  t.strictSame(read(mirror, vkeys), { status: 0, stdout });
});

const flip = (bytes: Buffer, at: number) => {
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes;
};
const changes: Record<string, [path: string, change: (bytes: Buffer) => Buffer, reason: RegExp]> = {
  // Some versions of its tile reader leave this to the check of the proof.
  'a changed tile': ['tile/0/000', (tile) => flip(tile, 0), /inconsistent tile|invalid transparency proof/],
  'a changed partial tile': [
    `tile/0/001.p/${newest.size - 256}`,
    (tile) => flip(tile, 40),
    /inconsistent tile/,
  ],
  'a changed tile above': ['tile/1/000.p/1', (tile) => flip(tile, 31), /inconsistent tile/],
  'a changed entry': ['tile/entries/000', (bundle) => flip(bundle, 2), /invalid transparency proof/],
  'a changed size': [
    'checkpoint',
    (text) => Buffer.from(text.toString().replace(/\n\d+\n/, '\n299\n')),
    /invalid signature/,
  ],
  'a signature that is missing': [
    'checkpoint',
    (text) => Buffer.from(text.toString().replace(/— .*\n$/, '')),
    /signed by 1 of 2 keys/,
  ],
};
for (const [what, [path, change, reason]] of Object.entries(changes)) {
  t.test(`it refuses ${what}`, async (t) => {
    const folder = t.testdir();
    cpSync(mirror, folder, { recursive: true });
    const file = join(folder, path);
    writeFileSync(file, change(readFileSync(file)));
    t.match(read(folder, vkeys), { status: 1, stdout: reason });
  });
}

t.test('it refuses another history that the log signed', async (t) => {
  const folder = t.testdir();
  cpSync(mirror, folder, { recursive: true });
  const key = makeKey('ed25519', 'eu');
  const sign = (file: string, { text }: { text: string }, change = (text: string) => text) => {
    const signed = signNote(origin, change(text.slice(0, text.indexOf('\n\n') + 1)), [key]);
    writeFileSync(join(folder, file), signed);
  };
  const judge = () => read(folder, [encodeVkey(origin, key)]);
  sign('checkpoint', newest);
  sign('checkpoint.old', older);
  t.match(judge(), { status: 0, stdout: / signed by 1 keys, / }, 'a key of the test reads alike');
  sign('checkpoint.old', older, (text) => text.replace(/\n\d+\n/, `\n${older.size - 1}\n`));
  t.match(judge(), { status: 1, stdout: /invalid transparency proof/ });
});

t.test('it accepts every changed checkpoint that we accept, with as many signatures', async (t) => {
  const known = vkeys.map(parseVkey).filter((key) => key !== undefined);
  t.equal(known.length, 2);
  const signers = (text: string) => {
    const opened = openCheckpoint(text);
    return opened ? signersOf(opened.note, origin, known).keys.length : 0;
  };
  const changed = [newest.text, ...fc.sample(change(newest.text), mutations())];
  const input = changed.map((text) => `${Buffer.from(text).toString('base64')}\n`).join('');
  const { stdout } = spawnSync(program, ['-', ...vkeys], { input, encoding: 'utf8', maxBuffer: 2 ** 30 });
  const judged = stdout.split('\n').slice(0, -1);
  t.equal(judged.length, changed.length);
  const wrong = changed.filter((text, n) => signers(text) > 0 && judged[n] !== `${signers(text)}`);
  t.strictSame(wrong, []);
});

t.test('it knows no ecdsa-p256 keys, as the manual says', async (t) => {
  const ecdsa = await openSandbox({ algorithm: 'ecdsa-p256' });
  t.teardown(() => ecdsa.close());
  t.strictSame(read(mirror, trusted(ecdsa).vkeys), { status: 1, stdout: 'refused: invalid verifier hash\n' });
});
