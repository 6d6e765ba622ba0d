/**
 * Real documents, stripped and looked at with other people's tools. test/pdf/README.md lists what else was tried by hand, with
 * `node test/pdf/corpus.ts FILE...`.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { image, jpeg, makePdf, metadata, onePage, pdfFile, XMP_SEGMENT } from '../support/pdf.ts';
import { prove, run } from './corpus.ts';

const FIXTURES = join(import.meta.dirname, '../../node_modules/pdf-merger-js/test/fixtures');

t.test('documents of other programs, and every kind of file, are stripped without a trace', async (t) => {
  const dir = t.testdir();
  const at = (name: string) => join(dir, name);
  const exiftool = (from: string, to: string, title: string) =>
    run('exiftool', ['-q', `-XMP-dc:Title=${title}`, '-o', to, from]);
  writeFileSync(at('pdf-lib.pdf'), await makePdf('A document'));
  writeFileSync(
    at('images.pdf'),
    pdfFile({
      ...onePage('', '/Metadata 6 0 R /XObject << /Im0 5 0 R >>'),
      5: image('/DCTDecode', jpeg(XMP_SEGMENT), '/Metadata 6 0 R'),
      6: metadata(),
    }),
  );
  exiftool(join(FIXTURES, 'UDHR.pdf'), at('updated.pdf'), 'new');
  exiftool(at('updated.pdf'), at('updated-twice.pdf'), 'newer');
  exiftool(at('pdf-lib.pdf'), at('pdf-lib-updated.pdf'), 'new');
  const { status } = run('pdftocairo', ['-pdf', '-l', '3', at('updated.pdf'), at('cairo.pdf')]);
  t.equal(status, 0);
  exiftool(at('cairo.pdf'), at('cairo-updated.pdf'), 'new');
  for (const [name, options] of Object.entries({
    'object-streams': ['--object-streams=generate'],
    linearized: ['--linearize'],
    'linearized-object-streams': ['--linearize', '--object-streams=generate'],
    readable: ['--qdf'],
    uncompressed: ['--stream-data=uncompress', '--object-streams=disable'],
  })) {
    t.equal(run('qpdf', [...options, at('updated.pdf'), at(`${name}.pdf`)]).status, 0, name);
  }
  const fixtures = readdirSync(FIXTURES).filter((name) => name.endsWith('.pdf'));
  const own = readdirSync(dir);
  const documents = [...fixtures.map((name) => join(FIXTURES, name)), ...own.map(at)];
  t.ok(documents.length >= 20, `${documents.length} documents`);

  mkdirSync(at('copies'));
  let edits = 0;
  for (const document of documents) {
    const proof = await prove(document, at(join('copies', basename(document))));
    if (basename(document) === 'issue-88.pdf') t.equal(proof.refused, 'it is encrypted');
    else t.same(proof.faults, [], `${basename(document)}: ${proof.edits} removed`);
    edits += proof.edits;
  }
  t.ok(edits >= 13, `${edits} removed in all`);
});

t.test('the proof fails for documents that still have metadata', async (t) => {
  const dir = t.testdir({ 'a.pdf': pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() }) });
  const path = join(dir, 'a.pdf');
  t.same((await prove(path, join(dir, 'same.pdf'), (document) => document)).faults, [
    'exiftool finds XMP',
    'pdfinfo finds a metadata stream',
    'qpdf shows a packet',
  ]);
  const other = await prove(path, join(dir, 'other.pdf'), (copy) => copy.replace('(Hello)', '(hello)'));
  t.match(other.faults, ['page 1 looks different', /exiftool/, /pdfinfo/, /packet/]);
  const broken = await prove(path, join(dir, 'broken.pdf'), (copy) =>
    copy.replace('stream\nBT', 'strexm\nBT'),
  );
  t.match(broken.faults, [/qpdf --check/, /page 1/, /exiftool/, /pdfinfo/, /packet/]);
});
