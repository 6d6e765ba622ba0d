/** Installs the bundle on a Debian that is really booted, without a network, and lives there what an administrator lives. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { EVENTS } from '../../src/base/events.ts';
import { blocksUnder, pageAt } from '../support/manual.ts';
import { tryEgress } from './egress.ts';
import { tryHostileDaemon } from './hostile.ts';
import { bundle, CHRONYC, ENVIRONMENTS, Installation, PORTS, ROOT, until } from './installation.ts';
import { tryPrivileges } from './privileges.ts';
import { trySigners } from './signers.ts';

// A version that is given also names a tree with changes.
const first = bundle('first', ['--version', '1.0.0']);
const second = bundle('second', ['--version', '1.0.0']);
const newer = bundle('newer', ['--version', '99.0.0']);

const site = await Installation.boot();
const { machine, keys } = site;
t.teardown(() => machine.close());

t.test('two builds of one commit are the same bytes', async (t) => {
  t.ok(readFileSync(first).equals(readFileSync(second)));
});

t.test('it installs without a network, and nothing runs by itself', async (t) => {
  const { status, stdout, stderr } = site.install(first);
  t.equal(status, 0, stderr);
  t.match(stdout, /Next, for an environment "production":/);
  t.equal(machine.run('systemctl is-enabled pdfseald@production').stdout.trim(), 'disabled');
  t.match(machine.must('pdfseal --version'), /^\d+\.\d+\.\d+\S* \(commit /);
  t.equal(
    machine.must('find /usr/lib/pdfseald ! -user root -o -perm /022 ! -type l | wc -l'),
    '0',
    'only root writes there',
  );
  t.equal(machine.must('dpkg --verify pdfseald'), '', 'each file is as it was packed');
});

t.test('two environments are made, start, and seal', async (t) => {
  const script = readFileSync(join(ROOT, 'test/appliance/environment.sh'), 'utf8');
  for (const environment of ENVIRONMENTS) site.make(environment, script);
  // One is as the manual has it: signers of their own, its port in systemd's hands, no network. The other has none of this.
  const appliance = '/etc/systemd/system/pdfseald@production.service.d/appliance.conf';
  writeFileSync(join(machine.root, 'usr/bin/chronyc'), CHRONYC, { mode: 0o755 });
  const hardened = '/usr/lib/pdfseald/harden production';
  t.match(machine.run(hardened), {
    status: 1,
    stdout: /^! pdfseald@production keeps its network.*\n! {2}.*softhsm-pdfseal/m,
  });
  machine.must(`sed -i /^ReadWritePaths/d ${appliance}
    sed -i 's/^trust = "system".*/trust = "chrony"/' /etc/pdfseal/production.toml
    systemctl daemon-reload`);
  t.match(machine.must(hardened), `systemd opens 127.0.0.1:${PORTS.production} unix:/run/pdfseal-api`);
  t.equal(machine.must('ls /etc/pdfseal/production.pins'), '', 'the daemon has no PIN');
  machine.must('systemctl enable --now pdfseald@sandbox.service pdfseald@production.service pdfseald.target');
  const again = machine.must(hardened);
  t.notMatch(again, /^!/m, 'again, as after another http.listen');
  machine.must(/^Restart the daemon now: (.*)$/m.exec(again)?.[1] ?? 'false');
  for (const environment of ENVIRONMENTS) {
    await site.load(environment);
    t.match(site.show(environment, 'StatusText'), /jobs wait/);
  }
  const completed = machine.must(`source /usr/share/bash-completion/completions/pdfseal-run
    COMP_WORDS=(pdfseal-run sa); COMP_CWORD=1; _pdfseal_run; echo "\${COMPREPLY[@]}"
    COMP_WORDS=(pdfseal-run sandbox ke); COMP_CWORD=2; _pdfseal_run; echo "\${COMPREPLY[@]}"`);
  t.equal(completed, 'sandbox\nkeys', 'the shell knows environments, and commands');
  const exposures = {
    'pdfseald@sandbox': 9,
    'pdfseald@production': 3,
    'pdfseal-signer@production-local': 3,
    'pdfseal-stripper@sandbox': 3,
    'pdfseald-renew@sandbox': 3,
  };
  for (const [unit, tenths] of Object.entries(exposures)) site.exposesAtMost(unit, tenths);
});

t.test('a mistyped environment is named, and those that exist', async (t) => {
  t.match(machine.run('systemctl start pdfseald@typo'), { status: 1, stderr: /pdfseald@typo\.service/ });
  t.match(
    machine.run('systemctl status --no-pager pdfseald@typo').stdout,
    /AssertPathExists=\/etc\/pdfseal\/typo\.toml was not met/,
  );
  const known =
    /there is no environment "typo": \/etc\/pdfseal\/typo\.toml is missing; there are: production sandbox/;
  t.match(machine.run('pdfseal-run typo status'), { status: 64, stderr: known });
  t.equal(machine.run('getent passwd pdfseal-typo').status, 2, 'and nothing is made for it');
});

t.test('webhooks go by way of the egress process, which may die', (t) => tryEgress(t, site));

t.test('a witness cosigns, starts anew and remembers, and little of it is exposed', async (t) => {
  machine.must('pdfseal-witness keygen --name witness.example/audit --key /etc/pdfseal-witness/audit.key');
  const vkeys = machine.must(`trust=$(ls /var/lib/pdfseal/production/*trust*.json | head -n 1)
    sed -n 's/.*"vkey": "\\(.*\\)".*/log \\1/p' "$trust"; echo quorum none`);
  machine.run('cat >/etc/pdfseal-witness/audit.logs', `${vkeys}\n`);
  machine.must('systemctl start pdfseal-witness@audit.socket');
  const checkpoint = machine.must(
    `curl -sf -H "Authorization: Bearer ${keys.get('production')}" http://127.0.0.1:${PORTS.production}/v1/log/checkpoint`,
  );
  const ask = () =>
    machine.run(
      `curl -s -w '%{http_code}' --data-binary @- http://127.0.0.1:8410/add-checkpoint`,
      `old 0\n\n${checkpoint}\n`,
    ).stdout;
  t.match(ask(), /^— witness\.example\/audit [^ ]+\n200$/);
  machine.must('systemctl kill --signal=KILL pdfseal-witness@audit.service');
  t.match(ask(), /^\d+\n409$/, 'it remembers');
  const exposure = machine.must(
    'systemd-analyze security --no-pager --threshold=3 pdfseal-witness@audit.service | tail -n 1',
  );
  t.match(exposure, /: 0\.[0-3] /, exposure);
});

