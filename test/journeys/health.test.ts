/** What the administration of a real daemon says and does, while things go wrong and well again. */
import t from 'tap';
import type { HealthPart } from '../../src/health/healthFinding.ts';
import type { PresentedRun } from '../../src/health/sections/canarySection.ts';
import type { PresentedPartition } from '../../src/health/sections/partitionsSection.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { type AdminAnswer, askAdmin, askAdminAt, parseMetrics, sampleOf } from '../support/admin.ts';
import {
  Client,
  type Envelope,
  isServed,
  type JobBody,
  TRAFFIC_DOCUMENT,
  Traffic,
} from '../support/client.ts';
import { makeChronyc, SYNCHRONIZED, UNSYNCHRONIZED } from '../support/clocks.ts';
import { freePort } from '../support/freePort.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';

type Readiness = { ready: boolean; parts: HealthPart[] };

function unready(answer: AdminAnswer): string[] {
  return answer
    .json<Readiness>()
    .parts.filter(({ ready }) => !ready)
    .map(({ name }) => name);
}

async function metricsOf(sandbox: Sandbox) {
  const answer = await askAdmin(sandbox, '/metrics');
  return parseMetrics(answer.text);
}

async function statusOf(sandbox: Sandbox): Promise<AdminStatus> {
  return (await askAdmin(sandbox, '/status')).json<AdminStatus>();
}

