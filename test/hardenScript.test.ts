/** The script `harden`, over an installation and a service manager of the test's making. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ROOT } from './support/manual.ts';

const SETTINGS = `[http]
listen = ["127.0.0.1:8400"]  # file
reuse_port = false  # default
[store]
engine = "lmdb"  # default
`;

/** Runs it for the environment "production". `shown`: what `systemctl show` says of properties. */
function harden(t: Test, settings: string, shown: Record<string, string> = { PrivateNetwork: 'yes' }) {
  const dir = t.testdir({ bin: {}, lib: { 'closed.conf': '[Service]\nPrivateNetwork=yes\n' } });
  const units = join(dir, 'units');
  mkdirSync(units);
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
  const script = readFileSync(join(ROOT, 'systemd/harden'), 'utf8')
    .replaceAll('/usr/lib/pdfseald', join(dir, 'lib'))
    .replaceAll('/usr/bin/pdfseal', join(dir, 'bin/pdfseal'))
    .replaceAll('/etc/systemd/system', units);
  program('harden', script);
  const env = { PATH: `${join(dir, 'bin')}:${process.env.PATH}` };
  const { status, stdout, stderr } = spawnSync(join(dir, 'harden'), ['production'], {
    env,
    encoding: 'utf8',
  });
  const isClosed = existsSync(join(units, 'pdfseald@production.service.d/closed.conf'));
  return { status, stdout, stderr, isClosed };
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
  t.match(harden(t, SETTINGS, { PrivateNetwork: 'no' }), {
    ...{ status: 1, stderr: '' },
    stdout:
      /the daemon keeps its network.*\n! {3}PrivateNetwork=no is what systemd has for pdfseald@production\.service/,
  });
  t.end();
});
