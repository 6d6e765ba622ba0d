/** The script `harden`, over an installation and a service manager of the test's making. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ROOT } from './support/manual.ts';

const DEVICES = join(ROOT, 'systemd/devices');

const SETTINGS = `[http]
listen = ["127.0.0.1:8400"]  # file
reuse_port = false  # default
[store]
engine = "lmdb"  # default
`;

interface Machine {
  /** The answers of `systemctl show` about properties. */
  shown?: Record<string, string>;
  args?: readonly string[];
  /** Names of the PINs that have signers. */
  signers?: readonly string[];
  /** All of the machine's groups. */
  groups?: readonly string[];
}

/** Runs it for the environment "production". */
function harden(
  t: Test,
  settings: string,
  { shown = { PrivateNetwork: 'yes' }, args = [], signers = [], groups = [] }: Machine = {},
) {
  const dir = t.testdir({
    ...{ bin: {}, units: {}, lib: { 'closed.conf': '[Service]\nPrivateNetwork=yes\n' } },
    etc: { signers: { production: Object.fromEntries(signers.map((name) => [name, {}])) } },
  });
  const units = join(dir, 'units');
  cpSync(DEVICES, join(dir, 'lib/devices'), { recursive: true });
  const program = (path: string, text: string) => {
    writeFileSync(join(dir, path), `#!/bin/sh\n${text}\n`);
    chmodSync(join(dir, path), 0o755);
  };
  writeFileSync(join(dir, 'settings'), settings);
  program('bin/id', 'echo 0');
  program('lib/make-environment', ':');
  program('bin/pdfseal', `cat ${join(dir, 'settings')}`);
  const cases = Object.entries(shown).map(([name, value]) => `*--property=${name}' '*) echo ${value};;`);
  program('bin/systemctl', `case "$*" in ${cases.join(' ')} is-*) exit 1;; esac`);
  program('bin/getent', `case "$2" in ${groups.join('|') || '-'}) ;; *) exit 2;; esac`);
  const script = readFileSync(join(ROOT, 'systemd/harden'), 'utf8')
    .replaceAll('/usr/lib/pdfseald', join(dir, 'lib'))
    .replaceAll('/usr/bin/pdfseal', join(dir, 'bin/pdfseal'))
    .replaceAll('/etc/systemd/system', units)
    .replaceAll('/etc/pdfseal/', `${join(dir, 'etc')}/`);
  program('harden', script);
  const env = { PATH: `${join(dir, 'bin')}:${process.env.PATH}` };
  const { status, stdout, stderr } = spawnSync(join(dir, 'harden'), [...args, 'production'], {
    env,
    encoding: 'utf8',
  });
  const isClosed = existsSync(join(units, 'pdfseald@production.service.d/closed.conf'));
  const dropIns = Object.fromEntries(
    globSync('*.service.d/device.conf', { cwd: units }).map((path) => [
      path.split('.service')[0],
      readFileSync(join(units, path), 'utf8'),
    ]),
  );
  return { status, stdout, stderr, isClosed, dropIns };
}

t.test('a daemon whose network was taken away ends the script with 0', (t) => {
  t.match(harden(t, SETTINGS), {
    ...{ status: 0, stderr: '', isClosed: true },
    stdout: /^systemd opens 127\.0\.0\.1:8400 for pdfseald@production, which has no network of its own\.$/m,
  });
  t.end();
});

t.test('a setting that needs the network ends the script with 1, and is named', (t) => {
  const settings = `${SETTINGS}[admin]\nlisten = "127.0.0.1:8401"  # file\n`;
  t.match(harden(t, settings), {
    ...{ status: 1, stderr: '', isClosed: false },
    stdout:
      /^! pdfseald@production keeps its network.*\n! {3}admin\.listen = "127\.0\.0\.1:8401": it needs the network$/m,
  });
  t.end();
});

t.test('a drop-in that gives the network back ends the script with 1, and is named', (t) => {
  t.match(harden(t, SETTINGS, { shown: { PrivateNetwork: 'no' } }), {
    ...{ status: 1, stderr: '' },
    stdout:
      /the daemon keeps its network.*\n! {3}PrivateNetwork=no is what systemd has for pdfseald@production\.service/,
  });
  t.end();
});

