import { spawn } from 'node:child_process';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { acquireLock } from '../../src/base/lock.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { askAdmin, askAdminAt } from '../support/admin.ts';
import { Client, type Envelope, type JobBody, problemOf } from '../support/client.ts';
import { Daemon, ENVIRONMENT } from '../support/daemon.ts';
import { freePort } from '../support/freePort.ts';
import { programFile } from '../support/programs.ts';
import { DAEMON_FLAGS, openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { destroyKey } from '../support/tamper.ts';
import { until } from '../support/until.ts';
import { slowUpload } from '../support/wire.ts';

const DOCUMENT = Buffer.from('%PDF-1.7\na small document\n%%EOF\n');

async function openHouse(t: Test, options: SandboxOptions = {}) {
  const sandbox = await openSandbox({ code: 'dist', ...options });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  return { sandbox, apiKey };
}

t.test(
  'SIGTERM under load completes accepted work, refuses the rest as such, and loses nothing',
  async (t) => {
    const { sandbox, apiKey } = await openHouse(t);
    const daemon = await sandbox.start();
    const client = await Client.connect(sandbox.url, apiKey);
    const accepted: string[] = [];
    let refused = 0;
    const post = async (n: number) => {
      for (;;) {
        const answer = await client
          .seal(DOCUMENT, { mode: n % 2 === 0 ? 'async' : 'blocking' })
          .catch(() => undefined);
        if (!answer) return;
        if (answer.status === 202) accepted.push(answer.json<JobBody>().id);
        else if (answer.json<Envelope>().error.code === 'shutting_down') refused++;
        else t.fail(`${answer.status}: ${answer.text}`);
      }
    };
    const posting = Array.from({ length: 8 }, (_, n) => post(n));
    await until('there is load', () => accepted.length >= 50);
    t.equal(await daemon.stop(), 0);
    await Promise.all(posting);
    t.comment(`${accepted.length} accepted, ${refused} refused`);
    const fields = new Set(daemon.log.flatMap((entry) => Object.keys(entry)));
    t.ok(fields.has('partition') && fields.has('request_id'), 'partitions and requests are logged');
    t.strictSame(
      [...fields].filter((name) => !/^[a-z_]+$/.test(name)),
      [],
      'every field is in snake_case',
    );

    await sandbox.start();
    for (const id of accepted) {
      const job = (await client.get(`/v1/jobs/${id}`)).json<JobBody>();
      t.match(job.phase, /^(sealing|completed)$/, id);
    }
  },
);

t.test('a stop waits for an upload under way, up to the drain time-out', async (t) => {
  for (const drainSeconds of [60, 1]) {
    const { sandbox, apiKey } = await openHouse(t, { head: `drain_timeout = "${drainSeconds}s"` });
    const daemon = await sandbox.start();
    const upload = await slowUpload(await Client.connect(sandbox.url, apiKey), DOCUMENT);
    const startedAt = performance.now();
    const stopped = daemon.stop();
    if (drainSeconds === 60) {
      await until('it stops', () => daemon.log.some(({ event }) => event === 'stopping'));
      t.equal((await upload.finish()).status, 202);
    }
    t.equal(await stopped, 0);
    if (drainSeconds === 1) t.ok(performance.now() - startedAt >= 1000, 'it was waited for');
    upload.abandon();
  }
});

t.test('a second daemon on the same state folder is refused, and the first goes on', async (t) => {
  const { sandbox, apiKey } = await openHouse(t);
  await sandbox.start();
  const second = await sandbox.pdfseald();
  t.equal(second.status, 1);
  t.match(second.stderr, /another pdfseald \(process \d+\) is using this state folder/);
  const client = await Client.connect(sandbox.url, apiKey);
  t.equal((await client.seal(DOCUMENT, { mode: 'blocking' })).status, 202);
});

t.test(
  'a daemon that waits for its state folder names the holder, and a signal ends it at once',
  async (t) => {
    const { sandbox } = await openHouse(t);
    using _lock = acquireLock(join(sandbox.dir, 'state', 'lock'));
    const started = t.rejects(sandbox.start(), /pdfseald ended with 0/);
    const waits = () => sandbox.daemon?.log.filter(({ event }) => event === 'waiting') ?? [];
    await until('it waits', () => waits().length > 0);
    t.match(waits(), [{ holder: `${process.pid}`, msg: new RegExp(`waits for process ${process.pid}\\b`) }]);
    t.equal(await sandbox.daemon?.stop(), 0, 'and not with 1, as after the wait');
    await started;
    t.equal(sandbox.daemon?.stderr, '');
    t.strictSame(
      sandbox.daemon?.log.map(({ event }) => event),
      ['waiting', 'stopped'],
    );
  },
);

t.test('a lost key, a changed key and a missing store are refused with an explanation', async (t) => {
  const [{ sandbox }, other] = [await openHouse(t), await openHouse(t)];
  const store = join(sandbox.dir, 'state', 'store');
  const away = join(sandbox.dir, 'away');
  renameSync(store, away);
  const missing = await sandbox.pdfseald();
  t.equal(missing.status, 1);
  t.match(missing.stderr, /there is no store .* `pdfseal init`/);

  renameSync(join(other.sandbox.dir, 'state', 'store'), store);
  const changed = await sandbox.pdfseald();
  t.equal(changed.status, 1);
  t.match(changed.stderr, /another ed25519 key than the log knows/);
  rmSync(store, { recursive: true });
  renameSync(away, store);

  const [partition] = sandbox.partitions;
  if (!partition) throw new Error('the sandbox has no partition');
  destroyKey(partition);
  const lost = await sandbox.pdfseald();
  t.equal(lost.status, 1);
  t.match(lost.stderr, /sandbox-2026/);

  for (const { stderr } of [missing, changed, lost]) {
    t.match(stderr, /^pdfseald: .*\n$/s, 'one message');
    t.notMatch(stderr, /\n\s+at /, 'without a stack');
    t.notOk(stderr.includes(readFileSync(partition.pinFile, 'utf8').trim()), 'without the PIN');
  }
});

t.test('a daemon whose lock file is removed keeps its folder to itself', async (t) => {
  const { sandbox, apiKey } = await openHouse(t);
  await sandbox.start();
  const lock = join(sandbox.dir, 'state', 'lock');
  rmSync(lock);
  await until(
    'it is made and locked again',
    async () => existsSync(lock) && readFileSync(lock, 'utf8') !== '',
  );
  const second = await sandbox.pdfseald();
  t.match(second, { status: 1, stderr: /another pdfseald \(process \d+\) is using this state folder/ });
  const client = await Client.connect(sandbox.url, apiKey);
  t.equal((await client.seal(DOCUMENT, { mode: 'blocking' })).status, 202, 'the first one seals on');
});

/** A second daemon on the state folder of a sandbox, with addresses of its own. */
async function startSecond(t: Test, sandbox: Sandbox) {
  const [port, configFile] = [await freePort(), join(sandbox.dir, 'second.toml')];
  const socketPath = join(sandbox.dir, 'second.sock');
  const text = readFileSync(sandbox.configFile, 'utf8')
    .replace(`127.0.0.1:${sandbox.port}`, `127.0.0.1:${port}`)
    .replace('[admin]', `[admin]\nlisten = "unix:${socketPath}"`);
  writeFileSync(configFile, text);
  const args = [...DAEMON_FLAGS, await programFile('main', 'src'), '--config', configFile];
  const daemon = new Daemon(spawn(process.execPath, args, { env: ENVIRONMENT }), port);
  t.teardown(() => daemon.kill());
  await daemon.listening;
  return { daemon, configFile, url: `http://127.0.0.1:${port}`, admin: { socketPath } };
}

t.test(
  'if two daemons open one folder, the later one has it, and nothing is lost or counted twice',
  async (t) => {
    const sandbox = await openSandbox({
      tables: { kms: 'sign_timeout = "2s"' },
      tail: '[quotas.default]\njobs = 1000\nwindow = "366d"\n',
    });
    t.teardown(() => sandbox.close());
    const apiKey = await sandbox.issueKey();
    const first = await sandbox.start();
    const client = await Client.connect(sandbox.url, apiKey);
    const ids: string[] = [];
    const seal = async (by: Client) => {
      const answer = await by.seal(DOCUMENT, { mode: 'async' });
      if (answer.status === 202) ids.push(answer.json<JobBody>().id);
      return answer;
    };
    const phases = (by: Client) =>
      Promise.all(ids.map(async (id) => (await by.get(`/v1/jobs/${id}`)).json<JobBody>().phase));
    const allSealed = async (by: Client) => (await phases(by)).every((phase) => phase === 'completed');
    for (let n = 0; n < 3; n++) t.equal((await seal(client)).status, 202);
    await until('all is sealed, the record of the start too', async () => {
      const { canary, audit } = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
      return canary.newest !== undefined && audit.unsealed === 0 && (await allSealed(client));
    });

    // It does not see that its lock file is gone, but its signers have the keys.
    process.kill(first.pid, 'SIGSTOP');
    rmSync(join(sandbox.dir, 'state', 'lock'));
    const { daemon, configFile, url, admin } = await startSecond(t, sandbox);
    const other = await Client.connect(url, apiKey);
    t.equal(problemOf(await seal(other)), '503 kms_partition_unavailable', 'it accepts no job');
    const ready = await askAdminAt(admin, '/readyz');
    t.equal(ready.status, 503);
    t.match(ready.text, /sandbox-2026 is unavailable \(signer_twice\)/);
    const doctor = await sandbox.pdfseal(['doctor', '--config', configFile]);
    t.match(doctor, { status: 1, stdout: /signer_twice[\s\S]*another daemon signs with these keys/ });

    const late = t.rejects(client.seal(DOCUMENT, { mode: 'async' }), 'it answers nobody any more');
    process.kill(first.pid, 'SIGCONT');
    t.equal(await first.ended(), 70);
    await late;

    await until('the other one signs', async () => (await askAdminAt(admin, '/readyz')).status === 200);
    for (let n = 0; n < 2; n++) t.equal((await seal(other)).status, 202);
    await until('all is sealed', () => allSealed(other));
    t.equal(await daemon.stop(), 0);
    const store = await openStore({ path: join(sandbox.dir, 'state', 'store'), readOnly: true });
    t.teardown(() => store.close());
    t.match(await store.jobs.quotaCounts(), [{ jobs: ids.length }]);
    t.equal(ids.length, 5);
  },
);
