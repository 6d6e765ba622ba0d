import t from 'tap';
import { Client } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';

t.test('quotas list shows what clients have used of their limits, with and without the daemon', async (t) => {
  const sandbox = await openSandbox({
    tables: { limits: 'rate = { requests = 100, window = "1h" }' },
    tail: `[quotas.invoice]
jobs = 3
window = "7d"
[quotas.default]
jobs = 10
[clients.orders.quotas.default]
jobs = "unlimited"
`,
  });
  t.teardown(() => sandbox.close());
  const quotas = async (...args: string[]) => {
    const { stdout } = await sandbox.pdfseal([
      'quotas',
      'list',
      '--config',
      sandbox.configFile,
      '--json',
      ...args,
    ]);
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  };
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey('billing'));
  await sandbox.issueKey('orders');
  const body = {
    document_sha256: 'a'.repeat(64),
    document_sha512: 'b'.repeat(128),
    bytes: 7,
    visibility: 'private',
  };
  const { status } = await client.request('POST', '/v1/digests/seal', {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...body, purpose: 'invoice' }),
  });
  t.equal(status, 202);

  const invoice = {
    client: 'billing',
    kind: 'quota',
    name: 'invoice',
    used: 1,
    limit: 3,
    window_seconds: 604_800,
  };
  const unused = {
    client: 'billing',
    kind: 'quota',
    name: 'default',
    used: 0,
    limit: 10,
    window_seconds: 86_400,
  };
  const running = await quotas('--client', 'billing');
  t.match(running[0], { client: 'billing', kind: 'rate', used: 1, limit: 100, window_seconds: 3600 });
  t.match(
    running.slice(1).sort((a, b) => b.name.localeCompare(a.name)),
    [invoice, unused],
  );
  t.ok(Date.parse(running[1].resets_at) > Date.now());
  t.match(
    (await quotas('--client', 'orders')).filter(({ kind }) => kind === 'quota'),
    [{ name: 'invoice', used: 0 }],
  );

  await daemon.stop();
  const stopped = await quotas('--client', 'billing');
  t.match(
    stopped.sort((a, b) => b.name.localeCompare(a.name)),
    [invoice, unused],
  );
  const { stdout } = await sandbox.pdfseal(['quotas', 'list', '--config', sandbox.configFile]);
  t.match(stdout, /^CLIENT +LIMIT OF +USED +LIMIT +WINDOW +RESETS\n/);
  t.match(stdout, /^billing +jobs: invoice +1 +3 +7d +\d{4}-\d\d-\d\dT00:00:00\.000Z$/m);
});