t.test('the drop-ins are of directives that systemd knows, and leave little exposed', async (t) => {
  const dropIns = machine.must('ls /usr/share/doc/pdfseald/examples/drop-ins').split('\n');
  t.ok(dropIns.length > 3);
  for (const dropIn of dropIns) {
    const folder = '/etc/systemd/system/pdfseald@tryout.service.d';
    machine.must(
      `mkdir -p ${folder} && cp /usr/share/doc/pdfseald/examples/drop-ins/${dropIn} ${folder} && systemctl daemon-reload`,
    );
    // There is no man in the machine that could look up the pages of the unit.
    const verified = machine.run('systemd-analyze verify --man=no pdfseald@tryout.service');
    t.equal(verified.status, 0, `${dropIn}: ${verified.stderr}`);
    t.equal(verified.stderr, '', dropIn);
    machine.must('systemd-analyze security --no-pager --threshold=20 pdfseald@tryout.service');
    machine.must(`rm -r ${folder}`);
  }
});

t.test('the journal has every line with its priority, its id and what to search by', async (t) => {
  const [job = ''] = machine.must('head -n 1 /srv/production/jobs').split('\n');
  const search = (...matches: string[]) =>
    machine
      .must(`journalctl --namespace=pdfseald --output=json -u pdfseald@production ${matches.join(' ')}`)
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, string>);
  t.match(search(`MESSAGE_ID=${EVENTS.started}`), [
    {
      MESSAGE: /^listening version=/,
      PRIORITY: '6',
      SYSLOG_IDENTIFIER: 'pdfseald',
      _SYSTEMD_UNIT: 'pdfseald@production.service',
    },
  ]);
  const requests = search(`PDFSEAL_JOB_ID=${job}`);
  t.match(requests[0], {
    MESSAGE: /^request request_id=req_/,
    PDFSEAL_CLIENT_ID: 'invoices',
    PDFSEAL_STATUS: '202',
  });
  t.match(search(`PDFSEAL_REQUEST_ID=${requests[0]?.PDFSEAL_REQUEST_ID}`), [{ PDFSEAL_JOB_ID: job }]);
  const explained = machine.must(
    `journalctl --namespace=pdfseald -x -u pdfseald@production MESSAGE_ID=${EVENTS.started}`,
  );
  t.match(explained, 'The daemon answers requests.');
});

