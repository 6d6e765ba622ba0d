import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { initKey } from '../../src/kms/keyOperations.ts';
import { behindFaulty, buildFaultyModule, faultsPlayed, setFault } from '../support/faults.ts';
import { makeToken } from '../support/partitions.ts';
import { hangModule } from '../support/tamper.ts';
import { until } from '../support/until.ts';

const PARENT = fileURLToPath(new URL('./partitionsParent.ts', import.meta.url));

for (const hang of [undefined, 'on its main thread', 'in a signature']) {
  t.test(
    `a killed parent leaves no child behind${hang ? ` that hangs in its module, ${hang}` : ''}`,
    async (t) => {
      const plain = makeToken(t.testdir(), { label: 'vault', region: 'region-0', keyLabel: 'log' });
      const token = behindFaulty(plain, buildFaultyModule(t.testdirName));
      const key = await initKey(token, 'ed25519');
      const parent = spawn(process.execPath, [PARENT, JSON.stringify({ token, key })], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      const [line] = await once(parent.stdout, 'data');
      const pid = Number(line);
      t.ok(existsSync(`/proc/${pid}`));

      if (hang) {
        if (hang === 'in a signature') setFault(token, { overtaken: 'by a signature' });
        else hangModule(token);
        parent.stdin.write('sign\n');
        await once(parent.stdout, 'data');
        if (hang === 'in a signature')
          await until('the signature hangs', () => faultsPlayed(token, 'overtake') > 0);
        else await until('the child blocked on the FIFO', () => isBlocked(pid));
      }
      parent.kill('SIGKILL');
      await until('the child gone', () => !existsSync(`/proc/${pid}`));
      t.pass('gone');
    },
  );
}

/** Number of the system call that waits for a FIFO's other end. */
const OPENAT = process.arch === 'x64' ? '257' : '56';

function isBlocked(pid: number): boolean {
  return readFileSync(`/proc/${pid}/syscall`, 'utf8').startsWith(`${OPENAT} `);
}
