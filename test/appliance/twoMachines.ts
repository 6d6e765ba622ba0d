/**
 * One log, two machines that are really booted, and a third with Debian's PostgreSQL, each in a network of its own. They are set up as the
 * manual says. One is switched off under load, and nothing that it answered is lost.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { issueCertificate, makeAuthority } from '../support/certificates.ts';
import { bundle, Installation, PORTS, ROOT, until } from './installation.ts';
import { Machine } from './machine.ts';

const PASSWORD = 'of the daemon that seals';
/** Of the machine with the database, as each of the others has it. */
const DATABASE = (node: number) => `10.99.${node}.1`;
const CONFIG = '/etc/pdfseal/production.toml';

/** A network of its own, which is there as long as a process in it. */
async function openNetwork(): Promise<number> {
  const child: ChildProcess = spawn(
    'unshare',
    ['--net', 'sh', '-c', 'ip link set lo up; echo; exec sleep infinity'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  t.teardown(() => child.kill('SIGKILL'));
  if (child.stdout !== null) await once(child.stdout, 'data');
  return child.pid ?? -1;
}

function inNetwork(pid: number, ...line: string[]): void {
  execFileSync('nsenter', [`--target=${pid}`, '--net', ...line]);
}

/** A cable from the machine with the database to one of the others. */
function connect(database: number, node: number, pid: number): void {
  const cable = `node${node}`;
  inNetwork(
    database,
    'ip',
    'link',
    'add',
    cable,
    'type',
    'veth',
    'peer',
    'name',
    'eth0',
    'netns',
    String(pid),
  );
  inNetwork(database, 'ip', 'address', 'add', `${DATABASE(node)}/24`, 'dev', cable);
  inNetwork(database, 'ip', 'link', 'set', cable, 'up');
  inNetwork(pid, 'ip', 'address', 'add', `10.99.${node}.2/24`, 'dev', 'eth0');
  inNetwork(pid, 'ip', 'link', 'set', 'eth0', 'up');
}

const dir = mkdtempSync(join(tmpdir(), 'pdfseald-machines-'));
// What an HSM in the network would be: both machines use its keys.
const tokens = mkdtempSync('/var/tmp/pdfseal-tokens-');
chmodSync(tokens, 0o755);
t.teardown(() => {
  for (const folder of [dir, tokens]) rmSync(folder, { recursive: true, force: true });
});

const networks = [await openNetwork(), await openNetwork(), await openNetwork()] as const;
const [ofDatabase, ...ofNodes] = networks;
for (const [n, pid] of ofNodes.entries()) connect(ofDatabase, n + 1, pid);
const network = (pid: number) => `/proc/${pid}/ns/net`;
const database = await Machine.boot({
  name: 'database',
  network: network(ofDatabase),
  packages: ['postgresql'],
});
t.teardown(() => database.close());
const boot = async (n: number) => {
  const site = await Installation.boot({
    name: `seal${n}`,
    network: network(networks[n] ?? -1),
    shared: [`${tokens}:/var/lib/softhsm-pdfseal`],
  });
  t.teardown(() => site.machine.close());
  return site;
};
const [first, second] = [await boot(1), await boot(2)];
const status = (site: Installation) => site.show('production', 'StatusText');

t.test('a server in the network, with TLS and a password', async (t) => {
  const authority = makeAuthority(dir, 'databases');
  const names = [1, 2].map((node) => `IP:${DATABASE(node)}`).join();
  const server = issueCertificate(dir, 'server', authority, 30, 'ecdsa', names);
  const home = database.must('ls -d /etc/postgresql/*/main');
  copyFileSync(server.certificateFile, join(database.root, home, 'server.pem'));
  copyFileSync(server.keyFile, join(database.root, home, 'server.key'));
  database.must(`cd ${home} && chown postgres: server.pem server.key && chmod 0600 server.key
    cat >conf.d/tests.conf <<'END'
listen_addresses = '*'
ssl = on
ssl_cert_file = '${home}/server.pem'
ssl_key_file = '${home}/server.key'
END
    echo 'hostssl pdfseal_production pdfseal-production 10.99.0.0/16 scram-sha-256' >>pg_hba.conf
    systemctl restart postgresql
    runuser -u postgres -- psql --command="CREATE ROLE \\"pdfseal-production\\" LOGIN PASSWORD '${PASSWORD}'"
    runuser -u postgres -- createdb --owner=pdfseal-production --encoding=UTF8 --template=template0 pdfseal_production`);
  const file = bundle('package', ['--version', '1.0.0']);
  for (const site of [first, second]) {
    const { status, stderr } = site.install(file);
    t.equal(status, 0, stderr);
    copyFileSync(authority.certificateFile, join(site.machine.root, 'etc/pdfseal/db-ca.pem'));
  }
});

t.test('the first machine makes the log in the database, and seals', async (t) => {
  const store = [
    'engine = "postgresql"',
    `url = "postgresql://pdfseal-production@${DATABASE(1)}/pdfseal_production?sslmode=verify-full&sslrootcert=/etc/pdfseal/db-ca.pem"`,
    'password_file = "/etc/pdfseal/production.database-password"',
  ];
  const script = readFileSync(join(ROOT, 'test/appliance/environment.sh'), 'utf8').replace(
    /^pdfseal-run .* init/m,
    `cat >>/etc/pdfseal/$name.toml <<'END'

[store]
${store.join('\n')}
END
printf '[Service]\\nIPAddressAllow=${DATABASE(1)}\\n' >"$dropin/database.conf"
printf '${PASSWORD}' >"/etc/pdfseal/$name.database-password"
chown "$user:" "/etc/pdfseal/$name.database-password" && chmod 0400 "/etc/pdfseal/$name.database-password"
systemctl daemon-reload
$&`,
  );
  first.make('production', script);
  const { status: broken, found } = first.diagnose('production');
  t.equal(broken, 1, 'the daemon does not run yet');
  t.ok(found.includes('daemon'));
  t.notOk(
    found.some((name) => /database|store/i.test(name)),
    found.join(),
  );
  first.machine.must('systemctl enable --now pdfseald@production.service pdfseald.target');
  await first.load('production');
  t.match(status(first), /jobs wait/);
});

t.test('the second one waits', async (t) => {
  const [from, to] = [first, second].map(
    ({ machine }) =>
      (path: string) =>
        join(machine.root, path),
  );
  if (!from || !to) throw new Error('there are two');
  for (const path of [
    'etc/pdfseal/production.toml',
    'etc/pdfseal/production-softhsm.conf',
    'etc/pdfseal/production.pins',
    'etc/pdfseal/production.database-password',
    'etc/systemd/system/pdfseald@production.service.d',
    'srv/load.sh',
    'srv/verify.mjs',
  ])
    cpSync(from(path), to(path), { recursive: true });
  second.machine.must(`sed -i s/${DATABASE(1)}/${DATABASE(2)}/ ${CONFIG} /etc/systemd/system/pdfseald@production.service.d/database.conf
    systemctl daemon-reload && systemctl start pdfseald-environment@production
    chown pdfseal-production: /etc/pdfseal/production.database-password`);
  const state = 'var/lib/pdfseal/production';
  await until('the newest checkpoint is noted', () => existsSync(from(`${state}/last-checkpoint`)));
  for (const name of ['trust.json', 'last-checkpoint', 'certificates'])
    cpSync(from(`${state}/${name}`), to(`${state}/${name}`), { recursive: true });
  second.machine.must(`chown -R pdfseal-production: /${state}
    systemctl enable --now pdfseald@production.service pdfseald.target`);
  await until('it waits', () => /waits to take over: process \d+ on seal1 is active/.test(status(second)));
  t.match(status(first), /jobs wait/, 'the first one seals on');
});

t.test('the first one is switched off under load', async (t) => {
  await first.sealed('production', 20);
  inNetwork(ofDatabase, 'ip', 'link', 'set', 'node1', 'down');
  first.machine.powerOff();
  const before = performance.now();
  await until('the second one is active', () => /jobs wait/.test(status(second)));
  t.comment(`active after ${((performance.now() - before) / 1000).toFixed(1)} s`);
  // What it answered is known there; clients send the next documents to the other.
  cpSync(join(first.machine.root, 'srv/production'), join(second.machine.root, 'srv/production'), {
    recursive: true,
  });
  const key = first.keys.get('production') ?? '';
  second.keys.set('production', key);
  t.ok(second.verifyAll('production') > 20, 'every receipt that was given');
  second.machine.start(`sh /srv/load.sh ${PORTS.production} ${key} /srv/production`);
  await second.sealed('production', 20);
});

t.test('it comes back and waits; then the two change places on purpose', async (t) => {
  inNetwork(ofDatabase, 'ip', 'link', 'set', 'node1', 'up');
  await first.machine.powerOn();
  await until('it waits', () => /on seal2 is active/.test(status(first)));
  second.machine.must('systemctl stop pdfseald@production');
  await until('the first one is active', () => /jobs wait/.test(status(first)));
  // What is still written cannot be copied.
  second.machine.must('touch /srv/production/stop');
  await until('the load has ended', () => second.machine.run('pgrep -f /srv/load[.]sh').status === 1);
  cpSync(join(second.machine.root, 'srv/production'), join(first.machine.root, 'srv/production'), {
    recursive: true,
  });
  t.ok(first.verifyAll('production') > 40);
  first.machine.must('pdfseal-run production check');
});