t.test('nobody may more than he has to', (t) => tryPrivileges(t, site));

t.test('a restart under load loses no request', async (t) => {
  machine.must('systemctl restart pdfseald@production');
  await site.sealed('production', 3);
  t.equal(machine.run('cat /srv/production/lost').stdout, '');
});

t.test('a daemon that hangs is ended by the watchdog and comes back', async (t) => {
  const before = site.show('sandbox', 'MainPID');
  machine.must(`kill -STOP ${before}`);
  await until('another process serves', () => !['0', before].includes(site.show('sandbox', 'MainPID')));
  t.match(site.show('sandbox', 'NRestarts'), /^[1-9]/);
  await until('it is active', () => site.show('sandbox', 'ActiveState') === 'active');
  await site.sealed('sandbox', 3);
});

t.test('the loss of a signer is mended without a restart', async (t) => {
  const before = site.show('production', 'MainPID');
  machine.must('systemctl kill --signal=KILL pdfseal-signer@production-local.service');
  await site.sealed('production', 3);
  t.equal(site.show('production', 'MainPID'), before);
  const warnings = machine.must(
    'journalctl --namespace=pdfseald --output=cat -p warning -u pdfseald@production',
  );
  t.match(warnings, 'HSM partition unavailable, its signer is replaced partition=');
  t.notMatch(warnings, /^request |Configuration\.cpp/m, 'and nothing that is not worth a warning');
});

t.test('a disk that fills up to its last byte refuses new work and loses nothing', async (t) => {
  const state = '/var/lib/pdfseal/sandbox';
  const token = '/var/lib/softhsm-pdfseal/sandbox';
  // A tmpfs is a disk that can be filled, wherever this runs.
  machine.must(`systemctl stop pdfseald@sandbox
    printf '\\n[storage]\\nfree_bytes_min = "64MiB"\\n' >>/etc/pdfseal/sandbox.toml
    mv ${state} ${state}.disk
    install -d -m 0750 ${state}
    mount -t tmpfs -o size=192M,mode=0750,uid=$(id -u pdfseal-sandbox),gid=$(id -g pdfseal-sandbox) tmpfs ${state}
    cp -a ${state}.disk/. ${state}
    systemctl start pdfseald@sandbox`);
  await site.sealed('sandbox', 3);
  const create = `curl -s -H "Authorization: Bearer ${keys.get('sandbox')}" -F visibility=private -F mode=async http://127.0.0.1:${PORTS.sandbox}/v1/jobs/seal`;

  // The administration could not put it back: what it does is put on record first, and that takes room.
  machine.must(
    `mkdir ${token}.away && mv ${token}/* ${token}.away && pkill -KILL -P ${site.show('sandbox', 'MainPID')}`,
  );
  const ids = machine
    .must(`cd /srv/sandbox; for n in $(seq 20); do
      printf '%%PDF-1.7\\nwaiting %s\\n%%%%EOF\\n' $n >waiting.pdf
      job=$(${create} -F file=@waiting.pdf | sed -E 's/.*"id":"([^"]*)".*/\\1/')
      mv waiting.pdf $job.pdf; echo $job; done`)
    .split('\n');
  machine.run(
    `for bytes in 64K 4K; do dd if=/dev/zero of=${state}/ballast bs=$bytes oflag=append conv=notrunc status=none; done`,
  );
  t.equal(machine.must(`df --output=avail ${state} | tail -n 1`), '0');
  t.match(machine.must(`${create} -F file=@/srv/sandbox/${ids[0]}.pdf`), /"code":"storage_full"/);
  const pid = site.show('sandbox', 'MainPID');
  machine.must(`mv ${token}.away/* ${token}`);
  await until('what is to be sealed waits for room', () =>
    machine
      .run('journalctl --no-pager --namespace=pdfseald -u pdfseald@sandbox')
      .stdout.includes('writes wait for room'),
  );

  machine.must(`rm ${state}/ballast`);
  await site.sealed('sandbox', 3);
  t.equal(site.show('sandbox', 'MainPID'), pid, 'it went on by itself');
  for (const id of [ids[0], ids.at(-1)]) {
    const phase = () => JSON.parse(site.admin('sandbox', `jobs show ${id} --json`)).phase;
    await until('what was accepted is sealed', () => phase() === 'completed');
  }
  machine.must(`printf '%s\\n' ${ids.join(' ')} >>/srv/sandbox/jobs
    systemctl stop pdfseald@sandbox
    rm -r ${state}.disk && cp -a ${state} ${state}.disk && umount ${state} && rmdir ${state} && mv ${state}.disk ${state}
    systemctl start pdfseald@sandbox`);
  t.ok(site.verifyAll('sandbox') > ids.length);
});

