/** What the scripts of the package do when dpkg itself upgrades from one version to another. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { buildDebianPackage } from '../systemd/bundle/debian.ts';
import { PREINST } from './journeys/installation.ts';

const INSTALLATION = fileURLToPath(new URL('vectors/installations/0.1.0.tar.gz', import.meta.url));

const OLD = '0.1.0';
const BUILD = '0.2.0~git20261127180000.abcdef123456';
const LATER = '0.2.0~git20261127180001.000000000000';
const RELEASE = '0.2.0';

/** Stand for the installed version, which writes what it is asked for, and for what makes users and folders. */
const PROGRAMS = {
  pdfseal: `echo "$*" >>/var/lib/asked
    [ ! -e /var/lib/full ] || { echo 'pdfseal: no space left on device' >&2; exit 1; }
    id -un >/var/lib/user && mkdir "$5"`,
  'systemd-sysusers': '',
  'systemd-tmpfiles': '',
};

/** Folders of the machine that are empty in there, and two environments: one in LMDB, and one whose log is in PostgreSQL. */
const SET_UP = `set -eu
  for folder in /etc /var/lib /var/backups /run /usr/share/doc; do mount -t tmpfs none $folder; done
  printf '%s\\n' root:x:0:0::/: pdfseal-production:x:4711:4711::/: >/etc/passwd
  printf '%s\\n' root:x:0: pdfseal-production:x:4711: >/etc/group
  mkdir -p /etc/pdfseal /var/lib/pdfseal/production/store /var/lib/dpkg/info /var/lib/dpkg/updates
  touch /var/lib/dpkg/status /var/lib/dpkg/available /var/lib/asked /var/lib/user
  chmod a+w /var/lib /var/lib/asked /var/lib/user
  chown -R pdfseal-production: /var/lib/pdfseal/production
  echo 'state_dir = "/var/lib/pdfseal/production"' >/etc/pdfseal/production.toml
  install() { dpkg --force-depends --install "$DEBS/$1.deb" 2>&1 && echo "done: $1" || echo "failed: $1"; }
  installed() { echo "installed: $(dpkg-query --show --showformat '\${Version} \${Status}' pdfseald)"; }
  copies() { echo "copies: $(ls /var/backups/pdfseal/production.upgrades 2>/dev/null | paste -sd ' ')"; }
`;

/** Runs the lines as root in a namespace of mounts; undefined if this user may not. */
function onMachine(t: Test, lines: string): string | undefined {
  if (process.getuid?.() !== 0 || spawnSync('unshare', ['--mount', 'true']).status !== 0) {
    t.comment('only root can mount folders over those of the machine');
    return undefined;
  }
  const dir = t.testdir();
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  for (const [name, script] of Object.entries(PROGRAMS)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(bin, name), 0o755);
  }
  for (const debian of [OLD, BUILD, LATER, RELEASE]) {
    const tree = join(dir, debian);
    mkdirSync(join(tree, 'usr/share/doc/pdfseald'), { recursive: true });
    writeFileSync(join(tree, 'usr/share/doc/pdfseald/version'), debian);
    const version = { debian, semver: debian, commit: undefined, epoch: 1 };
    const file = join(dir, `${debian}.deb`);
    buildDebianPackage({ tree, file, version, architecture: 'all' });
    if (debian === OLD) putOwnScript(tree, file);
  }
  const env = { ...process.env, DEBS: dir, PATH: `${bin}:/usr/sbin:/usr/bin:/sbin:/bin` };
  return execFileSync('unshare', ['--mount', 'sh', '-c', `${SET_UP}${lines}`], { env, encoding: 'utf8' });
}

/** The package of version 0.1.0 asks its own script, which this version cannot change any more. */
function putOwnScript(tree: string, file: string): void {
  const control = join(tree, 'DEBIAN');
  execFileSync('tar', ['-xzf', INSTALLATION, '-C', control, `./${PREINST}`]);
  chmodSync(join(control, PREINST), 0o755);
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', tree, file], { stdio: 'ignore' });
}

