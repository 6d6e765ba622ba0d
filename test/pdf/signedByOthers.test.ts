/** What pdfsig and mutool say of signatures in a document before and after a receipt is attached: the table of `docs/verify.md`. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { planAttachment } from '../../src/pdf/update/attach.ts';
import { suffixOf } from '../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { appendRevision, onePage, pdfFile } from '../support/pdf.ts';
import { run } from './corpus.ts';

const CONTENTS_BYTES = 4000;
const folder = t.testdir();
const at = (name: string) => join(folder, name);
const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });
openssl(
  ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30'],
  ...['-subj', '/CN=A signer', '-keyout', 'key.pem', '-out', 'certificate.pem'],
  ...['-addext', 'keyUsage=critical,digitalSignature,nonRepudiation'],
);

interface Signing {
  document?: Buffer;
  /** Numbers of the signature and of its field. */
  numbers?: [signature: number, field: number];
  /** The fields of the form. */
  fields?: string;
  subFilter?: string;
  /** More entries of the signature, of its field, and of the catalog. */
  entries?: string;
  fieldEntries?: string;
  catalogEntries?: string;
}

/** Appends a revision with a signature of everything (ISO 32000-2, 12.8.1). */
function sign({
  document = pdfFile(onePage()),
  numbers: [signature, field] = [30, 31],
  fields = `${field} 0 R`,
  subFilter = 'adbe.pkcs7.detached',
  entries = '',
  fieldEntries = '',
  catalogEntries = '',
}: Signing = {}): Buffer {
  const gap = `<${'0'.repeat(2 * CONTENTS_BYTES)}>`;
  const range = '/ByteRange [0 0000000000 0000000000 0000000000]';
  const { 1: catalog = '', 3: page = '' } = onePage(
    `/AcroForm << /SigFlags 3 /Fields [${fields}] >> ${catalogEntries}`,
    `/Annots [${fields}]`,
  );
  const file = appendRevision(document, {
    1: catalog,
    3: page,
    [signature]: `<< /Type /Sig /Filter /Adobe.PPKLite /SubFilter /${subFilter} /M (D:20261128101500Z) ${entries} ${range} /Contents ${gap} >>`,
    [field]: `<< /Type /Annot /Subtype /Widget /FT /Sig /T (${field}) /V ${signature} 0 R /Rect [0 0 0 0] /F 132 /P 3 0 R ${fieldEntries} >>`,
  });
  const from = file.lastIndexOf(gap);
  const to = from + gap.length;
  const ten = (value: number) => String(value).padStart(10, '0');
  file.write(
    `/ByteRange [0 ${ten(from)} ${ten(to)} ${ten(file.length - to)}]`,
    file.lastIndexOf(range),
    'latin1',
  );
  writeFileSync(at('data'), Buffer.concat([file.subarray(0, from), file.subarray(to)]));
  openssl(
    ...['cms', '-sign', '-binary', '-md', 'sha256', '-in', 'data', '-outform', 'DER', '-out', 'signature'],
    ...[
      '-signer',
      'certificate.pem',
      '-inkey',
      'key.pem',
      ...(subFilter.startsWith('ETSI') ? ['-cades'] : []),
    ],
  );
  file.write(readFileSync(at('signature')).toString('hex'), from + 1, 'latin1');
  return file;
}

const transform = (method: string, parameters: string) =>
  `/Reference [<< /Type /SigRef /TransformMethod /${method} /TransformParams << /Type /TransformParams /V /1.2 ${parameters} >> >>]`;

const SIGNED: Record<string, Buffer> = {
  'a signature (`adbe.pkcs7.detached`)': sign(),
  'a PAdES signature (`ETSI.CAdES.detached`)': sign({ subFilter: 'ETSI.CAdES.detached' }),
  'two signatures, one after the other': sign({
    document: sign(),
    numbers: [40, 41],
    fields: '31 0 R 41 0 R',
  }),
  'a signature that locks fields (`/FieldMDP`, `/Lock` without `/P`)': sign({
    entries: transform('FieldMDP', '/Action /All'),
    fieldEntries: '/Lock << /Type /SigFieldLock /Action /All >>',
  }),
};

/** Signatures after which a receipt is not attached. */
const LOCKED: Record<string, Buffer> = {
  'a certification (`/DocMDP`), whatever it permits': sign({
    entries: transform('DocMDP', '/P 3'),
    catalogEntries: '/Perms << /DocMDP 30 0 R >>',
  }),
  'a signature that locks the document (`/Lock` with `/P`)': sign({
    fieldEntries: '/Lock << /Type /SigFieldLock /Action /All /P 2 >>',
  }),
};

/** What the programs say of the signatures. Certificates are not the subject here: that of the test is trusted by nobody. */
function judgements(name: string, document: Buffer) {
  const path = at(name);
  writeFileSync(path, document);
  const pdfsig = run('pdfsig', ['-nocert', path]).output;
  const mutool = run('mutool', ['sign', '-v', path]).output;
  const all = (text: string, line: RegExp) => Array.from(text.matchAll(line), ([, said]) => said).join(', ');
  return {
    validity: all(pdfsig, /^ {2}- Signature Validation: (.*)$/gm),
    pdfsig: all(pdfsig, /^ {2}- (.*otal document signed)$/gm),
    mutool: all(mutool, /^\tThe (?:document|signature) is (.*)\.$/gm),
  };
}

const manual = readFileSync(new URL('../../docs/verify.md', import.meta.url), 'utf8');

for (const [kind, document] of Object.entries(SIGNED)) {
  t.test(`earlier signatures stay valid: ${kind}`, async (t) => {
    const plan = await planAttachment(readerOf(bufferSource(document)));
    const sealed = Buffer.concat([document, suffixOf(plan, Buffer.from('{}'), 0)]);
    const before = judgements('before.pdf', document);
    const after = judgements('after.pdf', sealed);
    t.match(before.validity, /^Signature is Valid\.(, Signature is Valid\.)?$/);
    t.equal(after.validity, before.validity);
    const row = `| ${kind} | ${before.pdfsig} → ${after.pdfsig} | ${before.mutool} → ${after.mutool} |\n`;
    t.ok(manual.includes(row), row);
  });
}

for (const [kind, document] of Object.entries(LOCKED)) {
  t.test(`a receipt is not attached: ${kind}`, async (t) => {
    t.equal(judgements('locked.pdf', document).validity, 'Signature is Valid.');
    const refused = await planAttachment(readerOf(bufferSource(document))).catch((error) => error);
    t.match(refused, { code: 'pdf_not_sealable' });
    const row = `| ${kind} | refused: ${refused.message} | |\n`;
    t.ok(manual.includes(row), row);
  });
}
