/** An installation of the time when all environments shared the user pdfseal becomes one in which each has its own. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { bundle, ENVIRONMENTS, Installation, ROOT, until } from './installation.ts';
import { cached } from './machine.ts';

/** The last one of that time. */
const PREVIOUS = '032f4c4e';

/** Its package, made of its sources. */
const previous = cached(`pdfseald-${PREVIOUS}.deb`, (draft) => {
  const tree = join(mkdtempSync(join(tmpdir(), 'pdfseald-previous-')), 'tree');
  execFileSync('git', ['worktree', 'add', '--detach', tree, PREVIOUS], { cwd: ROOT, stdio: 'ignore' });
  try {
    execFileSync('cp', ['-al', join(ROOT, 'node_modules'), join(tree, 'node_modules')]);
    // tap hands every child a loader, which tsc cannot do with.
    execFileSync('env', ['--unset=NODE_OPTIONS', 'sh', 'test/setup.sh'], { cwd: tree, stdio: 'ignore' });
    copyFileSync(bundle('previous', [], tree), draft);
  } finally {
    execFileSync('git', ['worktree', 'remove', '--force', tree], { cwd: ROOT, stdio: 'ignore' });
    rmSync(join(tree, '..'), { recursive: true });
  }
});
const environmentScript = execFileSync('git', ['show', `${PREVIOUS}:test/appliance/environment.sh`], {
  cwd: ROOT,
  encoding: 'utf8',
});
const next = bundle('next', ['--version', '99.0.0']);

const site = await Installation.boot();
const { machine } = site;
t.teardown(() => machine.close());

t.test('two environments seal as one user', async (t) => {
  t.equal(site.install(previous).status, 0);
  // Who may use the sockets; and a group that somebody's HSM asks for.
  machine.must('useradd -G pdfseal erp; groupadd nfast; usermod -aG nfast pdfseal');
  for (const environment of ENVIRONMENTS) site.make(environment, environmentScript);
  machine.must(
    'install -D -m 0640 -g pdfseal /dev/null /etc/pdfseal/shared.pem && echo "# /etc/pdfseal/shared.pem" | tee -a /etc/pdfseal/*.toml',
  );
  machine.must(
    'systemctl enable --now pdfseald@sandbox.service pdfseald@production.service pdfseald.target pdfseald-backup@sandbox.timer',
  );
  // What the daemon sent to other machines goes through a process of its own later.
  machine.must(`mkdir -p /etc/systemd/system/pdfseald@production.service.d
    printf '[Service]\\nIPAddressAllow=192.0.2.10\\n' >/etc/systemd/system/pdfseald@production.service.d/network.conf`);
  for (const environment of ENVIRONMENTS) await site.load(environment);
  machine.must('systemctl start pdfseald-backup@sandbox');
  for (const environment of ENVIRONMENTS) {
    t.equal(machine.must(`stat -c %U /var/lib/pdfseal/${environment}`), 'pdfseal');
    await site.sealed(environment, 3);
  }
});

t.test('the upgrade gives each its own user, and all goes on', async (t) => {
  const config = machine.must('sha256sum /etc/pdfseal/*.toml');
  const trust = site.admin('production', 'trust export');
  const { status, stdout, stderr } = site.install(next);
  t.equal(status, 0, stderr);
  t.match(stdout, 'production now runs as pdfseal-production');
  t.equal(machine.must('sha256sum /etc/pdfseal/*.toml'), config);
  for (const environment of ENVIRONMENTS) {
    await until(`${environment} is active`, () => site.show(environment, 'ActiveState') === 'active');
    await site.sealed(environment, 3);
    t.equal(machine.must(`ps -o user:32= -p ${site.show(environment, 'MainPID')}`), `pdfseal-${environment}`);
  }
  t.equal(site.admin('production', 'trust export'), trust, 'one log, and its keys');
  t.ok(machine.must('ls /var/backups/pdfseal/production-0.1.0'), 'the store was copied before');
  machine.must('systemctl start pdfseald-backup@sandbox pdfseald-check@sandbox pdfseald-check@production');
  t.match(machine.must('pdfseal-run sandbox doctor || true'), 'files');
  t.equal(
    machine.run('find / -xdev -path /proc -prune -o -user pdfseal -print').stdout,
    '',
    'nothing is left of it',
  );
  t.equal(machine.must('systemctl is-enabled pdfseald-renew@sandbox.timer'), 'enabled');
  t.equal(machine.must('systemctl is-active pdfseald-renew@sandbox.timer'), 'active');
  t.equal(
    machine.run('systemctl is-enabled pdfseald-renew@production.timer').stdout.trim(),
    'disabled',
    'where no other timer is enabled',
  );
  t.match(stdout, 'pdfseal-egress@production.service.d/network.conf is made from');
  const reached = machine.must('systemctl show -P IPAddressAllow pdfseal-egress@production.service');
  t.match(reached, '192.0.2.10', 'what the daemon could reach');
  t.match(machine.must('id -nG pdfseal-production'), /\bnfast\b/);
  t.match(machine.must('id -nG erp'), /\bpdfseal-api\b/);
  t.notMatch(machine.must('id -nG erp'), /\bpdfseal-admin\b/);
});

t.test('no environment reads, signals or traces the other', async (t) => {
  const pid = site.show('production', 'MainPID');
  const own = [
    'cat /etc/pdfseal/production.toml',
    'cat /etc/pdfseal/production-softhsm.conf',
    'ls /var/lib/pdfseal/production',
    'ls /var/lib/softhsm-pdfseal/production',
    'ls /var/backups/pdfseal/production',
    'ls /var/backups/pdfseal/production-0.1.0',
    'ls /run/pdfseal/production',
    'curl -sf --unix-socket /var/lib/pdfseal/production/admin.sock http://localhost/healthz',
    `bash -c "kill -0 ${pid}"`,
  ];
  for (const command of own) {
    t.equal(machine.run(`${site.as('production')} ${command}`).status, 0, `production: ${command}`);
    t.not(machine.run(`${site.as('sandbox')} ${command}`).status, 0, `sandbox: ${command}`);
  }
  t.not(machine.run(`${site.as('sandbox')} cat /proc/${pid}/environ`).status, 0);
  for (const environment of ENVIRONMENTS) {
    t.not(machine.run(`${site.as(environment)} ls /etc/pdfseal/production.pins`).status, 0);
    t.equal(machine.run(`${site.as(environment)} cat /etc/pdfseal/shared.pem`).status, 0, 'what both need');
  }
});

t.test('its PIN gets a signer of its own, and the log goes on', async (t) => {
  const told = machine.must('/usr/lib/pdfseald/separate-signer production local');
  t.match(told, /^! .*production-softhsm\.conf/m, 'what root has to do');
  machine.must('chgrp pdfsign-production-local /etc/pdfseal/production-softhsm.conf');
  machine.must('systemctl restart pdfseald@production');
  await until('production is active', () => site.show('production', 'ActiveState') === 'active');
  await site.sealed('production', 3);
  t.not(machine.run('ls /etc/pdfseal/production.pins/local').status, 0, 'the daemon has the PIN no more');
  t.match(machine.must('ls /var/lib/pdfseal-signer/production/local'), /\.trees$/m);
});

t.test('it comes back after a reboot', async (t) => {
  for (const environment of ENVIRONMENTS) machine.must(`touch /srv/${environment}/stop`);
  await machine.reboot();
  for (const environment of ENVIRONMENTS) {
    await until(`${environment} is active`, () => site.show(environment, 'ActiveState') === 'active');
    t.ok(site.verifyAll(environment) > 5, `every receipt of ${environment} verifies`);
  }
});