t.test('the daemon is ready once it has sealed and verified a document of its own', async (t) => {
  const chronyc = makeChronyc(t);
  chronyc.say(UNSYNCHRONIZED);
  const sandbox = await openSandbox({
    regions: ['eu', 'us'],
    quorum: 2,
    stamped: true,
    clock: `program = "${chronyc.program}"`,
    tables: { health: 'canary_interval = "1s"' },
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const daemon = await sandbox.start();
  const readyz = () => askAdmin(sandbox, '/readyz');

  const first = await readyz();
  t.equal(first.status, 503, 'red at first');
  t.strictSame(unready(first), ['canary', 'timestamps']);
  const { parts } = first.json<Readiness>();
  t.match(
    parts.find(({ name }) => name === 'timestamps'),
    {
      detail: /^the clock is not trusted \(clock_unsynchronized\): chrony: Not synchronised$/,
      remedy: /chronyc tracking/,
    },
  );
  t.match((await askAdmin(sandbox, '/healthz')).json(), { alive: true }, 'but alive');
  t.equal((await statusOf(sandbox)).log.tree_size, 0, 'and nothing was written');

  chronyc.say(SYNCHRONIZED);
  await until('the clock was asked again', async () => unready(await readyz()).join() === 'canary').catch(
    () => {},
  );
  await until('it is ready', async () => (await readyz()).status === 200);
  const { canary, timestamps, partitions } = await statusOf(sandbox);
  t.match(canary.last_verified, { verified: true, signers: ['eu/sandbox-2026', 'us/sandbox-2026'] });
  t.match(timestamps?.clock, { trust: 'chrony', error_bound_ms: Number });
  t.match(partitions, { quorum: 2, members: [{ state: 'ready' }, { state: 'ready' }] });

  const [, us] = sandbox.partitions;
  if (!us) throw new Error('a partition is missing');
  const giveBack = takeToken(us);
  await until('it is red', async () => (await readyz()).status === 503);
  await until('for both reasons', async () => unready(await readyz()).join() === 'canary,partitions');
  giveBack();
  await until('it is green again by itself', async () => (await readyz()).status === 200);

  const client = await Client.connect(sandbox.url, apiKey);
  t.strictSame((await client.get('/v1/jobs')).json<{ jobs: unknown[] }>().jobs, [], 'no list shows a canary');
  const { job_id: jobId } = (await statusOf(sandbox)).canary.last_verified ?? {};
  t.equal((await client.get(`/v1/jobs/${jobId}`)).status, 404, 'nor may anybody see it');
  const shown = await sandbox.pdfseal([
    'jobs',
    'show',
    '--json',
    String(jobId),
    '--config',
    sandbox.configFile,
  ]);
  t.match(shown, { status: 0, stderr: '' }, 'but the administrator');
  t.equal(await daemon.stop(), 0);
  t.equal(daemon.stderr, '');
  const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  t.equal(check.status, 0, check.stdout + check.stderr);
});

t.test('metrics, drills and access to them', async (t) => {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], stamped: true });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const post = (path: string) => askAdmin(sandbox, path, 'POST');
  await until('the first canary', async () => (await askAdmin(sandbox, '/readyz')).status === 200);
  await until('the record of the start is sealed', async () => {
    const { log } = await statusOf(sandbox);
    const list = await sandbox.pdfseal(['audit', 'list', '--json', '--config', sandbox.configFile]);
    return log.tree_size > list.stdout.split('\n').filter((line) => line.includes('"number"')).length;
  });

  await t.test('metrics follow what happens', async (t) => {
    const answer = await askAdmin(sandbox, '/metrics');
    t.equal(answer.type, 'text/plain; version=0.0.4; charset=utf-8');
    const before = parseMetrics(answer.text);
    for (let n = 0; n < 3; n++)
      t.equal((await client.seal(TRAFFIC_DOCUMENT, { mode: 'blocking' })).status, 202);
    await client.get('/v1/jobs/job_0');
    const after = await metricsOf(sandbox);
    const change = (name: string, labels: Record<string, string> = {}) =>
      (sampleOf(after, name, labels) ?? 0) - (sampleOf(before, name, labels) ?? 0);
    t.strictSame(
      [
        change('pdfseal_jobs_accepted_total'),
        change('pdfseal_jobs_sealed_total'),
        change('pdfseal_seal_duration_seconds_count'),
        change('pdfseal_batch_jobs_sum'),
        change('pdfseal_log_leaves'),
        change('pdfseal_partition_signatures_total', { partition: 'us/sandbox-2026' }),
        change('pdfseal_authority_tokens_total', { authority: 'built-in' }),
        change('pdfseal_step_duration_seconds_count', { step: 'accept' }),
        change('pdfseal_step_duration_seconds_count', { step: 'stamp' }),
        change('pdfseal_http_request_duration_seconds_count', { route: '/v1/jobs/seal', status: '202' }),
        change('pdfseal_http_request_duration_seconds_count', { route: '/v1/jobs/:job_id', status: '404' }),
        change('pdfseal_canaries_total', { outcome: 'verified' }),
      ],
      // A blocking job is written with its receipt: accepting it is no step of its own.
      [3, 3, 3, 3, 3, 3, 3, 0, 3, 3, 1, 0],
    );
    t.equal(sampleOf(after, 'pdfseal_ready'), 1);
    t.equal(sampleOf(after, 'pdfseal_jobs', { phase: 'queued' }), 0);
    t.ok(
      (sampleOf(after, 'pdfseal_certificate_not_after_timestamp_seconds', { role: 'root' }) ?? 0) >
        Date.now() / 1000,
    );
    t.ok((sampleOf(after, 'pdfseal_store_bytes') ?? 0) > 0);
    t.ok((sampleOf(after, 'pdfseal_store_free_bytes') ?? 0) > 0);
    t.equal(sampleOf(after, 'pdfseal_store_oldest_reader_age_seconds'), 0);
    t.ok(
      after.some(({ name }) => name === 'nodejs_eventloop_lag_p99_seconds'),
      'the event loop is watched',
    );
    t.notMatch(answer.text, apiKey);
  });

  await t.test('a partition is taken out and put back, and no request fails', async (t) => {
    const traffic = new Traffic(client, ['blocking', 'blocking', 'async']);
    await until('there is load', () => traffic.answers.length >= 6);
    const out = await post('/partitions/us/out?for=10m');
    t.equal(out.status, 200, out.text);
    t.match(out.json(), { name: 'us/sandbox-2026', state: 'withdrawn', returns_at: String });
    const { signatures } = out.json<PresentedPartition>();
    t.match((await post('/canary')).json<PresentedRun>(), { verified: true, signers: ['eu/sandbox-2026'] });
    const audit = ['audit', 'list', '--act', 'drill', '--json', '--config', sandbox.configFile];
    const [begun = ''] = (await sandbox.pdfseal(audit)).stdout.split('\n');
    const actor = { via: 'administration', uid: process.geteuid?.(), pid: process.pid };
    t.match(JSON.parse(begun), { act: 'drill.begin', outcome: 'begun', actor });
    const outAt = Date.now();
    await until('sealing goes on', () => traffic.since(outAt, 'blocking').length >= 4);
    t.equal((await statusOf(sandbox)).partitions.members[1]?.signatures, signatures, 'without it');
    for (const [path, code] of [
      ['/partitions/us/out', 'partition_not_ready'],
      ['/partitions/eu/out', 'below_quorum'],
    ] as const) {
      const refused = await post(path);
      t.match([refused.status, refused.json<Envelope>().error.code], [409, code], path);
    }
    t.equal((await post('/partitions/us%2Fsandbox-2026/in')).status, 200);
    await until('it signs again', async () => {
      const run = (await post('/canary')).json<PresentedRun>();
      return run.verified && run.signers.includes('us/sandbox-2026');
    });
    t.equal((await post('/partitions/us/in')).status, 200, 'again: it is in already');
    await traffic.stop();
    t.strictSame(
      traffic.answers.filter((one) => !isServed(one)),
      [],
    );
  });

  await t.test('a partition that stays out too long returns by itself', async (t) => {
    t.equal((await post('/partitions/us/out?for=100ms')).status, 200);
    await until('it is back', async () => (await statusOf(sandbox)).partitions.members[1]?.state === 'ready');
    t.equal((await post('/partitions/us/out?for=100ms')).status, 200);
    t.equal(
      (await post('/partitions/eu/out?for=100ms&below_quorum=true')).status,
      200,
      'where that is wanted',
    );
    t.match((await post('/canary')).json(), { verified: false, detail: /Too few/ });
    await until('all are', async () => (await askAdmin(sandbox, '/readyz')).status === 200);
  });

  await t.test('an error is reported in the envelope', async (t) => {
    for (const [method, path, status, code] of [
      ['GET', '/', 404, 'not_found'],
      ['GET', '/v1/jobs', 404, 'not_found'],
      ['POST', '/readyz', 405, 'method_not_allowed'],
      ['POST', '/partitions/mars/out', 404, 'not_found'],
      ['POST', '/partitions/us/out?for=2h', 400, 'invalid_parameter'],
      ['POST', '/partitions/us/out?for=soon', 400, 'invalid_parameter'],
      ['POST', '/partitions/us/out?below_quorum=yes', 400, 'invalid_parameter'],
      ['POST', '/partitions/us/out?for=1s&for=2s', 400, 'duplicate_parameter'],
      ['POST', '/partitions/us/out?time=1s', 400, 'unknown_parameter'],
      ['POST', '/partitions/us/in?for=1s', 400, 'unknown_parameter'],
    ] as const) {
      const answer = await askAdmin(sandbox, path, method);
      t.match(
        [answer.status, answer.json<Envelope>().error.code, answer.json<Envelope>().request_id],
        [status, code, /^req_/],
        `${method} ${path}`,
      );
    }
    const { doc_url: docUrl } = (await askAdmin(sandbox, '/')).json<Envelope>().error;
    t.equal((await askAdmin(sandbox, docUrl)).status, 200, 'and explained');
  });

  await t.test('a waiting job is counted, but a canary is not', async (t) => {
    await post('/partitions/us/out?for=1m');
    await post('/partitions/eu/out?for=1m&below_quorum=true');
    const { id } = (await client.seal(TRAFFIC_DOCUMENT, { mode: 'async' })).json<JobBody>();
    await post('/canary');
    const metrics = await metricsOf(sandbox);
    t.equal(sampleOf(metrics, 'pdfseal_jobs', { phase: 'queued' }), 1);
    t.equal(sampleOf(metrics, 'pdfseal_part_ready', { part: 'partitions' }), 0);
    t.match((await statusOf(sandbox)).queue, { queued: 1, sealing: 0, oldest_age_seconds: Number });
    await post('/partitions/us/in');
    await until('it is sealed', async () => {
      return (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed';
    });
  });
});

