import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { planAttachment } from '../../src/pdf/update/attach.ts';
import { suffixOf } from '../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { SEALABLE } from '../support/sealable.ts';
import { FEW, LINES } from './foreignJudges.ts';

const run = promisify(execFile);
const RECEIPT = Buffer.from('{"receipt":"ü"}\n');
const NAME = 'pdfseal-receipt.json';
t.teardown(() => {
  for (const lines of LINES) lines.end();
});

for (const [name, document] of Object.entries(SEALABLE)) {
  t.test(`qpdf, poppler, mutool, PDFBox and pdf.js take it: ${name}`, async (t) => {
    const folder = t.testdir({});
    const path = join(folder, 'sealed.pdf');
    const plan = await planAttachment(readerOf(bufferSource(document)));
    const suffix = suffixOf(plan, RECEIPT, 0);
    writeFileSync(path, Buffer.concat([document, suffix]));
    t.match((await run('qpdf', ['--check', path])).stdout, /No syntax or stream encoding errors found/);
    t.match((await run('qpdf', ['--list-attachments', path])).stdout, NAME);
    const listed = (await run('pdfdetach', ['-list', path])).stdout;
    t.match(listed, NAME);
    const number = /^(\d+): pdfseal-receipt\.json$/m.exec(listed)?.[1] ?? '';
    const saved = join(folder, 'saved');
    await run('pdfdetach', ['-save', number, '-o', saved, path]);
    t.same(readFileSync(saved), RECEIPT);
    const drawn = await run('mutool', ['draw', '-F', 'txt', path]);
    t.notMatch(drawn.stderr, /error|warning: (?!ICC)/);
    const before = join(folder, 'before.pdf');
    writeFileSync(before, document);
    const picture = async (file: string) =>
      (await run('pdftoppm', ['-r', '30', file], { encoding: 'buffer' })).stdout;
    t.ok((await picture(path)).equals(await picture(before)), 'the same picture');
    for (const judge of FEW) {
      const [seen, plain] = [await judge.look(path), await judge.look(before)];
      t.match(seen, { complaints: 0, shows: plain?.shows }, judge.name);
      t.ok(seen?.files?.includes(NAME), `${judge.name} finds the receipt`);
    }
  });
}