t.test('--device lets one signer, or every signer, use a device', (t) => {
  const [eu, us] = ['pdfseal-signer@production-eu\\x2dwest', 'pdfseal-signer@production-us'];
  const signers = ['eu-west', 'us'];
  const all = harden(t, SETTINGS, { args: ['--device', 'yubihsm'], signers });
  t.match(all, { status: 0, stderr: '', isClosed: true });
  t.strictSame(Object.keys(all.dropIns).sort(), [eu, us]);
  t.match(all.stdout, /^The signer of "us" may use a device of the kind yubihsm: \/\S+device\.conf$/m);

  const each = harden(t, SETTINGS, {
    args: ['--device', 'eu-west=luna:192.0.2.10,2001:db8::1', '--device', 'us=tpm'],
    signers,
    groups: ['tss', 'hsmusers'],
  });
  t.equal(each.status, 0, each.stderr);
  t.match(each.dropIns[eu], /^IPAddressAllow=192\.0\.2\.10 2001:db8::1$/m);
  t.match(each.dropIns[us], /^DeviceAllow=\/dev\/tpmrm0 rw$/m);
  t.end();
});

t.test('--device that cannot be granted is refused before anything changes', (t) => {
  for (const [device, stderr, machine] of [
    ['abacus', /there are luna nshield opencryptoki tpm yubihsm$/m],
    ['../closed', /there are luna/],
    ['luna', /name its addresses, such as luna:192\.0\.2\.10/, { groups: ['hsmusers'] }],
    ['luna:hsm.example', /write addresses with commas/, { groups: ['hsmusers'] }],
    ['yubihsm:192.0.2.1', /yubihsm takes no addresses/],
    ['tpm', /there is no group tss: install the software of the device first/],
  ] as const) {
    const refused = harden(t, SETTINGS, { args: ['--device', device], signers: ['us'], ...machine });
    t.match(refused, { status: 64, stdout: '', stderr, isClosed: false, dropIns: {} }, device);
    t.match(refused.stderr, /^harden \[--device/m);
  }
  const unknown = harden(t, SETTINGS, { args: ['--device', 'mars=yubihsm'], signers: ['us', 'eu'] });
  t.match(unknown, { status: 64, stderr: /--device mars=yubihsm: no such signer; there are: eu us$/m });
  t.end();
});

t.test('the drop-ins of devices are of directives that systemd knows, and leave little exposed', (t) => {
  const units = t.testdir();
  const read = (name: string) => readFileSync(join(ROOT, 'systemd/units', name), 'utf8');
  const service = read('pdfseal-signer@.service').replace(/^ExecStart=.*/m, 'ExecStart=/bin/true');
  writeFileSync(join(units, 'pdfseal-signer@.service'), service);
  writeFileSync(join(units, 'pdfseal-signer@.socket'), read('pdfseal-signer@.socket'));
  const analyze = (...args: string[]) =>
    spawnSync('systemd-analyze', args, {
      env: { PATH: process.env.PATH, SYSTEMD_UNIT_PATH: `${units}:` },
      encoding: 'utf8',
    });
  const names = readdirSync(DEVICES);
  t.ok(names.length > 4);
  for (const name of names) {
    const dropIn = readFileSync(join(DEVICES, name), 'utf8').replace('@ADDRESSES@', '192.0.2.10');
    const kind = name.replace('.conf', '');
    const folder = join(units, `pdfseal-signer@${kind}.service.d`);
    mkdirSync(folder);
    writeFileSync(join(folder, 'device.conf'), dropIn);
    const verified = analyze('verify', '--man=no', `pdfseal-signer@${kind}.service`);
    t.equal(verified.stderr, '', name);
    t.equal(verified.status, 0, name);
    const whole = join(units, `pdfseal-whole-${kind}.service`);
    writeFileSync(whole, `${service}\n${dropIn}`);
    const security = analyze('security', '--offline=yes', '--no-pager', '--threshold=20', whole);
    t.equal(security.status, 0, `${name}: ${security.stdout.split('\n').at(-2)}`);
  }
  writeFileSync(join(units, 'pdfseal-signer@tpm.service.d/device.conf'), '[Service]\nDeviceAlow=/dev/null\n');
  t.match(
    analyze('verify', '--man=no', 'pdfseal-signer@tpm.service').stderr,
    /DeviceAlow/,
    'it would say so',
  );
  t.end();
});
