/** The commands of docs/verify.md as they stand there, pasted into a shell, and a receipt of the real daemon for them. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import { Client } from '../support/client.ts';
import { blocksUnder, pageAt } from '../support/manual.ts';
import { openSandbox } from '../support/sandbox.ts';

const COMMANDS = blocksUnder(pageAt('docs/verify.md'), 'With stock tools', 'sh').join('');
export const DOCUMENT = '%PDF-1.4\n%%EOF\n';

/** A folder with a document, its receipt and the trust file, named as the page names them. */
export async function sealed(t: Test, algorithm: 'ed25519' | 'ecdsa-p256'): Promise<string> {
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
export function paste(shell: string, dir: string, env: Record<string, string> = {}): string {
  const { stdout, stderr } = spawnSync(shell, {
    cwd: dir,
    input: `exec 2>&1\n${COMMANDS}`,
    env: { PATH: process.env.PATH, ...env },
    encoding: 'utf8',
  });
  return stdout + stderr;
}

/** Holds that every check is good. */
export function passes(t: Test, said: string): void {
  t.notMatch(said, /BAD|FAILED|rror/);
  t.equal(said.match(/: good$/gm)?.length, 9, said);
  t.match(said, /signed by a key of eu: good\nsigned by a key of us: good\n.* requires: 2\n/);
  t.match(said, /Verification: OK\nstamped at /);
}
