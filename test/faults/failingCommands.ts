/** Commands that write, each under system calls that fail: what ended well is whole, and what did not can be done again. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { openDatabases } from '../../src/store/lmdb/databases.ts';
import { Client } from '../support/client.ts';
import type { RunResult } from '../support/commands.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import type { Outcome } from './play.ts';
import { randomFrom } from './random.ts';
import { SITE } from './workload.ts';

interface FailingCommand {
  /** Gives it something to do. */
  before?(sandbox: Sandbox): Promise<void>;
  args(sandbox: Sandbox): string[];
  /** What is wrong after the command ended with this status. */
  wrong(sandbox: Sandbox, status: number): Promise<string | undefined> | string | undefined;
}

const COMMANDS: Record<string, FailingCommand> = {
  backup: {
    args: ({ dir }) => ['backup', '--output', join(dir, 'made')],
    wrong: async (sandbox, status) => {
      const made = join(sandbox.dir, 'made');
      if (!existsSync(made)) return status === 0 ? 'there is no backup' : undefined;
      const check = await pdfseal(sandbox, 'check', '--input', made);
      rmSync(made, { recursive: true });
      return check.status === 0 ? undefined : `the backup is not whole: ${check.stderr}`;
    },
  },
  'trust export': {
    args: ({ dir }) => ['trust', 'export', '--output', join(dir, 'trust.json')],
    wrong: ({ dir }, status) => {
      const file = join(dir, 'trust.json');
      if (!existsSync(file)) return status === 0 ? 'there is no trust file' : undefined;
      return parseTrust(readFileSync(file, 'utf8')).logs.length === 1 ? undefined : 'the trust file is empty';
    },
  },
  'keys issue': {
    args: () => ['keys', 'issue', '--client', 'somebody', '--organization', 'acme'],
    wrong: async (sandbox, status) => {
      const { stdout } = await pdfseal(sandbox, 'keys', 'list', '--json');
      return status !== 0 || stdout.includes('"somebody"') ? undefined : 'the key is gone';
    },
  },
  restore: {
    args: ({ dir }) => ['restore', '--input', join(dir, 'kept')],
    wrong: async (sandbox, status) => {
      if (status === 0) return;
      const again = await pdfseal(sandbox, 'restore', '--input', join(sandbox.dir, 'kept'));
      return again.status === 0 ? undefined : `it cannot be restored again: ${again.stderr}`;
    },
  },
  'repair-index': {
    before: async ({ dir }) => {
      const databases = await openDatabases(join(dir, 'state', 'store'), { readOnly: false });
      for (const key of Array.from(databases.scopes.getKeys({ limit: 1 })))
        await databases.scopes.remove(key);
      await databases.root.flushed;
      await databases.close();
    },
    args: () => ['repair-index', '--no-backup'],
    wrong: async (sandbox, status) => {
      if (status === 0) return;
      const again = await pdfseal(sandbox, 'repair-index', '--no-backup');
      return again.status === 0 ? undefined : `it cannot be repaired again: ${again.stderr}`;
    },
  },
};

export const COMMAND_NAMES = Object.keys(COMMANDS);

/** Not `write`: Node.js aborts where it cannot wake its own threads. */
const CALLS = [
  'fsync',
  'fdatasync',
  'pwrite64',
  'writev',
  'rename',
  'copy_file_range',
  'mkdir',
  'openat',
  'unlink',
  'link',
];
const EFFECTS = ['error=EIO', 'error=ENOSPC', 'error=EINTR', 'signal=SIGKILL'];
/** Before the calls of a command itself, Node opens so many files: mostly its own. */
const OPENS_MAX = 400;
const TRIES = 24;
/** Begins a command line whose calls fail. */
export const INJECTING = ['strace', '-D', '-f', '-q', '--seccomp-bpf', '-o', '/dev/null'];

/** Fails calls of one command, one after the other; then the store must be as good as before. */
export async function failCommand(name: string, seed: number): Promise<Outcome> {
  const { before = async () => {}, args, wrong } = COMMANDS[name] as FailingCommand;
  const random = randomFrom(seed);
  const sandbox = await openSandbox({ ...SITE, code: 'dist' });
  const endings = new Map<number | null, number>();
  const against: string[] = [];
  try {
    await prepare(sandbox);
    for (let n = 0; n < TRIES; n++) {
      const call = CALLS[Math.floor(random() * CALLS.length)] ?? '';
      const effect = EFFECTS[Math.floor(random() * EFFECTS.length)] ?? '';
      const nth = 1 + Math.floor(call === 'openat' ? random() * OPENS_MAX : random() ** 3 * 6);
      const inject = `inject=${call}:${effect}:when=${nth}`;
      await before(sandbox);
      sandbox.through = [...INJECTING, '-e', `trace=${call}`, '-e', inject];
      const { status, signal, stderr } = await pdfseal(sandbox, ...args(sandbox));
      sandbox.through = [];
      endings.set(status, (endings.get(status) ?? 0) + 1);
      // lmdb-js can damage its heap where a page cannot be written, and abort once the command has said so.
      const isAborted = signal === 'SIGABRT' && stderr.includes('its last write is on disk');
      const isKilled = isAborted || (signal === 'SIGKILL' && effect === 'signal=SIGKILL');
      if (!isKilled && (status === null || (status !== 0 && stderr === '')))
        against.push(`${inject}: it ended with ${status ?? signal}: ${stderr || 'not a word'}`);
      const problem = await wrong(sandbox, status ?? 1);
      if (problem !== undefined) against.push(`${inject} (${status}): ${problem}`);
    }
    const check = await pdfseal(sandbox, 'check');
    if (check.status !== 0)
      against.push(`the check ended with ${check.status}: ${check.stdout}${check.stderr}`);
  } finally {
    await sandbox.close();
  }
  const [good = 0, all] = [endings.get(0), TRIES];
  return { ending: `${good} of ${all} done, the others refused or killed`, against };
}

function pdfseal(sandbox: Sandbox, ...args: string[]): Promise<RunResult> {
  return sandbox.pdfseal([...args, '--config', sandbox.configFile]);
}

/** Some leaves, and a backup of them. */
async function prepare(sandbox: Sandbox): Promise<void> {
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey('first'));
  for (let n = 0; n < 3; n++) await client.seal(Buffer.from(`%PDF-1.7\n${n}\n%%EOF\n`), { mode: 'blocking' });
  await daemon.stop();
  const { status, stderr } = await pdfseal(sandbox, 'backup', '--output', join(sandbox.dir, 'kept'));
  if (status !== 0) throw new Error(stderr);
}
