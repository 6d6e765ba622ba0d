/** Real documents with receipts, judged by other programs. test/pdf/README.md lists what else was tried, with `npm run long -- --only foreign`. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { onePage, pdfFile } from '../support/pdf.ts';
import { tryForeign } from './foreign.ts';
import { JUDGES, type View } from './foreignJudges.ts';

const FIXTURES = join(import.meta.dirname, '../../node_modules/pdf-merger-js/test/fixtures');

t.test('documents of other programs get a receipt, and nothing becomes worse', async (t) => {
  const sealedPath = join(t.testdir(), 'sealed.pdf');
  const names = readdirSync(FIXTURES).filter((name) => name.endsWith('.pdf'));
  const refused: Record<string, string> = {};
  for (const name of names) {
    const outcome = await tryForeign(join(FIXTURES, name), sealedPath, JUDGES);
    t.same(outcome.faults, [], name);
    if (outcome.refused !== undefined) refused[name] = outcome.refused;
    else t.equal(outcome.judged.length, JUDGES.length, name);
  }
  t.strictSame(refused, { 'issue-88.pdf': 'it is encrypted' });
});

t.test('what is worse than before is found', async (t) => {
  const path = join(t.testdir(), 'document.pdf');
  writeFileSync(path, pdfFile(onePage()));
  const before: View = { complaints: 0, said: '', shows: 'a page', files: ['a'], isEncrypted: false };
  const after = { ...before, files: ['a', 'pdfseal-receipt.json'] };
  const outcomeWith = async (change: Partial<View>, again = before) => {
    const views = [before, { ...after, ...change }, again];
    const look = async () => views.shift();
    return await tryForeign(path, `${path}.sealed`, [{ name: 'judge', look }]);
  };
  const faultsWith = async (change: Partial<View>) => (await outcomeWith(change)).faults;
  t.same(await faultsWith({}), []);
  t.match(await faultsWith({ complaints: 1, said: 'damaged' }), ['judge: 1 complaints after 0: damaged']);
  t.match(await faultsWith({ shows: 'another page' }), ['judge: it shows something else']);
  t.match(await outcomeWith({ shows: 'another page' }, { ...before, shows: 'a third one' }), {
    unsteady: ['judge'],
    faults: [],
  });
  t.match(await faultsWith({ files: ['a'] }), ['judge: it does not find pdfseal-receipt.json']);
  t.match(await faultsWith({ files: ['pdfseal-receipt.json'] }), ['judge: it does not find a']);
});