t.test('an older version is refused before anything is touched', async (t) => {
  const said = onMachine(
    t,
    `install ${RELEASE}
    for older in ${LATER} ${OLD}; do
      rm -rf /var/lib/asked
      install $older
      installed
      cat /usr/share/doc/pdfseald/version && echo
      [ ! -e /var/lib/asked ] || echo 'a store was copied'
    done
    dpkg --remove pdfseald 2>&1
    install ${OLD}`,
  );
  if (said === undefined) return;
  for (const older of [LATER, OLD]) {
    t.match(
      said,
      `${RELEASE} is installed; a store is never opened by an older version, so ${older} is refused`,
    );
    t.match(said, `failed: ${older}\ninstalled: ${RELEASE} install ok installed\n${RELEASE}\n`);
  }
  t.match(said, /To go back knowingly, see "Go back to an older version"/);
  t.notMatch(said, 'a store was copied');
  t.match(said, `done: ${OLD}`, 'and is installed once the newer one was removed');
});

t.test('every upgrade copies the store first, and the three newest copies are kept', async (t) => {
  const said = onMachine(
    t,
    `mkdir -p /var/backups/pdfseal/production-0.1.0/2026-11-20T023000.000Z
    install ${OLD}
    for newer in ${BUILD} ${LATER} ${RELEASE} ${RELEASE} ${RELEASE}; do
      now=$(date +%s)
      until [ "$(date +%s)" -gt "$now" ]; do sleep 0.1; done
      install $newer
      copies
    done
    cat /var/lib/asked /var/lib/user
    stat -c 'folder: %U %a' /var/backups/pdfseal/production.upgrades
    ls /var/backups/pdfseal`,
  );
  if (said === undefined) return;
  const times = '\\d{8}T\\d{6}Z';
  const first = `${times}_${OLD}_to_${BUILD}`;
  const second = `${times}_${BUILD}_to_${LATER}`;
  const third = `${times}_${LATER}_to_${RELEASE}`;
  const again = `${times}_${RELEASE}_to_${RELEASE}`;
  const found = [...said.matchAll(/^copies: (.*)$/gm)].map(([, copies]) => copies);
  t.match(found, [
    new RegExp(`^${first}$`),
    new RegExp(`^${first} ${second}$`),
    new RegExp(`^${first} ${second} ${third}$`),
    new RegExp(`^${second} ${third} ${again}$`),
    new RegExp(`^${third} ${again} ${again}$`),
  ]);
  t.match(
    said,
    /^backup --config \/etc\/pdfseal\/production\.toml --output \/var\/backups\/pdfseal\/production\.upgrades\//m,
  );
  t.match(said, /^pdfseal-production\nfolder: pdfseal-production 750$/m);
  t.match(said, /^production-0\.1\.0$/m, 'no other folder is removed');
});

t.test('without a copy nothing is upgraded, and the refusal says what to do', async (t) => {
  const said = onMachine(
    t,
    `install ${OLD}
    touch /var/lib/full
    install ${RELEASE}
    installed
    rm /var/lib/full
    mkdir /var/backups/pdfseal/production.upgrades/20261127T180000Z_0.1.0_to_0.2.0.part
    install ${RELEASE}
    installed
    copies`,
  );
  if (said === undefined) return;
  t.match(said, 'no space left on device');
  t.match(said, /there is no copy of the store of production, so nothing is upgraded.*make room for a copy/);
  t.match(said, `failed: ${RELEASE}\ninstalled: ${OLD} install ok installed\n`);
  t.match(said, `installed: ${RELEASE} install ok installed\n`, 'once there is room');
  t.match(said, /^copies: \S+_0\.1\.0_to_0\.2\.0$/m, 'and what was not finished is gone');
});

t.test('a store is copied from where the configuration has it, and one in a database is not', async (t) => {
  const said = onMachine(
    t,
    `mkdir -p /var/lib/other && mv /var/lib/pdfseal/production/store /var/lib/other/store
    chown pdfseal-production /var/lib/other
    printf 'environment = "production"\\nstate_dir = "/var/lib/other" # on another disk\\n' >/etc/pdfseal/production.toml
    printf '[store]\\nengine = "postgresql"\\n' >/etc/pdfseal/tables.toml
    install ${OLD}
    install ${RELEASE}
    copies
    chown root /var/lib/other
    install ${RELEASE}`,
  );
  if (said === undefined) return;
  t.match(said, /^copies: \S+_0\.1\.0_to_0\.2\.0$/m);
  t.match(said, /the log of tables is in PostgreSQL: no copy of it is made here/);
  t.match(said, '/var/lib/other belongs to root; make pdfseal-production the owner of it');
  t.match(said, /^failed: 0\.2\.0\n$/m);
});
