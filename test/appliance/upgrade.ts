/** An installation of version 0.1.0 is upgraded to this one, and goes on. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { bundle, ENVIRONMENTS, Installation, ROOT, until } from './installation.ts';
import { cached } from './machine.ts';

/** The commit that installations have as version 0.1.0. */
const PREVIOUS = 'f85eb3e4';

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

t.test('two environments of version 0.1.0 seal', async (t) => {
  t.equal(site.install(previous).status, 0);
  for (const environment of ENVIRONMENTS) site.make(environment, environmentScript);
  machine.must('systemctl enable --now pdfseald@sandbox.service pdfseald@production.service pdfseald.target');
  for (const environment of ENVIRONMENTS) await site.load(environment);
  for (const environment of ENVIRONMENTS) await site.sealed(environment, 3);
});

t.test('the upgrade copies the stores, and all goes on', async (t) => {
  const config = machine.must('sha256sum /etc/pdfseal/*.toml');
  const trust = site.admin('production', 'trust export');
  const { status, stderr } = site.install(next);
  t.equal(status, 0, stderr);
  t.equal(machine.must('sha256sum /etc/pdfseal/*.toml'), config);
  for (const environment of ENVIRONMENTS) {
    await until(`${environment} is active`, () => site.show(environment, 'ActiveState') === 'active');
    await site.sealed(environment, 3);
    const copies = `/var/backups/pdfseal/${environment}.upgrades`;
    t.match(machine.must(`ls ${copies}`), /^\d{8}T\d{6}Z_0\.1\.0_to_99\.0\.0$/);
    const check = `pdfseal check --config /etc/pdfseal/${environment}.toml --input ${copies}/*`;
    t.equal(machine.run(`${site.as(environment)} sh -c '${check}'`).status, 0, 'the copy is good');
  }
  t.equal(site.admin('production', 'trust export'), trust, 'one log, and its keys');
  machine.must('systemctl start pdfseald-backup@sandbox pdfseald-check@sandbox pdfseald-check@production');
  t.match(machine.must('pdfseal-run sandbox doctor || true'), 'files');
});

t.test('it comes back after a reboot', async (t) => {
  for (const environment of ENVIRONMENTS) machine.must(`touch /srv/${environment}/stop`);
  await machine.reboot();
  for (const environment of ENVIRONMENTS) {
    await until(`${environment} is active`, () => site.show(environment, 'ActiveState') === 'active');
    t.ok(site.verifyAll(environment) > 5, `every receipt of ${environment} verifies`);
  }
});
