/** The commands of docs/verify.md as they stand there, pasted into a shell, against receipts of the real daemon. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Client } from '../support/client.ts';
import { FakeTime } from '../support/clocks.ts';
import { TORCHWOOD } from '../support/litewitness.ts';
import { blocksUnder, pageAt } from '../support/manual.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox } from '../support/sandbox.ts';

const COMMANDS = blocksUnder(pageAt('docs/verify.md'), 'With stock tools', 'sh').join('');
const DOCUMENT = '%PDF-1.4\n%%EOF\n';
/** By then every certificate of a time-stamp authority has expired, its root excepted. */
const LATER_HOURS = 10 * 365 * 24;

type Json = Record<string, unknown> & {
  manifest: Record<string, unknown>;
  evidence: Record<string, unknown>;
};

/** A folder with a document, its receipt and the trust file, named as the page names them. */
async function sealed(t: Test, algorithm: 'ed25519' | 'ecdsa-p256'): Promise<string> {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2, algorithm, stamped: true });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  const receipts: unknown[] = [];
  for (let n = 0; n < 5; n += 1) {
    const fields = { mode: 'blocking', purpose: 'invoice', customer_reference: `"Größe" \\ 🙂 \u2028 ${n}` };
    const job = await client.seal(Buffer.from(DOCUMENT), fields, { 'Idempotency-Key': `invoice-${n}` });
    const receipt = await client.get(`/v1/jobs/${job.json().id}/receipt.json`);
    receipts.push(receipt.json());
  }
  return t.testdir({
    'invoice.pdf': DOCUMENT,
    'invoice.pdf.receipt.json': JSON.stringify(receipts[3], undefined, 2),
    'trust.json': readFileSync(sandbox.trustFile, 'utf8'),
  });
}

/** What a person sees who pastes all of it. */
function paste(shell: string, dir: string, env: Record<string, string> = {}): string {
  const { stdout, stderr } = spawnSync(shell, {
    cwd: dir,
    input: `exec 2>&1\n${COMMANDS}`,
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
  });
  return stdout + stderr;
}

const FAKE_TIME_TRIES = 5;

/** On a busy machine, libfaketime sometimes fails a process whose parent has just ended. That says nothing of the recipe. */
function pasteLater(dir: string, env: Record<string, string>): string {
  let said = '';
  for (let tries = 0; tries < FAKE_TIME_TRIES; tries++) {
    said = paste('bash', dir, env);
    if (!said.includes('libfaketime:')) break;
  }
  return said;
}

for (const algorithm of ['ed25519', 'ecdsa-p256'] as const) {
  t.test(algorithm, async (t) => {
    const dir = await sealed(t, algorithm);
    const time = new FakeTime(dir);
    time.jump(LATER_HOURS);
    for (const shell of ['bash', 'dash']) {
      const said = paste(shell, dir);
      t.notMatch(said, /BAD|FAILED|rror/, shell);
      t.equal(said.match(/: good$/gm)?.length, 9, said);
      t.match(said, /signed by a key of eu: good\nsigned by a key of us: good\n.* requires: 2\n/);
      t.match(said, /Verification: OK\nstamped at /);
    }
    t.match(pasteLater(dir, time.env), /Verification: OK\n/, 'after the certificates have expired');
  });
}

