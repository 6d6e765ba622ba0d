import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { Client, type JobBody } from '../support/client.ts';
import { metadata, onePage, PACKET, pdfFile } from '../support/pdf.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const DOCUMENT = pdfFile({ ...onePage('/Metadata 5 0 R'), 5: metadata() });
/** What no file of the daemon may hold. */
const SECRETS = [Buffer.from('a secret'), Buffer.from('%PDF-'), Buffer.from('xpacket')];

t.test('compliance mode, with the command line and through crashes', async (t) => {
  const sandbox = await openSandbox({
    head: 'compliance_mode = true',
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  await sandbox.start();
  const state = join(sandbox.dir, 'state');
  const documents = join(state, 'documents');
  const dir = t.testdir();
  writeFileSync(join(dir, 'a.pdf'), DOCUMENT);
  const pdfseal = (...args: string[]) =>
    sandbox.pdfseal(args, { cwd: dir, env: { PDFSEAL_API_KEY: apiKey } });
  const submit = (...args: string[]) =>
    pdfseal('submit', 'a.pdf', '--url', sandbox.url, '--visibility', 'private', ...args);
  const verify = (name: string) =>
    pdfseal('verify', name, 'a.pdf.receipt.json', '--trust', sandbox.trustFile);

  await t.test('the copy is written next to the receipt, and verifies as a stripped copy', async (t) => {
    const submitted = await submit('--stripped-copy', '--json');
    t.equal(submitted.status, 0, submitted.stderr);
    t.match(JSON.parse(submitted.stdout), { stripped_copy: 'a.pdf.stripped.pdf' });
    const copy = readFileSync(join(dir, 'a.pdf.stripped.pdf'));
    t.equal(copy.length, DOCUMENT.length);
    t.equal(copy.indexOf('xpacket'), -1);
    t.match(await verify('a.pdf'), { status: 0, stdout: /\ngood\n$/ });
    t.match(await verify('a.pdf.stripped.pdf'), {
      status: 0,
      stdout: /\ngood: the copy without XMP metadata, not/,
    });

    t.equal((await submit('--stripped-copy')).status, 0, 'again, over the same file');
    writeFileSync(join(dir, 'a.pdf.stripped.pdf'), 'another');
    t.match(await submit('--stripped-copy'), { status: 1, stderr: /copy_exists.*--force/ });
    const preserved = await submit('--stripped-copy', '--preserve-metadata', '--force');
    t.match(preserved, { status: 1, stderr: /document_unavailable/ });
    t.notOk(readdirSync(dir).some((name) => name.endsWith('.new')));
  });

  await t.test('a crash in the middle of an upload leaves nothing readable', async (t) => {
    const before = readdirSync(documents);
    const upload = request(`${sandbox.url}/v1/jobs/seal`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'multipart/form-data; boundary=b' },
    });
    upload.on('error', () => {}); // it ends with the daemon
    upload.write('--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n');
    upload.write(DOCUMENT);
    upload.write(Buffer.alloc(2_000_000, PACKET)); // a small one stays in memory
    await until('it is on disk', () =>
      readdirSync(documents).some(
        (name) => !before.includes(name) && statSync(join(documents, name)).size > 200_000,
      ),
    );
    await sandbox.kill();
    upload.destroy();
    t.equal(readdirSync(documents).length, before.length + 1);
    for (const file of filesBelow(state)) {
      const bytes = readFileSync(file);
      for (const secret of SECRETS) t.equal(bytes.indexOf(secret), -1, `${secret} in ${file}`);
    }
    await sandbox.start();
    t.same(readdirSync(documents), before, 'the next start removes it, and only it');
  });

  await t.test('accepted copies survive, and are served as they were sealed', async (t) => {
    const client = await Client.connect(sandbox.url, apiKey);
    const accepted = await client.seal(Buffer.from(DOCUMENT));
    const { id } = accepted.json<JobBody>();
    await sandbox.kill();
    await sandbox.start();
    await until(
      'it is sealed',
      async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed',
    );
    const { manifest } = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
    const copy = await client.get(`/v1/jobs/${id}/document.pdf`);
    t.equal(copy.status, 200);
    t.equal(copy.bytes.length, manifest.sealed_document?.bytes);
    t.ok(existsSync(join(state, 'store')));
    const checked = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
    t.equal(checked.status, 0, checked.stdout);
  });
});

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
