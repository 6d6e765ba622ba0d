/** An installation of every former version starts with this one, and what its clients hold stays true. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { readLastCheckpoint } from '../../src/prove/trail/lastCheckpoint.ts';
import { Client, type JobBody } from '../support/client.ts';
import { onePage, pdfFile } from '../support/pdf.ts';
import { Receiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { type Installation, trailOf, unpackInstallation } from './installation.ts';

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

    const lastCheckpoint = () =>
      readLastCheckpoint(join(sandbox.dir, 'state/last-checkpoint'))?.checkpoint.treeSize ?? 0;
    const leavesBefore = lastCheckpoint();
    const daemon = await sandbox.start();
    const client = await Client.connect(sandbox.url, told.apiKey);
    // Its clock stood still since it was made, which can be long ago.
    const accepted = await sandbox.pdfseal(['clock', 'accept', '--config', sandbox.configFile]);
    t.ok(accepted.status === 0 || accepted.stderr.includes('(it is trusted)'), accepted.stderr);

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

    await t.test('webhooks that waited are delivered, signed with their secret', async (t) => {
      const receiver = await Receiver.open(t);
      receiver.secrets = [told.webhookSecret];
      const changed = await client.request('PATCH', `/v1/webhook-endpoints/${told.webhookEndpoint}`, {
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ url: receiver.url }),
      });
      t.equal(changed.status, 200, changed.text);
      const before = told.sealed.map(({ answer }) => JSON.parse(answer).id as string);
      const jobs = () => new Set(receiver.received.map(({ event }) => event.data.id));
      const waited = [...before, ...told.waiting];
      await until('all are delivered', () => waited.every((id) => jobs().has(id)));
      t.strictSame(receiver.refused, []);
    });

    t.equal(await daemon.stop(), 0);
    await t.test('its audit trail is continued', async (t) => {
      const now = await trailOf(sandbox);
      t.strictSame(now.slice(0, told.trail.length), told.trail);
      t.match(now[told.trail.length], /"act":"daemon.start"/);
    });
    t.ok(leavesBefore > told.sealed.length, 'the log of before is known');
    t.ok(lastCheckpoint() > leavesBefore, 'and continued');
    await t.test('the store is sound, and the trust file exports the same keys', async (t) => {
      const checked = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
      t.match(checked, { status: 0, stderr: '' }, checked.stdout + checked.stderr);
      const before = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
      const exported = await sandbox.pdfseal(['trust', 'export', '--config', sandbox.configFile]);
      t.match(JSON.parse(exported.stdout), before, exported.stderr);
    });
  });
}