t.test('a PIN moves to a signer of its own', (t) => trySigners(t, site));

t.test('a reboot brings both back, and every receipt', async () => {
  for (const environment of ENVIRONMENTS) machine.must(`touch /srv/${environment}/stop`);
  await machine.reboot();
  for (const environment of ENVIRONMENTS) {
    await until(`${environment} is active`, () => site.show(environment, 'ActiveState') === 'active');
    t.ok(site.verifyAll(environment) > 5, `every receipt of ${environment} verifies`);
  }
});

t.test('an upgrade copies the stores, keeps the configuration, and goes one way only', async (t) => {
  const config = machine.must('sha256sum /etc/pdfseal/production.toml');
  const upgraded = site.install(newer);
  t.equal(upgraded.status, 0, upgraded.stderr);
  t.match(machine.must('pdfseal --version'), /^99\.0\.0 /);
  t.equal(machine.must('sha256sum /etc/pdfseal/production.toml'), config);
  for (const environment of ENVIRONMENTS)
    t.match(machine.must(`ls /var/backups/pdfseal/${environment}.upgrades`), /_to_99\.0\.0$/);
  for (const environment of ENVIRONMENTS) {
    await until(`${environment} is active`, () => site.show(environment, 'ActiveState') === 'active');
    t.ok(site.verifyAll(environment) > 5);
  }
  const refused = site.install(first, '--allow-downgrades');
  t.not(refused.status, 0);
  t.match(refused.stderr + refused.stdout, /a store is never opened by an older version/);
});

t.test('time-stamps are renewed by the unit of the timer, and by an administrator', async (t) => {
  machine.must('systemctl start pdfseald-renew@production');
  // What the doctor asks for; and one token has all keys here.
  machine.must(`systemctl enable --now pdfseald-check@production.timer pdfseald-backup@production.timer pdfseald-renew@production.timer
    systemctl start pdfseald-check@production pdfseald-backup@production
    pdfseal-run production restore --drill --input /var/backups/pdfseal/production/$(ls /var/backups/pdfseal/production | tail -n 1)`);
  t.strictSame(site.diagnose('production'), { status: 2, found: ['separate keys'] });
  t.match(machine.must('pdfseal-run production renew --now'), /^renewal 1: built-in stamped everything/m);
  t.match(machine.must('pdfseal-run production renew --now --hash sha384'), /^renewal 2: .* with sha384$/m);
  machine.must('systemctl start pdfseald-renew@production');
});

t.test('a backup that the daemon asks for begins by itself, and once', async (t) => {
  const state = '/var/lib/pdfseal/production';
  const count = () => Number(machine.must('ls /var/backups/pdfseal/production 2>/dev/null | wc -l'));
  const before = count();
  const asked = JSON.stringify({ asked_at: new Date().toISOString(), person: 'operator' });
  machine.must(
    `runuser -u pdfseal-production -- sh -c 'echo '"'"'${asked}'"'"' > ${state}/backup-asked.json'`,
  );
  await until('there is another backup', () => count() > before);
  await until(
    'its end is noted',
    () => machine.run(`grep -q ended_at ${state}/backup-run.json`).status === 0,
  );
  t.not(machine.run(`test -e ${state}/backup-asked.json`).status, 0, 'the request is taken away');
  t.notMatch(machine.must(`cat ${state}/backup-run.json`), /"reason"/);
  await until('the unit has ended', () =>
    /^inactive/.test(machine.run('systemctl is-active pdfseald-backup@production').stdout),
  );
  t.equal(count(), before + 1);
});

