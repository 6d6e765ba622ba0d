/** The egress process is killed while it sends for the daemon, and the daemon while the egress process does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { askAdmin, parseMetrics, sampleOf } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { preferAcme } from '../support/certificates.ts';
import { Client, type JobBody } from '../support/client.ts';
import { ENVIRONMENT } from '../support/daemon.ts';
import { hostilityOf, openHostile } from '../support/hostile.ts';
import { OK, Receiver } from '../support/receiver.ts';
import { openSandbox } from '../support/sandbox.ts';
import { either, openSource, type SourceHandler, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';
import { childrenOf } from './sockets.ts';

const DOCUMENT = pdfOf('a hosted document', 400_000);
const WEBHOOKS =
  'allow = ["127.0.0.0/8"]\nretries = ["20ms", "100ms", "500ms", "1s", "1s", "1s", "1s", "1m"]';

/** The egress processes that a process has started. */
function egressOf(parent: number): number[] {
  return childrenOf(parent).filter((pid) => /main\/egress\.[jt]s/.test(read(`/proc/${pid}/cmdline`)));
}

/** Empty for a process that is gone. */
function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

const isAlive = (pid: number) => /^State:\s+[^Z]/m.test(read(`/proc/${pid}/status`));

async function subscribe(client: Client, receiver: Receiver): Promise<void> {
  const made = await client.request('POST', '/v1/webhook-endpoints', {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ url: receiver.url }),
  });
  receiver.secrets = [made.json<{ secret: string }>().secret];
}

t.test('an egress process that is killed during its work loses nothing', async (t) => {
  const authority = await openHostile(t, hostilityOf('says nothing'));
  let whole = false;
  const halfway: SourceHandler = (req, res) => {
    if (whole) serving(DOCUMENT)(req, res);
    else res.writeHead(200, { 'Content-Length': DOCUMENT.length }).write(DOCUMENT.subarray(0, 200_000));
  };
  const source = await openSource(t, either(serving(DOCUMENT), halfway));
  let isHeld = true;
  const receiver = await Receiver.open(t, (...all) => (isHeld ? undefined : OK(...all)));
  const sandbox = await openSandbox({
    init: false,
    stamped: true,
    code: 'dist',
    tables: { sources: 'allow = ["127.0.0.0/8"]\nretry_delay = "50ms"', webhooks: WEBHOOKS },
    tail: `[timestamp.remotes.acme]\nurl = "http://${authority.host}/"\nroots_file = "roots.pem"\ntimeout = "1m"\n`,
  });
  t.teardown(() => sandbox.close());
  preferAcme(sandbox);
  await sandbox.init();
  const daemon = await sandbox.start();
  const scopes = ['--scopes', 'jobs:create,jobs:read,webhooks:manage'];
  const client = await Client.connect(sandbox.url, await sandbox.issueKey('one', 'acme', ...scopes));
  const killEgress = async () => {
    const [pid = 0, ...others] = egressOf(daemon.pid);
    t.strictSame(others, [], 'there is one');
    process.kill(pid, 'SIGKILL');
    await until('there is another', () => egressOf(daemon.pid).some((next) => next !== pid));
  };
  await subscribe(client, receiver);

  const sealing = client.seal(pdfOf('stamped'), { mode: 'blocking' });
  await until('the authority is asked', () => authority.connections() > 0);
  await killEgress();
  t.match((await sealing).json(), { phase: 'completed' }, 'the next authority stamps');

  const created = await client.request('POST', '/v1/jobs/seal', {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      source_url: `${source.origin}/a.pdf`,
      checksum_sha256: sha256Of(DOCUMENT),
      visibility: 'private',
    }),
  });
  t.equal(created.status, 202);
  await until('it is half-way', () => source.requests.some((request) => request.startsWith('GET')));
  await killEgress();
  whole = true;
  const { id } = created.json<JobBody>();
  const phase = async () => (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase;
  await until('it is fetched and sealed', async () => (await phase()) === 'completed');

  await until('deliveries are under way', () => receiver.received.length > 0);
  await killEgress();
  isHeld = false;
  await until('both are told', () => new Set(receiver.received.map(({ webhookId }) => webhookId)).size === 2);
  t.strictSame(receiver.refused, [], 'the stock verifier takes every one');
  await until('they are settled', async () => {
    const metrics = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
    return sampleOf(metrics, 'pdfseal_webhooks_pending') === 0;
  });

  t.ok(daemon.log.filter(({ event }) => event === 'egress_ended').length >= 3, 'each end is in the log');
  const { stdout } = await sandbox.pdfseal(['status', '--config', sandbox.configFile]);
  t.match(stdout, /egress +answers, a child of the daemon, \d restarts/);
  t.strictSame(await daemon.stop(), 0);
});

