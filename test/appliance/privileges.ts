import type { Test } from 'tap';
import { ENVIRONMENTS, type Installation, PORTS, until } from './installation.ts';

/** Of curl. */
const CANNOT_CONNECT = 7;

/** What nobody may do on a machine where both environments run, and what members of the groups may. */
export async function tryPrivileges(t: Test, site: Installation): Promise<void> {
  const { machine } = site;
  const pids = (user: string) => machine.must(`ps -o pid= -u ${user}`).split('\n').map(Number);

  await t.test('no signal opens an inspector', async (t) => {
    const watch = machine.start('pdfseal-run production status --watch 1s --json');
    await until('an administrator watches', () => machine.run('pgrep -f status.--watch').status === 0);
    const listeners = () => machine.must('cat /proc/net/tcp /proc/net/tcp6 | grep -c " 0A "');
    const before = listeners();
    const users = [
      ...ENVIRONMENTS.map((environment) => `pdfseal-${environment}`),
      'pdfsign-production-local',
    ];
    const processes = () => users.flatMap(pids);
    await until('there are two daemons, their signers, and pdfseal', () => processes().length >= 8);
    const all = processes();
    for (const pid of all) machine.must(`kill -USR1 ${pid} && sleep 0.5`);
    t.equal(listeners(), before);
    for (const pid of all) machine.must(`kill -0 ${pid}`);
    machine.must('pkill -f status.--watch');
    await until('nobody watches any more', () => machine.run('pgrep -f status.--watch').status !== 0);
    watch.kill();
  });

  await t.test('no core is written, and nothing is swapped', async (t) => {
    for (const pid of pids('pdfseal-production'))
      t.match(machine.must(`cat /proc/${pid}/limits`), /^Max core file size +1 +1 /m);
    t.equal(site.show('production', 'MemorySwapMax'), '0');
  });

  await t.test('no service can put a link where root goes', async (t) => {
    for (const folder of [
      '/var/lib/pdfseal',
      '/var/backups/pdfseal',
      '/run/pdfseal',
      '/run/pdfseal-api',
      '/etc/pdfseal',
    ]) {
      t.not(machine.run(`${site.as('sandbox')} ln -s /etc ${folder}/link`).status, 0, folder);
      t.match(machine.must(`stat -c %U ${folder}`), 'root');
    }
    machine.must('ln -s /etc /run/pdfseal/elsewhere && touch /etc/pdfseal/elsewhere.toml');
    machine.must('systemctl start pdfseald-environment@elsewhere');
    t.equal(machine.must('stat -c %U /etc'), 'root', 'and an old one is not followed');
    machine.must('rm -r /etc/pdfseal/elsewhere.* /run/pdfseal*/elsewhere');
  });

  await t.test('the groups open the sockets, each its own', async (t) => {
    machine.must('useradd -G pdfseal-api erp; useradd -G pdfseal-admin ops; useradd other');
    const asked = (user: string, socket: string, path: string, options = '') =>
      machine.run(
        `runuser -u ${user} -- curl -s -o /dev/null -w '%{http_code}' ${options} --unix-socket ${socket} http://localhost${path}`,
      ).stdout;
    const [api, admin] = ['/run/pdfseal-api/sandbox/seal.sock', '/run/pdfseal/sandbox/admin.sock'];
    const connects = (user: string) =>
      machine.run(
        `runuser -u ${user} -- curl -s --max-time 9 --unix-socket /run/pdfseal-clock.sock http://localhost/`,
      ).status !== CANNOT_CONNECT;
    t.notOk(connects('other'), 'the clock is for environments');
    t.ok(connects('pdfseal-sandbox'));
    const allowed = Object.fromEntries(
      ['erp', 'ops', 'other'].map((user) => [
        user,
        [asked(user, api, '/v1/openapi.json'), asked(user, admin, '/status')],
      ]),
    );
    t.strictSame(allowed, { erp: ['200', '000'], ops: ['000', '200'], other: ['000', '000'] });
    t.equal(asked('ops', admin, '/canary', '-X POST'), '401', 'who changes something has a name');
    const key = site.admin('sandbox', 'keys issue --client ops --organization acme --scopes admin');
    t.equal(asked('ops', admin, '/canary', `-X POST -H 'Authorization: Bearer ${key}'`), '200');
    t.equal(asked('root', admin, '/canary', '-X POST'), '200');
    machine.must('pdfseal-run sandbox hsm drill --partition local --below-quorum --for 1s');
    const uid = machine.must('id -u pdfseal-sandbox');
    t.match(site.admin('sandbox', 'audit list --act drill.begin'), `administration uid ${uid}`);
  });

  await t.test('pdfseal-run says what is missing', async (t) => {
    const { status, stderr } = machine.run('pdfseal-run sandbx doctor');
    t.equal(status, 64);
    t.match(
      stderr,
      /no environment "sandbx": \/etc\/pdfseal\/sandbx\.toml is missing; there are: production sandbox/,
    );
    t.match(machine.run(`pdfseal-run ${'x'.repeat(24)} doctor`), {
      status: 64,
      stderr: /at most 23 characters/,
    });
    t.match(machine.run(`${site.as('sandbox')} pdfseal-run sandbox doctor`), {
      status: 64,
      stderr: /only root can run a command/,
    });
    machine.must('mv /etc/pdfseal/sandbox.pins /etc/pdfseal/sandbox.away');
    const lost = machine.run('pdfseal-run sandbox hsm list');
    t.not(lost.status, 0);
    t.match(lost.stderr, /pin_local/, 'which credential');
    machine.must('rmdir /etc/pdfseal/sandbox.pins && mv /etc/pdfseal/sandbox.away /etc/pdfseal/sandbox.pins');
  });

  await t.test('a reload that is refused fails', async (t) => {
    const config = '/etc/pdfseal/sandbox.toml';
    const pid = site.show('sandbox', 'MainPID');
    machine.must(`cp ${config} /srv/good.toml && echo 'nonsense = 1' >>${config}`);
    t.not(machine.run('systemctl reload pdfseald@sandbox').status, 0);
    machine.must(`cat /srv/good.toml >${config} && systemctl reload pdfseald@sandbox`);
    t.equal(site.show('sandbox', 'MainPID'), pid);
    await site.sealed('sandbox', 1);
  });

  await t.test('no flood of theirs reaches the journal of the machine', async (t) => {
    machine.must(`curl -s -o /dev/null http://127.0.0.1:${PORTS.production}/v1/jobs/job_[1-500]`);
    const journal = (namespace: string) =>
      machine.run(`journalctl ${namespace} --output=cat _SYSTEMD_UNIT=pdfseald@production.service`).stdout;
    t.match(journal('--namespace=pdfseald'), /status=401/);
    t.equal(journal(''), '');
    t.match(
      machine.must('journalctl --namespace=+pdfseald -u pdfseald@production'),
      /Started.*PDF sealing service pdfseald/,
    );
    t.match(
      machine.must('systemctl status --no-pager -n 5 pdfseald@production || true'),
      /request request_id=/,
    );
  });
}
