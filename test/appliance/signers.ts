import type { Test } from 'tap';
import { type Installation, until } from './installation.ts';

const UNIT = 'pdfseal-signer@sandbox-local';
const CREDENTIALS = `/run/credentials/${UNIT}.service`;

/** The PIN of an environment that seals moves to a signer of its own, and whoever takes over the daemon does not get at it. */
export async function trySigners(t: Test, site: Installation): Promise<void> {
  const { machine } = site;
  const separate = '/usr/lib/pdfseald/separate-signer sandbox local';
  const pid = () => machine.must(`systemctl show --value --property=MainPID ${UNIT}.service`);

  await t.test('the signer takes over, and the command can be repeated', async (t) => {
    t.match(machine.run('/usr/lib/pdfseald/separate-signer sandbox other'), {
      status: 64,
      stderr: /there is no PIN .*other; there are: local\./,
    });
    t.match(machine.must(separate), 'Restart the daemon now: systemctl restart pdfseald@sandbox.service');
    t.match(machine.must(separate), /runs as pdfsign-sandbox-local/);
    machine.must('systemctl restart pdfseald@sandbox');
    await site.sealed('sandbox', 3);
    t.not(pid(), '0');
    t.match(machine.must('pdfseal-run sandbox hsm list'), /^log .* ready /m);
    site.exposesAtMost(UNIT, 3);
    const swappable = "journalctl --namespace=pdfseald --no-pager | grep 'could have been swapped'";
    t.equal(machine.run(swappable).stdout, '', 'its memory for the PIN is locked, as that of the daemon was');
  });

  await t.test('nobody else gets at the PIN, the memory and the token', async (t) => {
    const daemon = site.show('sandbox', 'MainPID');
    // As code that runs in the daemon: its user, and what its unit sees of the files.
    const inDaemon = (command: string) =>
      machine.run(
        `nsenter --target ${daemon} --mount --setgid $(id -g pdfseal-sandbox) --setuid $(id -u pdfseal-sandbox) ${command}`,
      );
    const signer = machine.must(`pgrep -P ${pid()} | head -n 1`);
    t.equal(inDaemon('ls /var/lib/pdfseal/sandbox/store').status, 0, 'what it may');
    t.not(inDaemon('touch /var/lib/pdfseal/sandbox/certificates/x').status, 0, 'it writes no certificates');
    t.equal(inDaemon('ls /run/credentials/pdfseald@sandbox.service').stdout, '', 'it has no PIN');
    for (const command of [
      'cat /etc/pdfseal/signers/sandbox/local/pin',
      `cat ${CREDENTIALS}/pin`,
      'ls /var/lib/softhsm-pdfseal/sandbox',
      'ls /var/lib/pdfseal-signer/sandbox/local',
      `cat /proc/${signer}/environ`,
      `head -c 1 /proc/${signer}/mem`,
      `bash -c "kill -0 ${signer}"`,
    ]) {
      t.not(inDaemon(command).status, 0, `the daemon: ${command}`);
      t.not(machine.run(`${site.as('sandbox')} ${command}`).status, 0, `its user: ${command}`);
    }
    t.equal(machine.must(`stat -c %U /proc/${signer}/mem`), 'root', 'nor does another process of its user');
    const connect =
      'curl -s --max-time 2 --unix-socket /run/pdfseal-signers/sandbox/local.sock http://signer/';
    t.equal(machine.run(`${site.as('production')} ${connect}`).status, 7, 'no other environment asks it');
  });

  await t.test('a signer that is killed is back, and the daemon goes on', async (t) => {
    const daemon = site.show('sandbox', 'MainPID');
    const child = () => machine.must(`pgrep -P ${pid()} | head -n 1`);
    for (const find of [child, pid]) {
      machine.must(`kill -KILL ${find()}`);
      await site.sealed('sandbox', 3);
    }
    t.equal(site.show('sandbox', 'MainPID'), daemon);
    await until('it runs', () => pid() !== '0');
  });
}
