/** A date that jumps, under a real daemon: what waits goes on waiting, and what is kept is kept. */
import t from 'tap';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { askAdmin } from '../support/admin.ts';
import { Client, type Envelope, type JobBody, TRAFFIC_DOCUMENT } from '../support/client.ts';
import { FakeTime, makeChronyc, SYNCHRONIZED, UNSYNCHRONIZED } from '../support/clocks.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const HOUR_MS = 3_600_000;

t.test('jobs wait for a trusted clock, and are sealed after the date jumped by days', async (t) => {
  const chronyc = makeChronyc(t);
  chronyc.say(UNSYNCHRONIZED);
  const sandbox = await openSandbox({ stamped: true, clock: `program = "${chronyc.program}"` });
  t.teardown(() => sandbox.close());
  const expiring = await sandbox.issueKey('a', 'acme', '--validity', '20h');
  const apiKey = await sandbox.issueKey('a');
  const time = new FakeTime(sandbox.dir);
  time.reachSigners(sandbox.configFile);
  let daemon = await sandbox.start({ env: time.env });
  const client = await Client.connect(sandbox.url, apiKey);
  const shortLived = await Client.connect(sandbox.url, expiring);
  const job = async (id: string) => (await client.get(`/v1/jobs/${id}`)).json<JobBody>();
  const create = (key: string) =>
    shortLived.seal(TRAFFIC_DOCUMENT, { mode: 'async' }, { 'Idempotency-Key': key });
  const first = await create('before-the-jump');
  t.equal(first.status, 202, first.text);
  const { id } = first.json<JobBody>();

  const destroying = ['hsm', 'destroy-key', 'local/old', '--confirm', 'old', '--config', sandbox.configFile];
  t.match(await sandbox.pdfseal(destroying), {
    status: 1,
    stderr: /clock is not trusted .*nothing was destroyed/,
  });

  for (const [jump, hours] of [26, 49, -9000, 26].entries()) {
    time.jump(hours);
    const later = await create(`jump-number-${jump}`);
    t.equal(later.status, 202, `a key that ends in 20 hours is good: ${later.text}`);
    const { id: laterId } = later.json<JobBody>();
    const { created_at: createdAt } = await job(laterId);
    t.ok(Math.abs(Date.parse(createdAt) - Date.now() - hours * HOUR_MS) < HOUR_MS, `it is ${createdAt}`);
    t.match((await job(id)).phase, /^(queued|sealing)$/, 'and what waits goes on waiting');
    const repeat = await create('before-the-jump');
    t.match([repeat.headers.get('Idempotent-Replayed'), repeat.json<JobBody>().id], ['true', id]);
    const { queue } = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
    t.ok(queue.oldest_age_seconds < 3600, `for ${queue.oldest_age_seconds} s`);
    if (hours === 49) {
      t.equal(await daemon.stop(), 0);
      daemon = await sandbox.start({ env: time.env });
    }
  }

  chronyc.say(SYNCHRONIZED);
  await until('what waited is sealed', async () => (await job(id)).phase === 'completed');
  await until('all of it', async () => {
    const { queue } = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
    return queue.queued + queue.sealing === 0;
  });
  const { jobs } = (await client.get('/v1/jobs')).json<{ jobs: JobBody[] }>();
  t.strictSame([jobs.length, new Set(jobs.map(({ phase }) => phase))], [5, new Set(['completed'])]);
  t.equal((await create('the-date-is-certain')).status, 401, 'and now the key has ended');
  t.equal(await daemon.stop(), 0);
  t.equal(daemon.stderr, '');
});

t.test(
  'after a stop of days, a clock that nobody vouches for is trusted once an administrator accepts its date',
  async (t) => {
    const sandbox = await openSandbox({ stamped: true });
    t.teardown(() => sandbox.close());
    const apiKey = await sandbox.issueKey('a');
    const time = new FakeTime(sandbox.dir);
    time.reachSigners(sandbox.configFile);
    const daemon = await sandbox.start({ env: time.env });
    const client = await Client.connect(sandbox.url, apiKey);
    const seal = () => client.seal(TRAFFIC_DOCUMENT, { mode: 'blocking' });
    t.equal((await seal()).status, 202);
    t.equal(await daemon.stop(), 0);
    time.jump(7 * 24);
    await sandbox.start({ env: time.env });
    const refused = await seal();
    t.match([refused.status, refused.json<Envelope>().error.code], [503, 'timestamp_unavailable']);
    t.match(await sandbox.pdfseal(['doctor', '--config', sandbox.configFile]), {
      stdout: /clock_ahead(.|\n)*run `pdfseal clock accept`/,
    });
    const accept = ['clock', 'accept', '--config', sandbox.configFile];
    t.match(await sandbox.pdfseal(accept), { status: 0, stdout: /^the clock is trusted: it is / });
    t.match(await sandbox.pdfseal(accept), { status: 1, stderr: /nothing to accept/ });
    const sealed = await seal();
    t.equal(sealed.status, 202, sealed.text);
    const { stdout } = await sandbox.pdfseal([
      'audit',
      'list',
      '--act',
      'clock.accept',
      '--config',
      sandbox.configFile,
    ]);
    t.match(stdout, /clock\.accept.*from=.*to=/);
  },
);