t.test('without canaries, the daemon is ready if its parts are, and seals none', async (t) => {
  const sandbox = await openSandbox({ tables: { health: 'canary_interval = "off"' } });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const { ready, parts } = (await askAdmin(sandbox, '/readyz')).json<Readiness>();
  t.ok(ready);
  t.match(
    parts.find(({ name }) => name === 'canary'),
    { ready: true, detail: /health\.canary_interval is off/ },
  );
  t.strictSame((await statusOf(sandbox)).canary, { ready: true, detail: 'canaries run on request only' });
  t.match((await askAdmin(sandbox, '/canary', 'POST')).json(), { verified: true }, 'but when it is asked to');
});

t.test(
  'on a loopback address, all but health checks needs a key, and that address as the host',
  async (t) => {
    const port = await freePort();
    const sandbox = await openSandbox({ tables: { admin: `listen = "127.0.0.1:${port}"` } });
    t.teardown(() => sandbox.close());
    const clerk = await sandbox.issueKey();
    const monitor = await sandbox.issueKey('prometheus', 'acme', '--scopes', 'admin:read');
    const admin = await sandbox.issueKey('root', 'acme', '--scopes', 'admin');
    await sandbox.start();
    const at = { host: '127.0.0.1', port };
    const status = async (path: string, method: string, key?: string, more: Record<string, string> = {}) => {
      const headers = { ...more, ...(key !== undefined && { Authorization: `Bearer ${key}` }) };
      return (await askAdminAt(at, path, method, headers)).status;
    };
    t.equal(await status('/healthz', 'GET'), 200);
    await until('it is ready', async () => (await status('/readyz', 'GET')) === 200);
    t.same((await askAdminAt(at, '/readyz')).json(), { ready: true, parts: [] }, 'and no more');
    for (const path of ['/status', '/quotas', '/metrics']) {
      t.equal(await status(path, 'GET'), 401, path);
      t.equal(await status(path, 'GET', clerk), 403, path);
      t.equal(await status(path, 'GET', monitor), 200, path);
      t.equal(await status(path, 'GET', admin), 200, path);
    }
    t.equal(await status('/canary', 'POST'), 401);
    for (const key of [clerk, monitor]) t.equal(await status('/canary', 'POST', key), 403);
    t.equal(await status('/canary', 'POST', admin), 200);
    for (const Host of ['rebound.example.com', `rebound.example.com:${port}`, '192.0.2.1'])
      t.equal(await status('/healthz', 'GET', admin, { Host }), 400, Host);
    for (const Host of ['localhost', `127.0.0.1:${port}`, '[::1]'])
      t.equal(await status('/healthz', 'GET', undefined, { Host }), 200, Host);
    // Whoever may open the socket needs none of it: it is there all the same.
    t.match(await sandbox.pdfseal(['status', '--config', sandbox.configFile]), { status: 0 });
  },
);
