import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { Client, type JobBody } from '../support/client.ts';
import { encryptedPdf, makePdf } from '../support/pdf.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const DOCUMENT = Buffer.from(await makePdf('Contract'));

t.test('a document comes back with its receipt inside, and verifies by itself', async (t) => {
  const sandbox = await openSandbox({ stamped: true, tables: { pdf: 'attach = true' } });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  await sandbox.start();
  const dir = t.testdir();
  const path = (name: string) => join(dir, name);
  writeFileSync(path('a.pdf'), DOCUMENT);
  const pdfseal = (...args: string[]) =>
    sandbox.pdfseal(args, { cwd: dir, env: { PDFSEAL_API_KEY: apiKey } });
  const submit = (name: string, ...args: string[]) =>
    pdfseal('submit', name, '--url', sandbox.url, '--visibility', 'private', '--sealed-pdf', ...args);
  const verify = (...args: string[]) => pdfseal('verify', ...args, '--trust', sandbox.trustFile);

  await t.test('it is saved beside the document', async (t) => {
    const submitted = await submit('a.pdf', '--json');
    t.equal(submitted.status, 0, submitted.stderr);
    t.match(JSON.parse(submitted.stdout), { sealed_pdf: 'a.pdf.sealed.pdf', receipt: 'a.pdf.receipt.json' });
    const sealed = readFileSync(path('a.pdf.sealed.pdf'));
    t.same(sealed.subarray(0, DOCUMENT.length), DOCUMENT);
    t.ok(sealed.includes(readFileSync(path('a.pdf.receipt.json'), 'hex')));
    t.equal((await submit('a.pdf')).status, 0, 'again, over the same file');
    writeFileSync(path('a.pdf.sealed.pdf'), 'another');
    t.match(await submit('a.pdf'), { status: 1, stderr: /copy_exists.*--force/ });
    t.equal((await submit('a.pdf', '--force')).status, 0);
    t.match(await submit('.'), { status: 0, stderr: /0 sealed, 1 already had a receipt/ });
  });

  await t.test('it verifies alone, and gives the document back', async (t) => {
    t.match(await verify('a.pdf.sealed.pdf', '--original', 'out.pdf'), { status: 0, stdout: /\ngood/ });
    t.same(readFileSync(path('out.pdf')), DOCUMENT);
    const changed = readFileSync(path('a.pdf.sealed.pdf'));
    changed[changed.length - 20] = 0x20;
    writeFileSync(path('changed.pdf'), changed);
    t.equal((await verify('changed.pdf')).status, 1);
    t.match(await verify('a.pdf'), { status: 2 }, 'a document without a receipt proves nothing');
  });

  await t.test('a document that cannot carry a receipt is refused, with the reason', async (t) => {
    writeFileSync(path('encrypted.pdf'), encryptedPdf());
    t.match(await submit('encrypted.pdf'), { status: 1, stderr: /pdf_not_sealable/ });
    t.notOk(existsSync(path('encrypted.pdf.receipt.json')));
    t.match(await submit('a.pdf', '--digest-only'), { status: 64, stderr: /attach a receipt/ });
  });

  await t.test('what was accepted is sealed after a crash', async (t) => {
    const client = await Client.connect(sandbox.url, apiKey);
    const { id } = (await client.seal(DOCUMENT, { sealed_pdf: 'attach' })).json<JobBody>();
    await sandbox.kill();
    await sandbox.start();
    await until(
      'it is sealed',
      async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed',
    );
    const sealed = await client.get(`/v1/jobs/${id}/sealed.pdf`);
    t.equal(sealed.status, 200);
    writeFileSync(path('b.sealed.pdf'), sealed.bytes);
    t.match(await verify('b.sealed.pdf'), { status: 0, stdout: /\ngood/ });
    const checked = await pdfseal('check', '--config', sandbox.configFile);
    t.equal(checked.status, 0, checked.stdout);
  });
});