t.test('a backup is restored; the nightly check finds nothing', async (t) => {
  machine.must('systemctl start pdfseald-backup@production pdfseald-check@production');
  // The newest backup has all that the last-checkpoint file can know.
  machine.must(
    `systemctl stop pdfseald@production.service pdfseald@production.socket
      systemctl start pdfseald-backup@production && rm -r /var/lib/pdfseal/production/store`,
  );
  machine.must(
    'pdfseal-run production restore --input /var/backups/pdfseal/production/$(ls /var/backups/pdfseal/production | tail -n 1)',
  );
  machine.must('systemctl start pdfseald@production.socket pdfseald@production.service');
  t.ok(site.verifyAll('production') > 5);
});

t.test('the timers are set, and damaged indexes are found by what they start, and mended', async (t) => {
  for (const name of ['check', 'backup', 'renew']) {
    machine.must(`systemctl enable --now pdfseald-${name}@sandbox.timer`);
    const next = machine.must(
      `systemctl show --value -p NextElapseUSecRealtime pdfseald-${name}@sandbox.timer`,
    );
    t.match(next, /\d/, `${name} is due ${next}`);
  }
  machine.must('systemctl stop pdfseald@sandbox');
  const damage = `
    import { openDatabases } from '/usr/lib/pdfseald/dist/store/lmdb/databases.js';
    const { root, scopes, lookups, tiles } = await openDatabases('/var/lib/pdfseal/sandbox/store', { readOnly: false });
    for (const index of [scopes, lookups, tiles]) for (const key of index.getKeys({})) index.remove(Buffer.from(key));
    await root.flushed;
    await root.close();`;
  machine.must(`${site.as('sandbox')} /usr/lib/pdfseald/bin/node --input-type=module`, damage);
  t.not(machine.run('systemctl start pdfseald-check@sandbox').status, 0);
  t.match(
    machine.must('journalctl --no-pager --namespace=pdfseald -u pdfseald-check@sandbox'),
    /bad: \d+ entries of indexes; run `pdfseal repair-index`/,
  );
  t.not(machine.run('systemctl start pdfseald-backup@sandbox').status, 0, 'no copy of it is made in silence');
  const mended = machine.must(
    'pdfseal-run sandbox repair-index --backup-output /var/backups/pdfseal/sandbox/before-repair',
  );
  t.match(mended, /^scopes +[1-9]\d* +0 +0$/m);
  machine.must('systemctl start pdfseald-check@sandbox pdfseald-backup@sandbox pdfseald@sandbox');
  t.ok(site.verifyAll('sandbox') > 5);
});

t.test('a daemon in wrong hands gets nothing but its own', (t) => tryHostileDaemon(t, site));

t.test('a purge leaves the evidence, unless it is asked for', async (t) => {
  const purged = machine.run('apt-get purge --yes pdfseald');
  t.equal(purged.status, 0, purged.stderr);
  t.equal(machine.run('test -e /var/lib/pdfseal/production/store/data.mdb').status, 0);
  t.not(machine.run('command -v pdfseal').status, 0);
  t.equal(
    machine.must("find /etc/systemd/system -xtype l -lname '*pdfseal*'"),
    '',
    'no link leads to what is gone',
  );
});

t.test('the first seal is as the manual has it', async (t) => {
  machine.must('rm -r /etc/pdfseal /var/lib/pdfseal /var/backups/pdfseal /etc/systemd/system/pdfseald*');
  copyFileSync(first, join(machine.root, 'root', basename(first)));
  writeFileSync(join(machine.root, 'etc/apt/apt.conf.d/yes'), 'APT::Get::Assume-Yes "true";\n');
  const commands = blocksUnder(pageAt('README.md'), 'First seal in five minutes', 'sh');
  writeFileSync(join(machine.root, 'root/first-seal.sh'), commands.join(''));
  const { status, stdout, stderr } = machine.run('cd && sh -e first-seal.sh');
  t.equal(status, 0, stderr);
  t.match(stdout, /\ngood\n$/);
  const doctor = machine.run('pdfseal-run sandbox doctor');
  t.match(doctor, { status: 2, stdout: /backup/ });
  t.notMatch(doctor.stdout, /✗/, 'it warns, and finds nothing broken');
});
