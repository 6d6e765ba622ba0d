/** The commands of docs/verify.md, pasted into a shell, against receipts of the real daemon. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { TORCHWOOD } from '../support/litewitness.ts';
import { blocksUnder, pageAt, ROOT } from '../support/manual.ts';
import { programFile } from '../support/programs.ts';
import { makeSealedPdfs, SEALED_TRUST } from '../support/sealedPdfs.ts';
import { passes, paste, sealed } from './pastedCommands.ts';

const dir = await sealed(t, 'ed25519');

t.test('ed25519', async (t) => passes(t, paste('bash', dir)));

t.test('other tools verify the proof', async (t) => {
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
  const [make = '', read = ''] = blocksUnder(pageAt('docs/verify.md'), 'Evidence records', 'sh');
  const cli = await programFile('cli', 'src');
  const said = (commands: string) => {
    const input = `exec 2>&1\npdfseal() { '${process.execPath}' '${cli}' "$@"; }\n${commands}`;
    return spawnSync('bash', { cwd: dir, input, env: { PATH: process.env.PATH }, encoding: 'utf8' }).stdout;
  };
  t.match(
    said(make),
    /^passed {5}evidence-record {2}1 time-stamp, .*\n {2}1\. passed, initial: .*\n.*\ngood\n$/m,
  );
  const printed = said(read);
  const imprint = [...printed.matchAll(/^ +[0-9a-f]{4} - ((?:[0-9a-f]{2}[ -])+)/gm)]
    .map(([, hex = '']) => hex)
    .join('');
  t.match(printed, /Hash Algorithm: sha512/);
  t.equal(imprint.replace(/[ -]/g, ''), /^SHA2-512\(checkpoint\)= (.*)$/m.exec(printed)?.[1]);
});

t.test('the program verifies a PDF that holds its receipt', async (t) => {
  const program = blocksUnder(pageAt('docs/verify.md'), 'From a program', 'js').at(-1) ?? '';
  for (const { name, pdf, outcome, original } of await makeSealedPdfs()) {
    const dir = t.testdir({
      'verify.mjs': program,
      'invoice.sealed.pdf': pdf,
      'trust.json': SEALED_TRUST,
      node_modules: { pdfseald: t.fixture('symlink', ROOT) },
    });
    const run = spawnSync(process.execPath, ['verify.mjs'], { cwd: dir, encoding: 'utf8' });
    t.match(run, { status: 0, stderr: '' }, name);
    const lines = run.stdout.trimEnd().split('\n');
    t.match(lines[0], / seal /, name);
    t.match(lines.at(-1), outcome === 'good' ? `good ${original?.length}` : `${outcome} `, name);
  }
});

t.test('missing files are never good', async (t) => {
  const said = paste('bash', t.testdir());
  t.match(said, /^receipt: BAD$/m);
  t.notMatch(said, /good|OK/);
});
