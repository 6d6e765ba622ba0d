/** A front does not pass by the scanner of the daemon that seals, and brings its acceptance key. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { askAdmin } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { startClamd } from '../support/clamd.ts';
import { Client, type Envelope, type JobBody } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { installFront, installOn, isProven } from './onDatabase.ts';

t.test('a front without a scanner refuses documents once the daemon that seals scans', async (t) => {
  const clamd = await startClamd(t);
  const postgres = await startPostgres(t);
  const scan = `[scan]\nclamd = "unix:${clamd.socket}"`;
  const first = await installOn(t, postgres, { tables: { limits: 'document_bytes_max = "32MiB"' } });
  const addScan = ({ configFile }: Sandbox) =>
    writeFileSync(configFile, readFileSync(configFile, 'utf8').replace('[scan]', scan));
  const keyFile = join(first.dir, 'acceptance');
  t.match(await first.pdfseal(['store', 'make-acceptance-key', keyFile]), { status: 0 });
  const addKey = ({ configFile }: Sandbox) =>
    writeFileSync(
      configFile,
      readFileSync(configFile, 'utf8').replace('[store]', `[store]\nacceptance_key_file = "${keyFile}"`),
    );
  const apiKey = await first.issueKey();
  const unscanning = await first.start();
  const front = await installFront(t, postgres, first, 'front');
  addKey(front);
  let frontDaemon = await front.start();
  const client = await Client.connect(front.url, apiKey);
  const scanOf = async (id: string) => {
    t.ok(await isProven(client, first, id));
    const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<{ manifest: { scan: object } }>();
    return receipt.manifest.scan;
  };

  const key = { 'Idempotency-Key': 'before-the-scanner' };
  const before = await client.seal(pdfOf('before'), { mode: 'async' }, key);
  t.equal(before.status, 202, 'nobody scans');
  t.strictSame(await scanOf(before.json<JobBody>().id), { verdict: 'not_configured' });
  t.equal(await unscanning.stop(), 0);
  const waiting = await client.seal(pdfOf('waiting'), { mode: 'async' });
  t.equal(waiting.status, 202, waiting.text);

  addScan(first);
  addKey(first);
  await first.start();
  const { stdout: acts } = await first.pdfseal(['audit', 'list', '--config', first.configFile]);
  t.match(acts, /jobs\.take_over +done .* jobs=0/, 'what the front marked is not taken over');
  t.strictSame(
    await scanOf(waiting.json<JobBody>().id),
    { verdict: 'not_configured' },
    'what was accepted is sealed, and its receipt says that it was not scanned',
  );
  await until('the front knows that the daemon scans', async () => {
    const status = (await askAdmin(front, '/status')).json<{ sealing: { scans: boolean } }>();
    return status.sealing.scans;
  });
  const refused = await client.seal(pdfOf('after'), { mode: 'async' });
  t.equal(refused.status, 503);
  t.equal(refused.json<Envelope>().error.code, 'scanner_unavailable');
  t.match((await client.seal(pdfOf('before'), { mode: 'async' }, key)).text, before.json<JobBody>().id);
  t.match((await askAdmin(front, '/status')).json(), {
    ready: false,
    parts: [
      { name: 'service' },
      { name: 'sealing' },
      { name: 'scanner', ready: false, remedy: /set scan\.clamd/ },
    ],
  });

  t.equal(await frontDaemon.stop(), 0);
  addScan(front);
  frontDaemon = await front.start();
  let scanned: JobBody | undefined;
  await until('its scanner is found', async () => {
    const answer = await client.seal(pdfOf('after'), { mode: 'async' });
    if (answer.status === 202) scanned = answer.json<JobBody>();
    return scanned !== undefined;
  });
  t.match((await askAdmin(first, '/status')).json(), {
    acceptance: { keys: [/^[0-9a-f]{16}$/], refused: 0 },
  });
  t.match(await scanOf(scanned?.id ?? ''), { verdict: 'clean', engine: /^ClamAV /, signatures: '27410' });
  t.equal(await frontDaemon.stop(), 0);
});
