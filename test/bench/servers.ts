import { type ChildProcess, type ForkOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { makeToken } from '../support/partitions.ts';
import { DAEMON_FLAGS, openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { Connection } from './connection.ts';
import type { Server } from './http.ts';
import { nextMessage, type Workspace } from './workspace.ts';

/** pdfseald and its peers, each a process of its own on the same Node. */
export async function startServers(workspace: Workspace): Promise<Server[]> {
  const daemon = await startDaemon(workspace, { regions: ['north', 'south'] });
  return [
    daemon,
    { ...daemon, name: 'raw' },
    await startObvious(workspace),
    await startPeer(workspace, 'hashing', []),
    await startPeer(workspace, 'bare', []),
  ];
}

/** The load is one client, and is to find out what the service can do. */
export const UNLIMITED = '[clients.bench.rate]\nrequests = "unlimited"\n';

/**
 * The whole daemon, as an administrator would run it: compiled, hash workers as by default, time-stamps of the built-in authority, a
 * line per request on standard output. That goes nowhere: the bench, busy enough, should not have to read it.
 */
export async function startDaemon(
  workspace: Workspace,
  options: SandboxOptions,
  beforeStart: (sandbox: Sandbox) => Promise<void> = async () => {},
  flags: readonly string[] = [],
): Promise<Server & Pick<Sandbox, 'partitions' | 'issueKey'> & { daemon: ChildProcess; sandbox: Sandbox }> {
  const sandbox = await openSandbox({ parent: workspace.dir, tail: UNLIMITED, stamped: true, ...options });
  if (options.init === false) await sandbox.init();
  const apiKey = await sandbox.issueKey('bench');
  await beforeStart(sandbox);
  const { pid, daemon } = await spawnDaemon(workspace, sandbox, flags);
  const { partitions, port } = sandbox;
  const issueKey: Sandbox['issueKey'] = (...names) => sandbox.issueKey(...names);
  return { name: 'pdfseald', pid, daemon, port, apiKey, partitions, issueKey, sandbox };
}

/** Starts the daemon of a sandbox, and resolves when it listens. */
export async function spawnDaemon(
  workspace: Workspace,
  { configFile, port }: Pick<Sandbox, 'configFile' | 'port'>,
  flags: readonly string[] = [],
): Promise<{ pid: number; daemon: ChildProcess }> {
  const main = join(import.meta.dirname, '../../dist/main.js');
  const daemon = spawn(process.execPath, [...DAEMON_FLAGS, ...flags, main, '--config', configFile], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  workspace.onClose(() => terminate(daemon));
  await until('pdfseald listens', () => isListening(port, daemon));
  return { pid: daemon.pid ?? 0, daemon };
}

async function isListening(port: number, daemon: ChildProcess): Promise<boolean> {
  if (daemon.exitCode !== null) throw new Error(`pdfseald ended early (${daemon.exitCode})`);
  return Connection.open(port).then(
    (connection) => {
      connection.close();
      return true;
    },
    () => false,
  );
}

async function terminate(daemon: ChildProcess): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  daemon.kill('SIGTERM');
  await once(daemon, 'exit');
}

async function startObvious(workspace: Workspace): Promise<Server> {
  const folder = workspace.folder('obvious');
  const token = makeToken(folder, { label: 'obvious', region: 'local', keyLabel: 'obvious' });
  const env = { ...process.env, ...token.environment };
  return startPeer(workspace, 'obvious', [folder, JSON.stringify(token)], { env });
}

export async function startPeer(
  workspace: Workspace,
  name: Exclude<Server['name'], 'pdfseald' | 'raw' | 'postgresql'>,
  args: string[],
  options: ForkOptions = {},
): Promise<Server> {
  const child = workspace.start(`peers/${name}.ts`, args, options);
  const { port } = await nextMessage<{ port: number }>(child);
  return { name, pid: child.pid ?? 0, port, apiKey: '' };
}
