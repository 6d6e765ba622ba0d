import t from 'tap';
import { Client } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { ServiceManager } from './serviceManager.ts';

const DOCUMENT = Buffer.from('%PDF-1.7\na small document\n%%EOF\n');
const WATCHDOG_MS = 3000;

t.test('a service manager is notified of start, life and stop, and its socket stays open', async (t) => {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const manager = new ServiceManager(sandbox, { watchdogMs: WATCHDOG_MS });
  t.teardown(() => manager.close());
  const url = `http://127.0.0.1:${await manager.port()}`;
  const seal = async () => {
    const client = await Client.connect(url, apiKey);
    return (await client.seal(DOCUMENT, { mode: 'blocking' })).status;
  };
  const beats = () => manager.heard.filter((said) => said.startsWith('WATCHDOG=1\n')).length;

  const first = await manager.start();
  t.teardown(() => end(first));
  await until('it is ready', () => manager.heard.length > 0);
  t.equal(manager.heard[0], 'READY=1\nSTATUS=0 jobs wait\n');
  t.equal(await seal(), 202, 'it serves the socket it was given');
  await until('it lives', () => beats() > 0);
  process.kill(first, 'SIGTERM');
  t.strictSame(await manager.ended(1), [0]);
  t.match(manager.heard.at(-1), 'STOPPING=1\n');

  // Nobody serves now, and the kernel holds what comes.
  const early = seal();
  const second = await manager.start();
  t.teardown(() => end(second));
  t.equal(await early, 202, 'what came between two daemons is served by the next');
  await until('the second one lives', () => beats() > 1);
  process.kill(second, 'SIGSTOP');
  const before = beats();
  await new Promise((resolve) => setTimeout(resolve, WATCHDOG_MS));
  t.ok(beats() <= before + 1, 'a daemon that hangs is silent for as long as the watchdog waits');
});

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
