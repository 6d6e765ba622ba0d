import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { encodeReceipt } from '../../src/manifest/receipt.ts';
import { encodeTrust } from '../../src/manifest/trustFile.ts';
import { pdfseal as run } from '../support/commands.ts';
import { makePdf } from '../support/pdf.ts';
import { digestsOf } from '../support/receipts.ts';
import { NOT_SEALABLE } from '../support/sealable.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../support/sealing.ts';

const pdfseal = (...args: string[]) => run(args);
const ORIGIN = 'seal.example.com/test/2026';
const key = makeKey('ed25519', 'one');
const { privateKey: _privateKey, ...logKey } = key;
const epoch = oneEpoch({ origin: ORIGIN, environment: 'env_test', quorum: 1, keys: [logKey] });

async function receiptOf(document: Uint8Array): Promise<string> {
  const content = makeContent({ document: digestsOf(document) });
  const jobs = [makeJob('job_1', { content }), makeJob('job_2')] as const;
  const sealedAt = Date.parse('2026-03-04T05:06:08Z');
  const [receipt] = await sealJobs({ jobs, environment: 'test', origin: ORIGIN, keys: [key], sealedAt });
  return receipt ? encodeReceipt(receipt) : '';
}

t.test('a receipt is put into its PDF, which then verifies alone and gives its document back', async (t) => {
  const document = Buffer.from(await makePdf('A contract'));
  const [encrypted] = NOT_SEALABLE.encrypted;
  const dir = t.testdir({
    'a.pdf': document,
    'a.json': await receiptOf(document),
    'encrypted.pdf': encrypted,
    'encrypted.json': await receiptOf(encrypted),
    'trust.json': encodeTrust({ timestampAuthorities: [], logs: [epoch] }),
    'other.json': encodeTrust({
      timestampAuthorities: [],
      logs: [
        oneEpoch({ ...epoch.epochs[0], origin: 'other', environment: 'env_test', quorum: 1, keys: [logKey] }),
      ],
    }),
  });
  const path = (name: string) => join(dir, name);
  const attach = (...names: [string, string, string]) => {
    const [from, receipt, output] = names.map(path) as [string, string, string];
    return pdfseal('receipt', 'attach', from, receipt, '--output', output);
  };
  const verify = (name: string, ...more: string[]) =>
    pdfseal('verify', path(name), '--trust', path('trust.json'), ...more);

  t.match(await attach('a.pdf', 'a.json', 'sealed.pdf'), { status: 0, stdout: '' });
  const sealed = readFileSync(path('sealed.pdf'));
  t.ok(sealed.subarray(0, document.length).equals(document), 'it begins with the document');
  t.match(await verify('sealed.pdf', '--original', path('original.pdf')), {
    status: 0,
    stdout:
      /^passed +seal +it is the document and its receipt, byte for byte, and nothing else\n[\s\S]*\ngood\n$/,
  });
  t.ok(readFileSync(path('original.pdf')).equals(document));
  t.match(await verify('sealed.pdf', '--original', path('original.pdf')), {
    status: 2,
    stderr: /original\.pdf exists already/,
  });
  t.match(await attach('a.pdf', 'a.json', 'sealed.pdf'), { status: 1, stderr: /sealed\.pdf exists already/ });

  writeFileSync(path('longer.pdf'), Buffer.concat([sealed, Buffer.from('\n')]));
  t.match(await verify('longer.pdf', '--original', path('none.pdf')), {
    status: 1,
    stdout: /^failed +seal +it was changed after it was sealed: 1 bytes follow the seal\n[\s\S]*\nbad\n$/,
  });
  t.notOk(existsSync(path('none.pdf')), 'no document comes from a verdict that is not good');
  t.match(await verify('a.pdf'), {
    status: 2,
    stdout: /^unknown +seal +no receipt is attached to this document\n[\s\S]*could not tell\n$/,
  });
  t.match(await verify('a.pdf', '--json'), { status: 2, stdout: /"code":"receipt_missing"/ });
  t.match(await pdfseal('verify', path('sealed.pdf'), '--trust', path('other.json')), {
    status: 2,
    stdout: /passed +seal/,
  });
  t.match(
    await pdfseal(
      'verify',
      path('a.pdf'),
      path('a.json'),
      '--trust',
      path('trust.json'),
      '--original',
      path('x'),
    ),
    {
      status: 2,
      stderr: /--original is for a PDF that holds its receipt/,
    },
  );

  t.match(await attach('sealed.pdf', 'a.json', 'x.pdf'), {
    status: 1,
    stderr: /a\.json is not the receipt of .*sealed\.pdf/,
  });
  t.match(await attach('encrypted.pdf', 'encrypted.json', 'x.pdf'), {
    status: 1,
    stderr: /cannot be attached to this document: it is encrypted/,
  });
  t.notOk(existsSync(path('x.pdf')));
});