t.test('the commands of the page find a changed receipt', async (t) => {
  const dir = await sealed(t, 'ed25519');
  const file = join(dir, 'invoice.pdf.receipt.json');
  const original = readFileSync(file, 'utf8');
  const changed = (change: (receipt: Json) => void) => {
    const receipt = JSON.parse(original) as Json;
    change(receipt);
    writeFileSync(file, JSON.stringify(receipt));
    return paste('bash', dir);
  };
  const manifest = changed((receipt) => Object.assign(receipt.manifest, { purpose: 'other' }));
  t.match(manifest, /^receipt: BAD\nmanifest: good\nleaf: BAD$/m);
  const reference = changed((receipt) => Object.assign(receipt, { customer_reference: 'other' }));
  t.match(reference, /^receipt: BAD\nmanifest: BAD\nleaf: good$/m);
  const checkpoint = changed(({ evidence }) => {
    evidence.checkpoint = String(evidence.checkpoint).replace(/\n\d+\n/, '\n1000\n');
  });
  t.match(checkpoint, /^tree size: BAD$/m);
  t.match(checkpoint, /signed by a key of eu: BAD\nsigned by a key of us: BAD\n/);
  t.match(checkpoint, /Verification: FAILED/);
  const index = changed(({ evidence }) => Object.assign(evidence, { leaf_index: 0 }));
  t.match(index, /^leaf: BAD$/m);
  writeFileSync(file, original);
  writeFileSync(join(dir, 'invoice.pdf'), `${DOCUMENT}\n`);
  t.match(paste('bash', dir), /^document, SHA-256: BAD\ndocument, SHA-512: BAD\nreceipt: good$/m);
});

t.test('other tools verify the proof', async (t) => {
  const dir = await sealed(t, 'ed25519');
  const [make = '', judge = ''] = blocksUnder(pageAt('docs/verify.md'), 'Other clients', 'sh');
  t.match(make, /^pdfseal receipt export /);
  const cli = await programFile('cli', 'src');
  const paste = (commands: string) =>
    spawnSync('bash', ['-e'], {
      cwd: dir,
      input: `exec 2>&1\npdfseal() { '${process.execPath}' '${cli}' "$@"; }\n${commands}`,
      env: { PATH: `${TORCHWOOD}:${process.env.PATH}` },
      encoding: 'utf8',
    });
  t.strictSame(paste(make).stdout, '');
  t.match(paste(judge), { status: 0, stdout: /verified/ });
  const proof = readFileSync(join(dir, 'invoice.pdf.tlog-proof'), 'utf8');
  writeFileSync(join(dir, 'invoice.pdf.tlog-proof'), proof.replace(/^index \d+$/m, 'index 0'));
  t.match(paste(judge), { status: 1, stdout: /could not verify inclusion/ }, 'another index');
  writeFileSync(join(dir, 'invoice.pdf.tlog-proof'), proof);
  const altered = judge.replace(
    'openssl dgst -sha512 -binary',
    'openssl dgst -sha512 -binary | tr "\\0-\\377" "\\1-\\377\\0"',
  );
  t.match(paste(altered), { status: 1, stdout: /could not verify inclusion/ }, 'another leaf');
});

t.test('other tools read the evidence record', async (t) => {
  const dir = await sealed(t, 'ed25519');
  const [make = '', read = ''] = blocksUnder(pageAt('docs/verify.md'), 'Evidence records', 'sh');
  const cli = await programFile('cli', 'src');
  const said = (commands: string) => {
    const input = `exec 2>&1\npdfseal() { '${process.execPath}' '${cli}' "$@"; }\n${commands}`;
    return spawnSync('bash', { cwd: dir, input, env: { PATH: process.env.PATH }, encoding: 'utf8' }).stdout;
  };
  t.match(
    said(make),
    /^passed {3}evidence-record {2}1 time-stamp, .*\n {2}1\. passed, initial: .*\n.*\ngood\n$/m,
  );
  const printed = said(read);
  const imprint = [...printed.matchAll(/^ +[0-9a-f]{4} - ((?:[0-9a-f]{2}[ -])+)/gm)]
    .map(([, hex = '']) => hex)
    .join('');
  t.match(printed, /Hash Algorithm: sha512/);
  t.equal(imprint.replace(/[ -]/g, ''), /^SHA2-512\(checkpoint\)= (.*)$/m.exec(printed)?.[1]);
});

t.test('missing files are never good', async (t) => {
  const said = paste('bash', t.testdir());
  t.match(said, /^receipt: BAD$/m);
  t.notMatch(said, /good|OK/);
});
