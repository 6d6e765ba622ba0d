import { execFileSync } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type Installation, ROOT, until } from './installation.ts';

/** An address that is not this machine's loopback, and yet answers: what a connection to another machine looks like to the kernel. */
const OUTSIDE = '198.51.100.7';
const PORT = 9443;
const STATE = '/var/lib/pdfseal/production';
const DROP_IN = '/etc/systemd/system/pdfseald@production.service.d/hostile.conf';

/** What a refusal looks like: what is not there to see, what others own, what the kernel or the signer does not do for this unit. */
const REFUSED =
  /^(EACCES|EPERM|ENOENT|ESRCH|EROFS|EAFNOSUPPORT|signing_refused|tree_unknown|tree_inconsistent|time_refused|token_not_allowed)$/;
/** systemd names the unit by the path of the PIN. */
const SIGNER = 'pdfseal-signer@production-local';

/** The code of the daemon is replaced, under the unit and the user of the daemon. See "What each process can do" in docs/trust.md. */
export async function tryHostileDaemon(t: Test, site: Installation): Promise<void> {
  const { machine } = site;
  const mainPid = (unit: string) => Number(machine.must(`systemctl show --value -p MainPID ${unit}`));
  machine.must('rm -f /srv/production/stop');
  await site.load('production');
  await site.sealed('production', 3);
  openOutside(site);
  await until('the outside answers others', () => machine.run(dialFromRoot()).status === 0);
  const daemon = 'pdfseald@production.service';
  const stop = `systemctl stop pdfseald@production.socket ${daemon}`;
  const sandbox = mainPid('pdfseald@sandbox.service');
  const own = mainPid('pdfseald@production.service');
  machine.must(`${stop} && cp -a ${STATE}/store /srv/store-before
    systemctl start ${SIGNER}.service`);

  // A command of an administrator, under the same user, that has the PIN.
  machine.must(`systemd-run --quiet --unit=command --property=User=pdfseal-production --property=Group=pdfseal-production \
    --property=LoadCredential=pin_local:/etc/pdfseal/signers/production/local/pin sleep infinity`);
  const plan = {
    state: STATE,
    files: [
      '/etc/pdfseal/production.pins/local',
      '/etc/pdfseal/sandbox.pins/local',
      '/etc/pdfseal/signers/production/local/pin',
      '/run/credentials/pdfseald@sandbox.service/pin_local',
      '/run/credentials/pdfseald@production.service/pin_local',
      `/run/credentials/${SIGNER}.service/pin`,
      '/run/credentials/command.service/pin_local',
      '/var/lib/pdfseal/sandbox/store/data.mdb',
      '/etc/shadow',
      '/root/first-seal.sh',
    ],
    folders: [
      '/var/lib/pdfseal/sandbox',
      '/var/lib/softhsm-pdfseal/production',
      '/var/lib/softhsm-pdfseal/sandbox',
      '/var/lib/pdfseal-signer/production/local',
      '/run/pdfseal-signers/sandbox',
      '/var/backups/pdfseal/sandbox',
      '/run/pdfseal/sandbox',
    ],
    writes: [
      '/usr/lib/pdfseald/dist/main.js',
      '/etc/pdfseal/production.toml',
      '/etc/systemd/system/pdfseald@production.service',
      '/var/lib/pdfseal/hostile',
      '/run/pdfseal/hostile',
      '/run/pdfseal-signers/production/hostile',
      '/var/lib/pdfseal-signer/production/local/hostile',
    ],
    pids: {
      'a command': mainPid('command.service'),
      init: 1,
      'the daemon of sandbox': sandbox,
      'the signer': mainPid(`${SIGNER}.service`),
    },
    signer: {
      socket: '/run/pdfseal-signers/production/local.sock',
      config: '/etc/pdfseal/production.toml',
      certificate: machine.must(`cat ${STATE}/certificates/*.pem`).split('-----')[2]?.replaceAll('\n', ''),
    },
    outside: [[OUTSIDE, PORT]],
  };
  writeFileSync(join(machine.root, 'srv/hostile.json'), JSON.stringify(plan));
  for (const name of ['hostile.mjs', 'hostileOrders.mjs'])
    copyFileSync(join(ROOT, 'test/appliance', name), join(machine.root, 'srv', name));
  machine.must(
    `chmod 0644 /srv/hostile* && printf '%s\\n' '[Service]' 'Type=exec' 'WatchdogSec=0' 'Restart=no' 'ExecStart=' \\
      'ExecStart=/usr/lib/pdfseald/bin/node /srv/hostile.mjs' >${DROP_IN}
    systemctl daemon-reload && systemctl start ${daemon}`,
  );
  t.not(mainPid(daemon), own);
  await until('it has tried everything', () => machine.run(`test -s ${STATE}/hostile.json`).status === 0);
  const results = JSON.parse(machine.must(`cat ${STATE}/hostile.json`)) as Record<string, unknown>;

  const {
    visible,
    credentials,
    'the signer can be asked': probe,
    'write to the past of the store': past,
    ...attempts
  } = results;
  for (const [what, became] of Object.entries(attempts)) t.match(became, REFUSED, what);
  t.ok(Object.keys(attempts).length > 20, `${Object.keys(attempts).length} attempts`);
  t.ok(Number(visible) < 5, 'it sees its own processes only');
  t.strictSame(credentials, [], 'it has no PIN');
  t.match(probe, /^SUCCEEDED/, 'it can reach the signer, which answers');
  const journal = machine.must('journalctl --namespace=pdfseald --no-pager -t pdfseal-signer');
  for (const seen of [
    'signBytes (signing_refused)',
    'signCheckpoint (tree_inconsistent)',
    'signToken (time_refused)',
  ])
    t.match(journal, `refused ${seen}`, 'the signer tells');
  t.match(past, /^SUCCEEDED/, 'the store is its own to write');

  // The load goes on: its next request would start the hostile program again.
  machine.must(
    `systemctl stop command.service && ${stop} && rm ${DROP_IN} ${STATE}/hostile.json && systemctl daemon-reload`,
  );
  const check = machine.run('pdfseal-run production check');
  t.equal(check.status, 1, 'and what it wrote is seen');
  t.match(check.stdout + check.stderr, /bad|damaged|does not/);
  machine.must(`rm -r ${STATE}/store && mv /srv/store-before ${STATE}/store
    systemctl start ${daemon}`);
  await site.sealed('production', 3);
  t.equal(machine.run('pdfseal-run production check').status, 0);
}

/** A listener at that address, in the machine, for root and everybody else. */
function openOutside({ machine }: Installation): void {
  machine.must('true');
  execFileSync('nsenter', ['-t', machine.leader, '-n', 'ip', 'address', 'add', `${OUTSIDE}/32`, 'dev', 'lo']);
  machine.start(
    `/usr/lib/pdfseald/bin/node -e "require('net').createServer((s) => s.on('error', () => {}).end('hello')).listen(${PORT}, '${OUTSIDE}')"`,
  );
}

function dialFromRoot(): string {
  return `/usr/lib/pdfseald/bin/node -e "require('net').connect(${PORT}, '${OUTSIDE}').on('error', () => process.exit(1)).on('connect', () => process.exit(0))"`;
}
