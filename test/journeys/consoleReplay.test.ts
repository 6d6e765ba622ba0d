/** An operator sends what was given up again, in the browser, once the endpoint is well. */
import t from 'tap';
import { Client, type JobBody, TRAFFIC_DOCUMENT } from '../support/client.ts';
import { freePort } from '../support/freePort.ts';
import { answerWith, OK, Receiver } from '../support/receiver.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { browseConsole, saysOf } from './browseConsole.ts';

t.test('a dead letter reaches its client after all', async (t) => {
  const sandbox = await openSandbox({
    tables: { webhooks: 'allow = ["127.0.0.0/8"]\nretries = ["50ms"]\nprobe_interval = "50ms"' },
    tail: `[console]\nlisten = "127.0.0.1:${await freePort()}"\n`,
  });
  t.teardown(() => sandbox.close());
  const scopes = ['--scopes', 'jobs:create,jobs:read,webhooks:manage'];
  const apiKey = await sandbox.issueKey('invoices', 'acme', ...scopes);
  await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const receiver = await Receiver.open(t);
  receiver.answering = answerWith(500);
  const config = ['--config', sandbox.configFile];
  const to = ['--client', 'invoices', '--url', receiver.url];
  const added = await sandbox.pdfseal(['webhooks', 'add', ...to, ...config]);
  receiver.secrets = [added.stdout.trim()];
  const [id = ''] = /we_[0-9a-f]{32}/.exec(added.stderr) ?? [];
  const job = (await client.seal(TRAFFIC_DOCUMENT, { mode: 'blocking' })).json<JobBody>();

  const { page, show } = await browseConsole(t, sandbox, 'Olga', 'operator');
  await until('it is given up', async () => {
    await show(`/access/webhooks/${id}?list=dead`);
    return (await page.evaluate(`document.querySelectorAll('[name=message]').length`)) === 1;
  });
  t.match(await page.evaluate('document.body.innerText'), /http_500/);
  await show('/');
  await page.evaluate(`document.querySelector('.concerns a[href="/access/webhooks"]').click()`);
  await page.until(`location.pathname === '/access/webhooks' && document.readyState === 'complete'`);
  t.match(await page.evaluate(`document.querySelector('tbody').innerText`), /invoices.*failing/s);

  receiver.answering = OK;
  await show(`/access/webhooks/${id}`);
  await page.evaluate(`document.querySelector('[name=message]').click();
    document.querySelector('#replay button').click();`);
  await saysOf(page, /One message is queued again/);
  await until('it came', () => receiver.received.some(({ event }) => event.data.id === job.id));
  t.strictSame(page.complaints, []);
  const listed = await sandbox.pdfseal(['audit', 'list', '--json', '--act', 'webhook.replay', ...config]);
  const actor = { via: 'console', person: 'Olga', role: 'operator' };
  t.match(JSON.parse(listed.stdout), { act: 'webhook.replay', actor, object: { endpoint: id } });
});
