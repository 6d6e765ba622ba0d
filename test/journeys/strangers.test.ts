/** What strangers do who are asked by a real daemon: sources, a time-stamp authority, webhook targets. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import { pdfOf } from '../support/app.ts';
import { preferAcme } from '../support/certificates.ts';
import { type Answer, Client, type JobBody } from '../support/client.ts';
import { HOSTILITIES, hostilityOf, openHostile } from '../support/hostile.ts';
import { openSandbox } from '../support/sandbox.ts';
import { openSource, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';

const DOCUMENT = pdfOf('a hosted document', 100_000);

t.test('hostile sources of one client delay neither others nor a stop', async (t) => {
  const authority = await openHostile(t, hostilityOf('switches protocols'));
  const silent = await openHostile(t, hostilityOf('says nothing'));
  const hostile = await Promise.all(HOSTILITIES.map((one) => openHostile(t, one, { toGet: true })));
  const source = await openSource(t, serving(DOCUMENT));
  const sandbox = await openSandbox({
    init: false,
    stamped: true,
    head: 'drain_timeout = "1s"',
    tables: {
      http: 'uploads_max = 2\nuploads_per_client_max = 2',
      // As long as they may be: shares are what keeps others going, not time.
      sources: 'allow = ["127.0.0.0/8"]\nconcurrent_max = 4\nanswer_timeout = "5m"\nretry_delay = "10ms"',
      webhooks: 'allow = ["127.0.0.0/8"]',
    },
    tail: `[timestamp.remotes.acme]\nurl = "http://${authority.host}/"\nroots_file = "roots.pem"\ntimeout = "1m"\n`,
  });
  t.teardown(() => sandbox.close());
  preferAcme(sandbox);
  await sandbox.init();
  const daemon = await sandbox.start();
  const greedy = await Client.connect(
    sandbox.url,
    await sandbox.issueKey('greedy', 'acme', '--scopes', 'jobs:create,jobs:read,webhooks:manage'),
  );
  const other = await Client.connect(sandbox.url, await sandbox.issueKey('other', 'beta'));
  const post = (client: Client, path: string, body: object): Promise<Answer> =>
    client.request('POST', path, {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  const create = (client: Client, origin: string, fields: object = {}) =>
    post(client, '/v1/jobs/seal', {
      source_url: `${origin}/a.pdf`,
      checksum_sha256: sha256Of(DOCUMENT),
      visibility: 'private',
      ...fields,
    });

  for (const { host } of [silent, authority])
    t.equal((await post(greedy, '/v1/webhook-endpoints', { url: `http://${host}/hook` })).status, 201);
  for (const { host } of hostile) t.equal((await create(greedy, `http://${host}`)).status, 202);
  const unanswered = Array.from({ length: 128 }, () =>
    create(greedy, `http://${silent.host}`).then(
      ({ status }) => status,
      () => 'cut off',
    ),
  );
  await until('all of its requests wait', () => silent.connections() >= 128);
  await greedy.seal(DOCUMENT); // and its webhooks have something to tell

  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  for (let n = 0; n < 3; n++) {
    const blocking = { mode: 'blocking' };
    for (const answer of [
      await create(other, source.origin, blocking),
      await other.seal(DOCUMENT, blocking),
    ]) {
      t.match(answer.json(), { phase: 'completed' });
      const { id } = answer.json<JobBody>();
      const receipt = (await other.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
      const { document } = receipt.manifest;
      t.equal(document.sha256, sha256Of(DOCUMENT));
      t.match(verifyReceipt({ document, receipt, trust }), { outcome: 'good' });
      t.equal(receipt.evidence.timestamps.length, 1, 'of the next authority');
    }
  }
  t.ok(authority.connections() > 0, 'the first authority was asked');
  t.equal(await daemon.stop(), 0, 'a stop waits for no stranger');
  const outcomes = new Set(await Promise.all(unanswered));
  t.notOk(outcomes.has(202), [...outcomes].join());
  for (const server of [authority, silent, ...hostile]) await server.left();
  t.notOk(daemon.log.some(({ event }) => event === 'cannot_go_on'));
});
