/** An installation of every former version starts with this one, and what its clients hold stays true. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/crypto.ts';
import { readLastCheckpoint } from '../../src/prove/lastCheckpoint.ts';
import { Client, type JobBody } from '../support/client.ts';
import { onePage, pdfFile } from '../support/pdf.ts';
import { until } from '../support/until.ts';
import { type Installation, unpackInstallation } from './installation.ts';

const INSTALLATIONS = fileURLToPath(new URL('../vectors/installations', import.meta.url));

for (const archive of readdirSync(INSTALLATIONS)) {
  t.test(`an installation of ${archive.replace('.tar.gz', '')}`, async (t) => {
    const { sandbox, told }: Installation = await unpackInstallation(join(INSTALLATIONS, archive));
    t.teardown(() => sandbox.close());
    const verify = async (t: Test, name: string, document: Uint8Array, receipt: string) => {
      const files = [join(sandbox.dir, `${name}.pdf`), join(sandbox.dir, `${name}.json`)] as const;
      writeFileSync(files[0], document);
      writeFileSync(files[1], receipt);
      const verified = await sandbox.pdfseal(['verify', ...files, '--trust', sandbox.trustFile]);
      t.equal(verified.status, 0, `${name}: ${verified.stdout}${verified.stderr}`);
    };

    await t.test('its receipts verify with its former trust file', async (t) => {
      for (const [n, { document, receipt }] of told.sealed.entries())
        await verify(t, `before-${n}`, Buffer.from(document, 'base64'), receipt);
    });

    await t.test('its epochs are not sealed yet', async (t) => {
      for (const args of [['check'], ['doctor'], ['trust', 'export']]) {
        const { stdout, stderr } = await sandbox.pdfseal([...args, '--config', sandbox.configFile]);
        t.match(stdout + stderr, /the epochs of this log are not sealed yet/, args.join(' '));
      }
    });

    const handedOut = toHex(sha256(readFileSync(sandbox.trustFile)));
    const daemon = await sandbox.start();
    const client = await Client.connect(sandbox.url, told.apiKey);

    await t.test('it serves the same receipts and copies', async (t) => {
      for (const { answer, receipt } of told.sealed) {
        const { id } = JSON.parse(answer) as JobBody;
        t.equal((await client.get(`/v1/jobs/${id}/receipt.json`)).text, receipt);
        t.equal((await client.get(`/v1/jobs/${id}/document.pdf`)).status, 200);
        t.match((await client.get(`/v1/jobs/${id}`)).json(), JSON.parse(answer));
      }
    });

    await t.test('it repeats its answers byte for byte', async (t) => {
      for (const { document, fields, key, answer } of told.sealed) {
        const repeat = await client.seal(Buffer.from(document, 'base64'), fields, { 'Idempotency-Key': key });
        t.equal(repeat.headers.get('Idempotent-Replayed'), 'true', `${key}, long after`);
        t.equal(repeat.text, answer);
      }
    });

    await t.test('waiting and new documents are sealed', async (t) => {
      const sealed = async (id: string) =>
        (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed';
      for (const id of told.waiting) await until(`${id} is sealed`, () => sealed(id));
      const document = Buffer.from(pdfFile(onePage('/New true')));
      const answer = await client.seal(document, { mode: 'blocking' });
      t.equal(answer.status, 202, answer.text);
      const { id } = answer.json<JobBody>();
      await verify(t, 'new', document, (await client.get(`/v1/jobs/${id}/receipt.json`)).text);
    });

    await t.test('its epochs are sealed once, as they were found', async (t) => {
      const adopted = () => daemon.log.filter(({ event }) => event === 'epochs_adopted');
      await until('they are adopted', () => adopted().length > 0);
      t.match(
        adopted(),
        [{ epochs: 2, trust_sha256: handedOut }],
        'as in the trust file that was handed out',
      );
    });

    t.equal(await daemon.stop(), 0);
    await t.test('its last-checkpoint file is used under its former name, and the log says so', (t) => {
      const state = join(sandbox.dir, 'state');
      const messages = daemon.log.map(({ msg }) => msg).join('\n');
      t.match(messages, /witness is now called last-checkpoint: rename it while the daemon is stopped/);
      t.ok(readLastCheckpoint(join(state, 'witness')));
      t.notOk(existsSync(join(state, 'last-checkpoint')));
      t.end();
    });
    await t.test('the store is sound, and the trust file exports the same keys', async (t) => {
      const checked = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
      t.match(checked, { status: 0, stderr: '' }, checked.stdout + checked.stderr);
      const before = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
      const exported = await sandbox.pdfseal(['trust', 'export', '--config', sandbox.configFile]);
      t.match(JSON.parse(exported.stdout), before, exported.stderr);
    });
  });
}
