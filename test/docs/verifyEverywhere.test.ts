/** The commands of docs/verify.md in another shell, with keys of another kind, years later, and over what was tampered with. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { FakeTime } from '../support/clocks.ts';
import { DOCUMENT, passes, paste, sealed } from './pastedCommands.ts';

/** By then every certificate of a time-stamp authority has expired, its root excepted. */
const LATER_HOURS = 10 * 365 * 24;

type Json = Record<string, unknown> & {
  manifest: Record<string, unknown>;
  evidence: Record<string, unknown>;
};

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

for (const [algorithm, shells] of [
  ['ed25519', ['dash']],
  ['ecdsa-p256', ['bash', 'dash']],
] as const) {
  t.test(algorithm, async (t) => {
    const dir = await sealed(t, algorithm);
    const time = new FakeTime(dir);
    time.jump(LATER_HOURS);
    for (const shell of shells) passes(t, paste(shell, dir));
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
