/** Whoever is asked by SIGUSR1 to open Node's inspector does not: on its port any user of the machine would have PINs and keys. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { openSandbox } from '../support/sandbox.ts';
import { childrenOf, listenersOf } from './sockets.ts';

/** Node opens it within milliseconds. */
const WAIT_MS = 1_000;

async function signalsInVain(t: Test, pids: Record<string, number>): Promise<void> {
  const before = Object.values(pids).map(listenersOf);
  for (const pid of Object.values(pids)) process.kill(pid, 'SIGUSR1');
  await sleep(WAIT_MS);
  for (const [index, [name, pid]] of Object.entries(pids).entries())
    t.strictSame(listenersOf(pid), before[index], `${name} lives and listens where it did`);
}

function program(name: string): string {
  return fileURLToPath(new URL(`../../dist/${name}.js`, import.meta.url));
}

t.test('a signer and an administrator’s command open no inspector', async (t) => {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const daemon = await sandbox.start();
  const watch = spawn(
    process.execPath,
    [program('cli'), 'status', '--watch', '--json', '--config', sandbox.configFile],
    // A port of its own, so that none of them is in the other's way.
    { stdio: ['ignore', 'pipe', 'inherit'], env: { NODE_OPTIONS: '--inspect-port=0' } },
  );
  t.teardown(() => watch.kill('SIGKILL'));
  await new Promise((resolve) => watch.stdout.once('data', resolve));
  const [signer = -1, ...others] = childrenOf(daemon.pid);
  t.strictSame(others, []);
  await signalsInVain(t, { signer, pdfseal: watch.pid ?? -1 });
});

t.test('a daemon that is run by hand opens no inspector', async (t) => {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const daemon = spawn(program('main'), ['--config', sandbox.configFile], {
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => daemon.kill('SIGKILL'));
  const logged = createInterface({ input: daemon.stdout });
  await new Promise<void>((resolve) =>
    logged.on('line', (line) => line.includes('"event":"started"') && resolve()),
  );
  await signalsInVain(t, { daemon: daemon.pid ?? -1 });
});
