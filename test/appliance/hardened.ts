/** A hardened production environment, as the manual has it: two tokens and a quorum of two, a witness, a scanner, TLS; and its restore on a bare machine. */
import { copyFileSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { signatureDatabase } from '../support/clamd.ts';
import { buildFaultyModule } from '../support/faults.ts';
import { blocksUnder, pageAt } from '../support/manual.ts';
import { bundle, CHRONYC, Installation, ROOT, until } from './installation.ts';
import type { Ran } from './machine.ts';

const HOST = 'seal.acme.org';
const PORT = 8443;
const COUNTED = '/var/lib/softhsm-pdfseal/production-eu-north';
const PIN = '/etc/pdfseal/signers/production/eu-north/pin';
const CONFIG = '/etc/pdfseal/production.toml';
const BACKUPS = '/var/backups/pdfseal/production';
const PACKAGES = ['clamav-daemon', 'jq', 'openssl'];

const file = bundle('hardened');
const folder = mkdtempSync(join(tmpdir(), 'pdfseald-hardened-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const countingModule = buildFaultyModule(folder);

/** What is on a machine before pdfseald is installed, and in no backup: the module of an HSM, clamd, chrony. */
async function bootMachine(name: string): Promise<Installation> {
  const site = await Installation.boot({ name, packages: PACKAGES });
  const { machine } = site;
  t.teardown(() => machine.close());
  const at = (path: string) => join(machine.root, path);
  writeFileSync(at('usr/bin/chronyc'), CHRONYC, { mode: 0o755 });
  writeFileSync(at('srv/daily.cud'), signatureDatabase(27_410, true, Date.now()));
  const [limits = ''] = blocksUnder(pageAt('docs/configure.md'), 'Virus scanning', '');
  writeFileSync(at('srv/clamd.conf'), limits.replace(/^ +/gm, ''));
  copyFileSync(countingModule, at('usr/local/lib/counting-pkcs11.so'));
  copyFileSync(join(ROOT, 'test/appliance/scanner.sh'), at('srv/scanner.sh'));
  machine.must(`sh /srv/scanner.sh; echo '127.0.0.1 ${HOST}' >>/etc/hosts`);
  return site;
}

/** The blocks of commands in a section of the manual, for this host. */
function commands(path: string, heading: string): string[] {
  return blocksUnder(pageAt(path), heading, 'sh').map((block) => block.replaceAll('seal.example.com', HOST));
}

/** The block that has those words; the manual may have others before and after it. */
function command(path: string, heading: string, words: RegExp): string {
  const found = commands(path, heading).find((block) => words.test(block));
  if (found === undefined) throw new Error(`${path} has no such command under "${heading}": ${words}`);
  return found;
}

const lastLine = ({ stdout }: Ran) => stdout.trim().split('\n').at(-1);
const STEPS = ['docs/install.md', 'Production, step by step'] as const;
const first = await bootMachine('first');

/** What `doctor` asks for on a new machine. */
function doDuties({ machine }: Installation): void {
  machine.must(
    'systemctl start pdfseald-backup@production pdfseald-check@production pdfseald-renew@production',
  );
  const [drill = ''] = commands('docs/backup.md', 'Prove that a backup works');
  machine.must(drill.replace(/2026-\S+/, `$(ls ${BACKUPS} | tail -n 1)`));
}

/** Everything is well: the doctor and the check of the configuration have nothing to say. */
function assertAllGood(t: Test, { machine }: Installation): void {
  const doctor = machine.run(command(...STEPS, /doctor/));
  t.equal(doctor.status, 0, doctor.stdout);
  t.equal(lastLine(doctor), 'all good', doctor.stdout);
  const config = machine.run(command(...STEPS, /check-config/));
  t.equal(config.status, 0);
  t.match(lastLine(config), /: good$/);
}

t.test('an environment is made, hardened and started as the manual has it', async (t) => {
  const { machine } = first;
  const { status, stderr } = first.install(file);
  t.equal(status, 0, stderr);
  copyFileSync(join(ROOT, 'test/appliance/hardened.sh'), join(machine.root, 'srv/hardened.sh'));
  machine.must('sh /srv/hardened.sh');
  const before = machine.run(command(...STEPS, /check-config/));
  t.match(lastLine(before), /good, except for the warnings above$/, before.stderr);
  machine.must(command(...STEPS, /production init/));
  const network = ['docs/network.md', 'Serve other machines with TLS'] as const;
  machine.must(
    `cd && ${commands('docs/network.md', 'Make a certificate for a test').join('\n')}
    ${command(...network, /privkey/)}`,
  );
  const block = (language: string) =>
    blocksUnder(pageAt(network[0]), network[1], language)[0]?.replaceAll('seal.example.com', HOST) ?? '';
  const [http = '', tls = ''] = block('toml').split(/^(?= *\[http\.tls\])/m);
  machine.must(
    `cat >/srv/http && sed -i -e '/^public_url = /d' -e '/^\\[http\\]$/r /srv/http' ${CONFIG}`,
    http.replace(/^\s*\[http\]\n/, ''),
  );
  machine.must(`cat >>${CONFIG}`, `\n${tls}`);
  machine.must(
    `folder=/etc/systemd/system/pdfseald@production.service.d
    mkdir -p $folder && cat >$folder/override.conf && systemctl daemon-reload`,
    block('ini'),
  );
  const [check = ''] = command(...network, /check-config/).split('\n');
  t.match(lastLine(machine.run(check)), /: good$/);
  const hardened = machine.must(command(...STEPS, /harden/));
  t.notMatch(hardened, /^!/m);
  t.match(hardened, `systemd opens 0.0.0.0:${PORT} for pdfseald@production`);
  machine.must(command(...STEPS, /systemctl enable/));
  t.match(
    machine.must('systemctl show --value -p IPAddressAllow pdfseald@production.socket'),
    '198.51.100.0/24',
    'clients are let in',
  );
  const found = ['backup', 'check', 'restore drill', 'renewal'];
  t.strictSame(first.diagnose('production'), { status: 2, found }, 'what the manual says of the first day');
});

t.test('commands that follow each other closely are all run', async (t) => {
  const [once, times] = ['pdfseal-run production config show >/dev/null', 8];
  t.equal(first.machine.run(Array(times).fill(once).join(' && ')).status, 0);
});

t.test('a witness on this machine cosigns', async (t) => {
  const { machine } = first;
  const setUp = ['docs/run-a-witness.md', 'Set up'] as const;
  const local = (text: string) => text.replaceAll('192.0.2.7', '127.0.0.1');
  const vkey = machine.must(command(...setUp, /keygen/));
  machine.must(`cd && ${command(...STEPS, /trust export/)}`);
  const logs = machine.must(`cd && ${command(...setUp, /jq/).trim()} | tee /etc/pdfseal-witness/audit.logs`);
  t.match(logs, /^log seal\.acme\.org\/production\+/);
  machine.must(`echo quorum none >>/etc/pdfseal-witness/audit.logs
    ${local(command(...setUp, /systemctl enable/))}`);
  machine.must(
    'cat >/etc/pdfseal/production.policy',
    `${logs}\nwitness north ${vkey} http://127.0.0.1:8410\nquorum north\n`,
  );
  machine.must(
    `sed -i 's|^# policy = "/etc/pdfseal/production.policy"|policy = "/etc/pdfseal/production.policy"|' ${CONFIG}`,
  );
  const restart = command('docs/witness.md', 'Set up a witness', /systemctl restart/).split('\n');
  machine.must(restart.slice(0, 2).join('\n'));
  await until('the witness cosigns', () =>
    /✓ witness north: .*cosign/.test(machine.run('pdfseal-run production doctor').stdout),
  );
});

let key = '';
/** Documents that were sealed, and verified with the trust file of then. */
const sealed: string[] = [];
const submit = (name: string, { machine } = first) => {
  sealed.push(name);
  machine.must(`cd && printf '%%PDF-1.7\\n${name}\\n%%%%EOF\\n' >${name}.pdf && printf %s ${key} >api.key && chmod 0600 api.key
    pdfseal submit ${name}.pdf --url https://${HOST}:${PORT} --tls-ca ca.pem --key-file api.key --visibility private`);
  machine.must(`cd && pdfseal verify ${name}.pdf ${name}.pdf.receipt.json --trust trust.json`);
};

t.test(
  'documents are sealed over TLS, and the doctor has nothing to say once its duties are done',
  async (t) => {
    const { machine } = first;
    key = machine.must(command(...STEPS, /keys issue/));
    machine.must(
      `cd && ${command('docs/network.md', 'Serve other machines with TLS', /s_client/).split('\n')[0]}`,
    );
    submit('one');
    t.equal(machine.must('jq -r .manifest.scan.verdict /root/one.pdf.receipt.json'), 'clean');
    doDuties(first);
    assertAllGood(t, first);
  },
);

/** How often the module was asked to log in, and what it answered. */
const logins = () =>
  first.machine
    .must(`cat ${COUNTED}/calls`)
    .split('\n')
    .filter((line) => line.startsWith('login '));
const refusals = () => logins().filter((line) => line !== 'login 0x0').length;
const writePin = (text: string) => void first.machine.must(`cat >${PIN}`, text);

t.test('a refused PIN is presented once, whatever starts its signer', async (t) => {
  const { machine } = first;
  const [signer, daemon] = [
    "'pdfseal-signer@production-eu\\x2dnorth.service'",
    'pdfseald@production.service',
  ];
  const show = (unit: string, property: string) =>
    machine.must(`systemctl show --value -p ${property} ${unit}`);
  /** The daemon has asked for the PIN again, and the signer has not presented it. */
  const isRefused = () =>
    /"pin_(refused|file_invalid)"/.test(
      machine.run('curl -s --unix-socket /run/pdfseal/production/admin.sock http://localhost/status').stdout,
    );
  /** Resolves once the unit was started again and has come to the PIN: a signer and a daemon that finds a quorum missing end; on a slow machine, a daemon runs. */
  const startedAgain = async (unit: string, act: () => unknown) => {
    const before = show(unit, 'InvocationID');
    await act();
    await until(`${unit} was started, and is refused`, () => {
      const [state, id] = [show(unit, 'ActiveState'), show(unit, 'InvocationID')];
      return id !== before && (/^(inactive|failed)$/.test(state) || (unit === daemon && isRefused()));
    });
  };
  const right = machine.must(`cat ${PIN}`);
  const before = show(daemon, 'MainPID');
  writePin('wrong-pin');
  machine.must('systemctl reload pdfseald@production');
  submit('reloaded');
  t.equal(refusals(), 0, 'a reload has the signer log in to nothing');

  machine.must(`systemctl kill --signal=KILL ${signer}`);
  await until('the PIN is refused, and asked for again', isRefused);
  t.equal(refusals(), 1, 'the signer was killed');
  machine.must('systemctl reload pdfseald@production');
  for (let n = 0; n < 2; n++)
    await startedAgain(signer, () => machine.run(`systemctl kill --signal=KILL ${signer}`));
  t.equal(refusals(), 1, 'killed again, and started by its socket');
  t.equal(show(daemon, 'MainPID'), before);

  const stop = `systemctl stop pdfseald@production.socket ${daemon}; systemctl reset-failed ${daemon}`;
  await startedAgain(daemon, () => machine.must(`systemctl kill --signal=KILL ${daemon}`));
  t.equal(refusals(), 1, 'the daemon was killed');
  await startedAgain(daemon, () => machine.run(`${stop}; systemctl start ${daemon}`));
  t.equal(refusals(), 1, 'it was restarted');
  await startedAgain(daemon, () =>
    machine.run(
      `${stop}; systemctl start pdfseald@production.socket; curl -sk --max-time 1 https://${HOST}:${PORT}/`,
    ),
  );
  t.equal(refusals(), 1, 'its socket started it, as often as a client that waits wants');
  await startedAgain(daemon, () =>
    machine.run(
      `${stop}; systemd-run --quiet --on-active=1ms --timer-property=AccuracySec=1ms systemctl start ${daemon}`,
    ),
  );
  t.equal(refusals(), 1, 'a timer started it');
  t.match(machine.run('pdfseal-run production hsm list'), { stdout: /pin_refused|not presented again/ });
  t.equal(refusals(), 1, 'a command');
  writePin('wrong-pin-2');
  await startedAgain(daemon, () => machine.run(`${stop}; systemctl start ${daemon}`));
  t.equal(refusals(), 2, 'another wrong PIN, at the start');
  await startedAgain(daemon, () => machine.reboot());
  t.equal(refusals(), 2, 'the machine was booted');
  const count = logins().length;
  for (const [what, text] of [
    ['two lines', `${right}\n${right}\n`],
    ['an empty file', ''],
  ] as const) {
    writePin(text);
    await startedAgain(daemon, () => machine.run(`${stop}; systemctl start ${daemon}`));
    t.equal(logins().length, count, what);
  }
  writePin(right);
  machine.must(`${stop}; systemctl start ${daemon}`);
  submit('corrected');
  t.equal(refusals(), 2, 'the corrected PIN is presented');

  writePin('wrong-pin-3');
  machine.must(`systemctl kill --signal=KILL ${signer}`);
  await until('the PIN is refused, and asked for again', isRefused);
  const started = show(daemon, 'MainPID');
  writePin(right);
  await until('it is corrected while the daemon runs', () => !isRefused());
  submit('corrected-meanwhile');
  t.equal(show(daemon, 'MainPID'), started, 'without a restart');
  t.equal(refusals(), 3);
});

t.test('a backup has what another machine needs, and no secrets', async (t) => {
  const { machine } = first;
  machine.must(`systemctl stop pdfseald@production.socket pdfseald@production.service
    ${command('docs/backup.md', 'Back up', /systemctl start/)}`);
  const newest = machine.must(`ls ${BACKUPS} | tail -n 1`);
  t.equal(machine.must(`ls ${BACKUPS}.files | tail -n 1`), newest, 'both folders have one name');
  const files = machine.must(`tar --list --file=${BACKUPS}.files/${newest}/files.tar`).split('\n');
  for (const file of ['production.toml', 'production.policy', 'softhsm2-eu-north.conf', 'tls/fullchain.pem'])
    t.ok(files.includes(`etc/pdfseal/${file}`), file);
  for (const dropIn of ['service.d/override.conf', 'service.d/closed.conf', 'socket.d/listen.conf'])
    t.ok(files.includes(`etc/systemd/system/pdfseald@production.${dropIn}`), dropIn);
  t.match(machine.must(`ls ${BACKUPS}.files/${newest}/signers/eu-west`), /^\w+\.trees$/);
  for (const secret of ['1234-eu-west', 'wrong-pin', 'PRIVATE KEY', 'refused-pins'])
    t.equal(machine.run(`grep -rlaF '${secret}' ${BACKUPS} ${BACKUPS}.files`).status, 1, secret);
  t.not(machine.run(`${first.as('production')} ls ${BACKUPS}.files`).status, 0, 'it is for root');
});

t.test('the environment is restored on a bare machine, as the page says', async (t) => {
  const second = await bootMachine('second');
  const { machine } = second;
  const page = (words: RegExp) => command('docs/recovery.md', 'Lost machine', words);
  t.equal(second.install(file).status, 0);
  const bring = (path: string) =>
    cpSync(join(first.machine.root, path), join(machine.root, path), { recursive: true });
  for (const path of [
    'var/lib/softhsm-pdfseal',
    'var/backups/pdfseal',
    'etc/pdfseal-witness',
    'var/lib/private/pdfseal-witness',
    'root/ca.pem',
    'root/trust.json',
  ])
    bring(path);
  machine.must('systemctl enable --now pdfseal-witness@audit.socket');
  const newest = machine.must(`ls ${BACKUPS} | tail -n 1`);
  const named = (block: string) => block.replaceAll(/2026-11-20T\d{6}\.000Z/g, newest);
  const restoreFiles = named(page(/restore-files/));

  machine.must(`cp -r ${BACKUPS}.files/${newest} /srv/damaged && echo >>/srv/damaged/files.tar`);
  t.match(machine.run('/usr/lib/pdfseald/restore-files production /srv/damaged'), {
    status: 1,
    stderr: /has changed since it was made/,
  });
  const asked = machine.run(restoreFiles);
  t.equal(asked.status, 1, asked.stderr);
  const missing = [...asked.stdout.matchAll(/^! {3}(.*)$/gm)].map(([, path = '']) => path);
  t.strictSame(missing, [
    ...['eu-north', 'eu-west', 'timestamp'].map((name) => `/etc/pdfseal/production.pins/${name}`),
    '/etc/pdfseal/tls/privkey.pem',
  ]);
  for (const name of ['eu-north', 'eu-west', 'timestamp'])
    machine.must(`printf %s 1234-${name} >/etc/pdfseal/production.pins/${name}`);
  bring('etc/pdfseal/tls/privkey.pem');
  machine.must(`${page(/privkey/)}${page(/softhsm/)}`);
  const again = machine.run(restoreFiles);
  t.equal(again.status, 0, again.stderr);
  t.notMatch(again.stdout, /^!/m);
  const trees = (site: Installation) =>
    site.machine.must('sha256sum /var/lib/pdfseal-signer/production/eu-*/*.trees');
  t.equal(trees(second), trees(first), 'signers remember what they signed');

  const restored = machine.run(named(page(/production restore/)));
  t.equal(restored.status, 0, restored.stderr);
  const [, leaves = ''] = /: (\d+) leaves, from/.exec(restored.stdout) ?? [];
  copyFileSync(
    join(first.machine.root, 'root/corrected-meanwhile.pdf.receipt.json'),
    join(machine.root, 'srv/newest.receipt.json'),
  );
  machine.must(page(/check --against/).replace('/path/of', '/srv'));
  machine.must(page(/accept-rollback/).replace('48213', leaves));
  machine.must(page(/systemctl enable/));
  t.equal(machine.must('ls /etc/pdfseal/production.pins'), '', 'the daemon has no PIN here either');
  for (const name of sealed) {
    const file = `${name}.pdf`;
    const receipt = `${file}.receipt.json`;
    for (const path of [file, receipt]) bring(`root/${path}`);
    machine.must(`cd && printf %s ${key} >api.key && chmod 0600 api.key
      pdfseal verify ${file} ${receipt} --trust trust.json
      job=$(jq -r .manifest.job_id ${receipt})
      curl -sf --cacert ca.pem -H "Authorization: Bearer ${key}" -o served.json https://${HOST}:${PORT}/v1/jobs/$job/receipt.json
      cmp served.json ${receipt}`);
  }
  const trustOf = (site: Installation) =>
    site.machine.must('cat /var/lib/pdfseal/production/trust.json; pdfseal-run production trust export');
  t.equal(trustOf(second), trustOf(first), 'the trust file that was handed out, and the one of now');
  submit('restored', second);
  doDuties(second);
  assertAllGood(t, second);
  const running = machine.run(restoreFiles);
  t.equal(running.status, 1);
  t.match(running.stderr, /runs: stop it first/);
});