t.test(
  'an egress process that hangs is replaced, and nothing is charged to whom it should have asked',
  async (t) => {
    const source = await openSource(t, serving(DOCUMENT));
    const receiver = await Receiver.open(t);
    const sandbox = await openSandbox({
      code: 'dist',
      tables: {
        sources: 'allow = ["127.0.0.0/8"]\nretry_delay = "50ms"\nanswer_timeout = "1s"',
        webhooks: 'allow = ["127.0.0.0/8"]\ntimeout = "1s"\nretries = ["1h"]',
      },
    });
    t.teardown(() => sandbox.close());
    const daemon = await sandbox.start();
    const scopes = ['--scopes', 'jobs:create,jobs:read,webhooks:manage'];
    const client = await Client.connect(sandbox.url, await sandbox.issueKey('one', 'acme', ...scopes));
    await subscribe(client, receiver);
    await until('it is there', () => egressOf(daemon.pid).length === 1);
    const [hung = 0] = egressOf(daemon.pid);
    process.kill(hung, 'SIGSTOP');
    const uploaded = await client.seal(pdfOf('told later'), { mode: 'blocking' });
    t.equal(uploaded.status, 202, uploaded.text);
    const created = await client.request('POST', '/v1/jobs/seal', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        source_url: `${source.origin}/a.pdf`,
        checksum_sha256: sha256Of(DOCUMENT),
        visibility: 'private',
      }),
    });
    t.equal(created.status, 202, created.text);
    await until('the status says so', async () => {
      const { stdout } = await sandbox.pdfseal(['status', '--config', sandbox.configFile]);
      return /! egress process +the egress process does not answer/.test(stdout);
    });
    await until('it is replaced', () => egressOf(daemon.pid).some((pid) => pid !== hung));
    t.notOk(isAlive(hung), 'and killed');
    const messageOf = ({ id }: JobBody) => id.replace('job_', 'msg_');
    const expected = [uploaded, created].map((answer) => messageOf(answer.json<JobBody>()));
    await until('both jobs are sealed and told', () =>
      expected.every((id) => receiver.received.some(({ webhookId }) => webhookId === id)),
    );
    await until('they are settled', async () => {
      const metrics = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
      if (sampleOf(metrics, 'pdfseal_webhooks_pending') !== 0) return false;
      t.equal(sampleOf(metrics, 'pdfseal_webhooks_failed_attempts_total'), 0, 'no attempt counts as failed');
      t.equal(sampleOf(metrics, 'pdfseal_egress_up'), 1);
      return true;
    });
    t.strictSame(await daemon.stop(), 0);
  },
);

t.test('no egress process outlives its daemon, and none is started without need', async (t) => {
  const idle = await openSandbox({ code: 'dist' });
  t.teardown(() => idle.close());
  const daemon = await idle.start();
  t.strictSame(egressOf(daemon.pid), [], 'nothing is configured that it would reach');
  const sandbox = await openSandbox({ code: 'dist', tables: { webhooks: WEBHOOKS } });
  t.teardown(() => sandbox.close());
  for (const end of ['kill', 'stop'] as const) {
    const running = await sandbox.start();
    await until('it is there', () => egressOf(running.pid).length === 1);
    const [pid = 0] = egressOf(running.pid);
    await running[end]();
    await until(`it ends with the ${end} of the daemon`, () => !isAlive(pid));
  }
});

t.test(
  'a daemon with an egress socket starts no egress process itself, and waits for the socket',
  async (t) => {
    const receiver = await Receiver.open(t);
    const sandbox = await openSandbox({ code: 'dist', tables: { webhooks: WEBHOOKS } });
    t.teardown(() => sandbox.close());
    const socket = join(sandbox.dir, 'egress.sock');
    const daemon = await sandbox.start({ env: { PDFSEALD_EGRESS_SOCKET: socket } });
    const scopes = ['--scopes', 'jobs:create,jobs:read,webhooks:manage'];
    const client = await Client.connect(sandbox.url, await sandbox.issueKey('one', 'acme', ...scopes));
    await subscribe(client, receiver);
    t.equal((await client.seal(pdfOf('told'))).status, 202);
    await until('it says so', () => daemon.log.some(({ event }) => event === 'egress_unreachable'));
    t.strictSame(egressOf(daemon.pid), [], 'there is no way around the unit');
    const { stdout } = await sandbox.pdfseal(['doctor', '--config', sandbox.configFile]);
    t.match(stdout, /egress process[^\n]*the egress process does not answer: [^\n]*a unit of its own/);
    const samples = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
    t.equal(sampleOf(samples, 'pdfseal_egress_up'), 0);
    t.strictSame(receiver.received, []);
    const program = fileURLToPath(new URL('../../dist/main/egress.js', import.meta.url));
    const args = [
      '--jitless',
      '--disable-sigusr1',
      program,
      '--config',
      sandbox.configFile,
      '--listen',
      socket,
    ];
    const egress = spawn(process.execPath, args, { env: ENVIRONMENT, stdio: 'ignore' });
    t.teardown(() => egress.kill('SIGKILL'));
    await until('it is told', () => receiver.received.length > 0);
    await until('it says that too', () => daemon.log.some(({ event }) => event === 'egress_back'));
    egress.kill('SIGTERM');
    t.strictSame(await once(egress, 'exit'), [0, null]);
  },
);
