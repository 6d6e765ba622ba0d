import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { Client, type Envelope, type JobBody } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const DOCUMENT = Buffer.from('%PDF-1.7\na small document\n%%EOF\n');

const sandbox = await openSandbox({
  tail: '[quotas.default]\njobs = 100000\nwindow = "366d"\n',
});
t.teardown(() => sandbox.close());
const apiKey = await sandbox.issueKey();
let daemon = await sandbox.start();
const client = await Client.connect(sandbox.url, apiKey);

/** What the daemon says was taken of the quota. */
async function taken(): Promise<number> {
  const { headers } = await client.seal(Buffer.from('no PDF'));
  const [, quota] = /"purpose";q=(\d+)/.exec(headers.get('RateLimit-Policy') ?? '') ?? [];
  const [, left] = /"purpose";r=(\d+)/.exec(headers.get('RateLimit') ?? '') ?? [];
  return Number(quota) - Number(left);
}

async function jobCount(): Promise<number> {
  let count = 0;
  for (let cursor = ''; ; ) {
    const page = await client.get(`/v1/jobs?limit=100${cursor}`);
    const { jobs, next_cursor } = page.json<{ jobs: JobBody[]; next_cursor?: string }>();
    count += jobs.length;
    if (next_cursor === undefined) return count;
    cursor = `&cursor=${next_cursor}`;
  }
}

t.test('a daemon that is killed under load and stopped has counted each job once', async (t) => {
  for (let kill = 0; kill < 3; kill++) {
    let answers = 0;
    const post = async (n: number) => {
      for (let i = 0; ; i++) {
        const key = { 'Idempotency-Key': `create-${kill}-${n}-${i >> 1}` };
        const answer = await client.seal(DOCUMENT, {}, key).catch(() => undefined);
        if (!answer) return;
        t.equal(answer.status, 202);
        answers += 1;
      }
    };
    const posting = Array.from({ length: 6 }, (_, n) => post(n));
    await until('there is load', () => answers >= 30);
    await sandbox.kill();
    await Promise.all(posting);
    daemon = await sandbox.start();
    const jobs = await jobCount();
    t.ok(jobs >= 15 * (kill + 1), `${jobs} jobs`);
    t.equal(await taken(), jobs, 'after a kill');
  }
  const before = await taken();
  await restart();
  t.equal(await taken(), before, 'after a stop');
});

t.test('SIGHUP changes limits under load without failing a request', async (t) => {
  await restart();
  const used = await taken();
  const text = readFileSync(sandbox.configFile, 'utf8');
  const refusals: string[] = [];
  let accepted = 0;
  let loading = true;
  const post = async () => {
    while (loading) {
      const answer = await client.seal(DOCUMENT);
      if (answer.status === 202) accepted += 1;
      else {
        const { code } = answer.json<Envelope>().error;
        if (code !== 'quota_exceeded' || Number(answer.headers.get('Retry-After')) < 1) t.fail(answer.text);
        refusals.push(code);
      }
    }
  };
  const posting = Array.from({ length: 4 }, post);
  await until('there is load', () => accepted >= 20);

  for (const jobs of [used + 100, used + 200]) {
    await reload(text.replace('jobs = 100000', `jobs = ${jobs}`), {
      keys: ['quotas.default.jobs'],
    });
    const before = refusals.length;
    await until('the quota is used up', () => refusals.length > before + 20);
    t.equal(used + accepted, jobs, 'exactly as many as there may be');
  }
  await reload(text, { keys: ['quotas.default.jobs'] });
  await until('there is load again', () => accepted >= 250);
  loading = false;
  await Promise.all(posting);

  await reload(`${text}[quota.default]\n`, { reason: /quota: unknown key/ });
  t.equal((await client.seal(DOCUMENT)).status, 202, 'the file before stays');
  await reload(text.replace('[limits]', '[limits]\nrate.requests = 1'), {
    keys: ['limits.rate.requests'],
  });
  t.equal((await client.seal(DOCUMENT)).status, 202);
  const refused = await client.seal(DOCUMENT);
  t.equal(refused.json<Envelope>().error.code, 'rate_limit_exceeded');
  t.match(refused.headers.get('RateLimit'), /^"client";r=0;t=\d+, "purpose";r=\d+;t=\d+;pk=:/);

  await reload(text.replace('[blocking]', '[blocking]\ntimeout = "9s"'), {
    keys: ['blocking.timeout'],
  });
  const hasWarned = () => daemon.log.some(({ event }) => event === 'queue_exceeds_memory');
  t.notOk(hasWarned());
  const queue = (jobsMax: number) =>
    reload(text.replace('[limits]', `[limits]\nqueue_jobs_max = ${jobsMax}`), {
      keys: ['limits.queue_jobs_max'],
    });
  await queue(10_000_000);
  await until('it warns of a queue that it could not hold', hasWarned);
  await queue(1);
  await reload(text.replace('[logging]', '[logging]\nlevel = "error"'));
  // The line of the refused file is written in any case, after whatever the request before it left.
  await until('requests are no longer logged', async () => {
    const from = daemon.log.length;
    t.equal((await client.seal(DOCUMENT)).status, 202);
    await reload('nonsense', { reason: /not TOML/ });
    return !daemon.log.slice(from).some(({ msg }) => msg === 'request');
  });
});

async function restart(): Promise<void> {
  await daemon.stop();
  daemon = await sandbox.start();
}

/** Changes the file, tells the daemon, and waits for the line it logs of it, if one is given. */
async function reload(text: string, ...expected: object[]): Promise<void> {
  writeFileSync(sandbox.configFile, text);
  const from = daemon.log.length;
  daemon.child.kill('SIGHUP');
  for (const line of expected) {
    await until(`it logs ${JSON.stringify(line)}`, () =>
      daemon.log.slice(from).some((entry) => isLike(entry, line)),
    );
  }
}

function isLike(entry: Record<string, unknown>, line: object): boolean {
  return Object.entries(line).every(([name, value]) =>
    value instanceof RegExp
      ? value.test(String(entry[name]))
      : JSON.stringify(entry[name]) === JSON.stringify(value),
  );
}
