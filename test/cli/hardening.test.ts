/** What check-config and doctor say of units that `harden` wrote. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { diagnoseFileSystem } from '../../src/cli/doctor/fileDiagnosis.ts';
import { diagnoseHardening } from '../../src/cli/doctor/hardenDiagnosis.ts';
import { parseConfig } from '../../src/config/config.ts';

const AGAIN = 'run /usr/lib/pdfseald/harden production';

function config(
  more = '',
  listen = '["127.0.0.1:8400", "unix:/run/pdfseal-api/production/api.sock"]',
  pin = 'pin_file = "/pin"',
) {
  return parseConfig(
    `environment = "production"
state_dir = "/var/lib/pdfseal/production"
[http]
listen = ${listen}
[log]
origin = "seal.example.com/production/2026"
[[kms.partitions]]
region = "eu"
module = "/usr/lib/softhsm/libsofthsm2.so"
token_label = "vault"
key_label = "log"
${pin}
[timestamp]
authorities = []
${more}`,
    '/etc/pdfseal/production.toml',
  );
}

function machineOf(t: Test, { isHardened = true, hasFilter = true } = {}) {
  const units = t.testdir({ 'cgroup.controllers': '' });
  if (isHardened) {
    for (const kind of ['service', 'socket']) mkdirSync(join(units, `pdfseald@production.${kind}.d`));
    writeFileSync(join(units, 'pdfseald@production.service.d/closed.conf'), '');
    writeFileSync(
      join(units, 'pdfseald@production.socket.d/listen.conf'),
      '[Socket]\nListenStream=\nListenStream=127.0.0.1:8400\nListenStream=/run/pdfseal-api/production/api.sock\n',
    );
  }
  return {
    instance: 'production',
    units,
    controllers: join(units, hasFilter ? 'cgroup.controllers' : 'none'),
  };
}

t.test('units that fit are good, and those that are not hardened are not judged', (t) => {
  t.match(diagnoseHardening(config(), machineOf(t)), [{ check: 'hardening', verdict: 'good' }]);
  t.strictSame(diagnoseHardening(config(), machineOf(t, { isHardened: false })), []);
  t.end();
});

t.test('a configuration that the hardened units do not fit says to harden again', (t) => {
  const machine = machineOf(t);
  for (const [what, changed, verdict, detail] of [
    [
      'admin.listen',
      config('[admin]\nlisten = "127.0.0.1:8401"'),
      'bad',
      /no network, which admin\.listen needs/,
    ],
    ['clamd', config('[scan]\nclamd = "tcp:127.0.0.1:3310"'), 'bad', /which scan\.clamd needs/],
    ['console', config('[console]\nlisten = "127.0.0.1:8402"'), 'bad', /which console\.listen needs/],
    [
      'http.listen',
      config('', '"127.0.0.1:8500"'),
      'bad',
      /opens 127\.0\.0\.1:8400, .*but http\.listen is 127\.0\.0\.1:8500/,
    ],
    [
      'a PIN',
      config('', undefined, 'pin_credential = "pin_eu"'),
      'warning',
      /the daemon itself gets the PIN of eu\/log/,
    ],
  ] as const)
    t.match(
      diagnoseHardening(changed, machine),
      [{ check: 'hardening', verdict, detail, remedy: AGAIN }],
      what,
    );
  t.match(diagnoseHardening(config('[admin]\nlisten = "unix:/run/pdfseal/production/admin.sock"'), machine), [
    { verdict: 'good' },
  ]);
  t.end();
});

t.test('without cgroup v2, no unit filters addresses', (t) => {
  t.match(diagnoseHardening(config(), machineOf(t, { hasFilter: false })), [
    { check: 'address filter', verdict: 'warning', detail: /ignores IPAddressDeny=/, remedy: /nftables/ },
    { verdict: 'good' },
  ]);
  t.end();
});

t.test('a state folder on a file system of the network is named, where the store is in it', (t) => {
  const stateDir = t.testdir();
  const lmdb = { engine: 'lmdb', path: stateDir } as const;
  const at = (type: number) => [...diagnoseFileSystem({ stateDir, store: lmdb }, () => type)];
  for (const [type, name] of [
    [0x6969, 'NFS'],
    [0xff534d42, 'SMB'],
    [0x00c36400, 'Ceph'],
  ] as const)
    t.match(at(type), [
      { check: 'file system', verdict: 'warning', detail: `${stateDir} is on ${name}`, remedy: /state_dir/ },
    ]);
  t.strictSame(at(0xef53), [], 'ext4');
  t.strictSame([...diagnoseFileSystem({ stateDir, store: lmdb })], [], 'the disk of this test');
  const store = { engine: 'postgresql', urls: [] } as const;
  t.strictSame([...diagnoseFileSystem({ stateDir, store }, () => 0x6969)], []);
  t.strictSame([...diagnoseFileSystem({ stateDir: '/nonexistent', store: lmdb }, () => 0x6969)], []);
  t.end();
});

t.test('the unit of the daemon cannot write what its time-stamps rest on', (t) => {
  const unit = readFileSync(new URL('../../systemd/units/pdfseald@.service', import.meta.url), 'utf8');
  const { certificatesDir } = config();
  t.equal(/^ReadOnlyPaths=-(.*)$/m.exec(unit)?.[1], certificatesDir.replace('production', '%i'));
  t.end();
});
