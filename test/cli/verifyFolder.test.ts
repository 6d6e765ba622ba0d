/** `pdfseal verify FOLDER`: which receipt belongs to which document, and the sum of the verdicts. */
import { join } from 'node:path';
import t from 'tap';
import { pdfseal } from '../support/commands.ts';
import { type Fixture, makeFixtures } from '../support/receipts.ts';

const fixtures = await makeFixtures();
const fixtureOf = (name: string) => {
  const found = fixtures.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no ${name}`);
  return found;
};
const [good, copy]: Fixture[] = ['good', 'copy'].map(fixtureOf);
if (good === undefined || copy === undefined) throw new Error('no fixture');
const { document, receipt, trust } = good;

const dir = t.testdir({
  'trust.json': trust,
  archive: {
    'by name.pdf': document,
    'by name.pdf.receipt.json': receipt,
    'notes.txt': 'no document',
    deep: { er: { 'by digest.pdf': document, 'copy.pdf': copy.document }, 'other.bundle.json': copy.receipt },
  },
  damaged: {
    'changed.pdf': `${document} `,
    'changed.pdf.receipt.json': receipt,
    'good.pdf': document,
    'good.pdf.receipt.json': receipt,
    'alone.pdf': '%PDF-1.7 without a receipt',
    'lost.pdf.receipt.json': copy.receipt,
    'cut.pdf': document,
    'cut.pdf.receipt.json': receipt.slice(0, 200),
  },
  doubtful: { 'alone.pdf': '%PDF-1.7 without a receipt' },
  empty: { 'notes.txt': 'no document' },
});
const verify = (...args: string[]) =>
  pdfseal([
    'verify',
    ...args.map((arg) => (arg.startsWith('-') || arg.includes(',') ? arg : join(dir, arg))),
  ]);
const lines = (text: string) => text.replaceAll(`${dir}/`, '').trimEnd().split('\n');

t.test('pairs documents with their receipts, by name or by digest, below the folder', async (t) => {
  const { status, stdout, stderr } = await verify('archive', '--trust', 'trust.json');
  t.equal(status, 0, stderr);
  t.match(lines(stdout), [
    /^good +archive\/by name\.pdf +Sealed on 21 November 2026 at 23:38:51 UTC by \S+, unchanged since\.$/,
    /^good +archive\/deep\/er\/by digest\.pdf +Sealed on/,
    /^good +archive\/deep\/er\/copy\.pdf +The copy without metadata/,
    /^The trust file has SHA-256 [0-9a-f]{64}: compare/,
    '3 good, 0 bad, 0 could not tell',
  ]);
});

t.test('says which are bad, and which document or receipt has no other half', async (t) => {
  const { status, stdout } = await verify('damaged', '--trust', 'trust.json');
  t.equal(status, 1);
  t.match(lines(stdout), [
    /^could not tell +damaged\/alone\.pdf +These files do not allow a verdict: seal: /,
    /^bad +damaged\/changed\.pdf +Do not rely on this receipt: document: /,
    /^bad +damaged\/cut\.pdf +Do not rely on this receipt: receipt: /,
    /^good +damaged\/good\.pdf +Sealed/,
    /^could not tell +damaged\/lost\.pdf\.receipt\.json +These files do not allow a verdict: document: /,
    /^The trust file/,
    '1 good, 2 bad, 2 could not tell',
  ]);
  t.match(await verify('doubtful', '--trust', 'trust.json'), { status: 2, stdout: /1 could not tell\n$/ });
});

t.test('prints a line of JSON for each pair', async (t) => {
  const { status, stdout } = await verify('damaged', '--trust', 'trust.json', '--json');
  t.equal(status, 1);
  const found = lines(stdout).map((line) => JSON.parse(line));
  t.match(found, [
    { document: 'damaged/alone.pdf', verdict: { schema: 'pdfseal-verdict/1', outcome: 'unknown' } },
    {
      document: 'damaged/changed.pdf',
      receipt: 'damaged/changed.pdf.receipt.json',
      verdict: { outcome: 'bad' },
    },
    { document: 'damaged/cut.pdf', verdict: { outcome: 'bad' } },
    { document: 'damaged/good.pdf', verdict: { outcome: 'good', subject: { job_id: /^job_/ } } },
    { receipt: 'damaged/lost.pdf.receipt.json', verdict: { outcome: 'unknown' } },
  ]);
  t.notOk('document' in found[4]);
  t.notOk('receipt' in found[0]);
});

t.test('asks the same of each as of one, and refuses what is for one', async (t) => {
  t.match(await verify('archive', '--trust', 'trust.json', '--require', 'time,witness'), { status: 2 });
  t.match(await verify('empty', '--trust', 'trust.json'), {
    status: 2,
    stderr: /empty has no PDF and no receipt/,
  });
  for (const args of [
    ['archive', 'archive/by name.pdf.receipt.json'],
    ['archive', '--original', 'x.pdf'],
    ['archive', '--evidence-record', 'x.ers'],
  ])
    t.match(await verify(...args, '--trust', 'trust.json'), { status: 2, stderr: /is a folder: / });
});
