/** A program that the service manager would start with a socket: it is started with one, as descriptor 3. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

export interface Unit {
  /** Path of the socket. */
  socket: string;
  process: ChildProcess;
  /** Its standard error so far. */
  errors(): string;
}

/** Ends with the test. */
export async function startUnit(
  t: Test,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Unit> {
  // The path of a socket has at most 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), 'unit-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const [socket, draft] = [join(folder, 's'), join(folder, 'draft')];
  const server = createServer().listen(draft);
  await once(server, 'listening');
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle;
  const process_ = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe', fd], env });
  t.teardown(() => process_.kill('SIGKILL'));
  // Only the unit is to accept; what closes here would take the name with it.
  renameSync(draft, socket);
  server.close();
  let errors = '';
  process_.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  return { socket, process: process_, errors: () => errors };
}
