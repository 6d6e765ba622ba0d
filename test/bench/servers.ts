import type { ForkOptions } from 'node:child_process';
import { makeToken } from '../support/softhsm.ts';
import type { Server } from './http.ts';
import { nextMessage, type Workspace } from './workspace.ts';

/** pdfseald and its two peers, each a process of its own on the same Node. */
export async function startServers(workspace: Workspace): Promise<Server[]> {
  return [await startBare(workspace), await startObvious(workspace)];
}

function startBare(workspace: Workspace): Promise<Server> {
  return startPeer(workspace, 'bare', []);
}

function startObvious(workspace: Workspace): Promise<Server> {
  const folder = workspace.folder('obvious');
  const token = makeToken(folder, { label: 'obvious', region: 'local', keyLabel: 'obvious' });
  const env = { ...process.env, ...token.environment };
  return startPeer(workspace, 'obvious', [folder, JSON.stringify(token)], { env });
}

async function startPeer(
  workspace: Workspace,
  name: 'bare' | 'obvious',
  args: string[],
  options: ForkOptions = {},
): Promise<Server> {
  const child = workspace.start(`peers/${name}.ts`, args, options);
  const { port } = await nextMessage<{ port: number }>(child);
  return { name, pid: child.pid ?? 0, port, apiKey: '' };
}
