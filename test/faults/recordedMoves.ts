/**
 * What is recorded: an administrator goes back to a backup, resets the signers, and moves the log to another folder; between these, the daemon
 * seals. Each of these is a stage that is promised once it has ended well. Arguments as of `recorded.ts`.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { MOVED, type Stage } from './movedStores.ts';
import { BEGIN, PROMISED } from './trace.ts';

const STDERR = 2;

const [, , , into = '', dist] = process.argv;
const sandbox = await openSandbox({ code: dist ? { dist } : 'dist' });
const config = readFileSync(sandbox.configFile, 'utf8')
  .replace('state_dir = "state"', 'state_dir = "moved"')
  .replace('[log]', '[log]\nlast_checkpoint_file = "state/last-checkpoint"');
writeFileSync(join(sandbox.dir, MOVED), config);
mkdirSync(join(sandbox.dir, 'moved'));
const apiKey = await sandbox.issueKey();
const base = join(into, 'base');
mkdirSync(base);
execFileSync('cp', ['-a', `${sandbox.dir}/.`, base]);
writeSync(STDERR, BEGIN);
await seal(3);
await command('backup', '--output', join(sandbox.dir, 'backup'));
await seal(2);
promise('sealed');
await command('restore', '--input', join(sandbox.dir, 'backup'), '--accept-rollback');
promise('restored');
await seal(2);
promise('sealed again');
const { stdout } = await command('check', '--json');
const { leaves } = JSON.parse(stdout) as { leaves: number };
await command('hsm', 'reset-signers', `${leaves}`, '--reason', 'a drill');
promise('reset');
await command('store', 'migrate', '--to', join(sandbox.dir, MOVED));
promise('moved');
writeFileSync(join(into, 'recorded.json'), JSON.stringify({ dir: sandbox.dir, port: sandbox.port }));

async function seal(documents: number): Promise<void> {
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  for (let n = 0; n < documents; n++)
    await client.seal(Buffer.from(`%PDF-1.7\n${n}\n%%EOF\n`), { mode: 'blocking' });
  await daemon.stop();
}

async function command(...args: string[]) {
  const result = await sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  if (result.status !== 0) throw new Error(`${args[0]} ended with ${result.status}: ${result.stderr}`);
  return result;
}

function promise(stage: Stage): void {
  writeSync(STDERR, `${PROMISED}${stage}\n`);
}
