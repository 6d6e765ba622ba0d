/** The disk of the database is full: nothing more is accepted, everything can be read, and sealing goes on once there is space. */
import t from 'tap';
import { askAdmin } from '../support/admin.ts';
import { pdfOf } from '../support/app.ts';
import { type Answer, Client, type Envelope, type JobBody } from '../support/client.ts';
import { startPostgres } from '../support/postgres.ts';
import { SmallDisk } from '../support/smallDisk.ts';
import { until } from '../support/until.ts';
import { installFront, installOn, isProven } from './onDatabase.ts';

const MIB = 2 ** 20;
const ROUNDS = 2;
const FULL = '503 storage_full';

const codeOf = ({ status, json }: Pick<Answer, 'status' | 'json'>) =>
  status === 202 ? '202' : `${status} ${json<Envelope>().error.code}`;

const disk = new SmallDisk(160 * MIB);
t.teardown(() => disk.close());
// Only root may fill a file system to its last byte.
if (disk.isOwn) {
  t.test('a full disk of the database gives 503 storage_full, and ends no process', async (t) => {
    const postgres = await startPostgres(t, { dataOn: disk.dir });
    const allow = 'allow = ["https://*"]';
    const first = await installOn(t, postgres, { tables: { webhooks: allow } });
    const daemon = await first.start();
    const front = await installFront(t, postgres, first, 'front');
    const facing = await front.start();
    const apiKey = await first.issueKey();
    const clients = await Promise.all([first, front].map(({ url }) => Client.connect(url, apiKey)));
    const sealed = await Promise.all(
      clients.map((client) => client.seal(pdfOf('one'), { mode: 'blocking' })),
    );
    const ids = sealed.map((answer) => answer.json<JobBody>().id);

    const answers: string[][] = clients.map(() => []);
    const accepted: string[] = [];
    let isLoading = true;
    const posting = clients.map(async (client, n) => {
      for (let number = 0; isLoading; number++) {
        const answer = await client.seal(pdfOf(`${n} ${number}`), { mode: 'async' });
        answers[n]?.push(codeOf(answer));
        if (answer.status === 202) accepted.push(answer.json<JobBody>().id);
        else t.ok(Number(answer.headers.get('Retry-After')) > 0);
      }
    });
    const managerKey = await first.issueKey('manager', 'acme', '--scopes', 'webhooks:manage');
    const manager = await Client.connect(first.url, managerKey);
    const endpoint = { url: 'https://hooks.example.com/' };
    const headers = { 'Content-Type': 'application/json' };
    const acts = {
      'a new endpoint': () =>
        manager.request('POST', '/v1/webhook-endpoints', { headers, body: JSON.stringify(endpoint) }),
      'a rotation': () => manager.request('POST', '/v1/keys/rotate'),
    };
    const doctor = () => first.pdfseal(['doctor', '--config', first.configFile], { apart: true });
    const isReady = async (sandbox: typeof first) => (await askAdmin(sandbox, '/readyz')).status === 200;
    for (let round = 1; round <= ROUNDS; round++) {
      disk.fill(0);
      await until('both refuse', () => answers.every((each) => each.at(-1) === FULL));
      const waiting = clients[0]?.seal(pdfOf(`blocking ${round}`), { mode: 'blocking' });
      await until('both go on to refuse', () =>
        answers.every((each) => each.slice(-5).every((one) => one === FULL)),
      );
      for (const [n, sandbox] of [first, front].entries()) {
        const client = clients[n] as Client;
        for (const path of ['jobs', `jobs/${ids[n]}`, `jobs/${ids[n]}/receipt.json`, 'log/checkpoint'])
          t.equal((await client.get(`/v1/${path}`)).status, 200, `${path} is read`);
        t.equal((await askAdmin(sandbox, '/healthz')).status, 200);
        await until('it is not ready', async () => !(await isReady(sandbox)));
        t.match(
          (await askAdmin(sandbox, '/readyz')).text,
          /"store","ready":false,"detail":"the disk of the database is full"/,
        );
        t.match((await askAdmin(sandbox, '/status')).text, /"full":true/);
        t.match((await askAdmin(sandbox, '/metrics')).text, /^pdfseal_store_full 1$/m);
      }
      for (const [what, act] of Object.entries(acts)) {
        const answer = await act();
        t.equal(codeOf(answer), FULL, what);
        t.ok(Number(answer.headers.get('Retry-After')) > 0, what);
      }
      const out = await askAdmin(
        first,
        '/partitions/local%2Fsandbox-2026/out?for=60s&below_quorum=true',
        'POST',
      );
      t.equal(codeOf(out), FULL, 'a drill');
      t.match((await doctor()).stdout, /^✗ database disk: the disk of .* is full.*\n {4}→ free at least/m);
      disk.empty();
      await until('both accept', () => answers.every((each) => each.at(-1) === '202'));
      const answer = await waiting;
      t.ok(
        answer?.status === 200 || answer?.status === 202 || codeOf(answer as Answer) === FULL,
        'whoever waits has an answer',
      );
      await until('both are ready', async () => (await isReady(first)) && (await isReady(front)));
    }
    isLoading = false;
    await Promise.all(posting);
    t.strictSame(new Set(answers.flat()), new Set(['202', FULL]), 'there is no other answer');
    for (const id of accepted.slice(-50)) t.ok(await isProven(clients[0] as Client, first, id), id);
    for (const { log } of [daemon, facing]) {
      t.notOk(log.some(({ level }) => level === 'fatal'));
      const said = (event: string) => log.filter((line) => line.event === event).length;
      t.ok(said('database_full') >= ROUNDS);
      t.equal(said('database_full'), said('database_has_space'), 'each time, once');
    }
    t.equal(await front.daemon?.stop(), 0);
    t.equal(await daemon.stop(), 0);
    t.match(await first.pdfseal(['check', '--config', first.configFile]), { status: 0, stdout: /good/ });
  });
}
