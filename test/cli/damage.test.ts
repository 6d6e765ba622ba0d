/** A store that is damaged: every command says so, and what to do. */
import { cpSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readUpkeep } from '../../src/health/upkeepNotes.ts';
import type { Databases } from '../../src/store/lmdb/databases.ts';
import { openSandbox } from '../support/sandbox.ts';
import { tamper } from '../support/wholeStore.ts';

const COMMANDS = [
  ['check'],
  ['doctor'],
  ['check-config'],
  ['backup', '--output', 'copy'],
  ['audit', 'list'],
  ['audit', 'export', '--output', 'trail'],
  ['trust', 'export'],
  ['keys', 'list'],
  ['epochs', 'list'],
  ['last-checkpoint'],
  ['repair-index', '--no-backup'],
];

const sandbox = await openSandbox();
t.teardown(() => sandbox.close());
const store = join(sandbox.dir, 'state', 'store');
await sandbox.issueKey();
const file = join(store, 'data.mdb');
const whole = join(sandbox.dir, 'whole');
cpSync(store, whole, { recursive: true });

const remedy = /restore the newest backup/;

async function eachSays(t: Test, message: RegExp): Promise<void> {
  for (const command of COMMANDS) {
    const { status, stdout, stderr } = await sandbox.pdfseal([...command, '--config', sandbox.configFile], {
      cwd: sandbox.dir,
    });
    t.match(stdout + stderr, message, command.join(' '));
    t.match(stdout + stderr, remedy);
    t.ok(status === 1 || status === 2, `${command.join(' ')} ended with ${status}`);
  }
  const note = readUpkeep(join(sandbox.dir, 'state'), 'check');
  t.match(note, { good: false, undecided: message }, 'the check is on record as one that could not tell');
  const daemon = await sandbox.pdfseald();
  t.match(daemon, { status: 1, stderr: message });
  t.match(daemon.stderr, remedy);
}

async function damage(change: (databases: Databases) => Promise<unknown>): Promise<void> {
  rmSync(store, { recursive: true });
  cpSync(whole, store, { recursive: true });
  await tamper(store, change);
}

t.test('a store file that is cut short is reported by every command', async (t) => {
  truncateSync(file, 4 * 4096);
  await eachSays(t, /data\.mdb is cut short: it has 16 KiB of \d+ KiB/);
  const backup = join(sandbox.dir, 'backup');
  await damage(async () => {});
  const config = ['--config', sandbox.configFile];
  t.match(await sandbox.pdfseal(['backup', ...config, '--output', backup]), { status: 0 });
  const copied = join(backup, 'store', 'data.mdb');
  truncateSync(copied, 4 * 4096);
  t.match(await sandbox.pdfseal(['restore', ...config, '--input', backup]), {
    status: 1,
    stderr: /data\.mdb has changed since the backup was made: restore another backup/,
  });
});

t.test('a store without meta pages is reported as damaged', async (t) => {
  writeFileSync(file, readFileSync(file).fill(0, 0, 8192));
  await eachSays(t, /data\.mdb is damaged or not of LMDB/);
});

t.test('a damaged record of the store’s identity is reported', async (t) => {
  await damage(({ identity }) => identity.put(Buffer.from('identity'), Buffer.from('12345678{}')));
  await eachSays(t, /is damaged \(a record in the store is damaged: its checksum is wrong\)/);
});

t.test('a damaged record of the audit trail is reported, and the daemon does not start', async (t) => {
  await damage(async ({ trail }) => {
    for (const key of [...trail.getKeys({})]) await trail.put(key, Buffer.from('12345678{}'));
  });
  const message = /audit record 1 in the store is damaged: its checksum is wrong/;
  const config = ['--config', sandbox.configFile];
  for (const command of [
    ['audit', 'verify'],
    ['audit', 'list'],
  ])
    t.match(
      await sandbox.pdfseal([...command, ...config]),
      { status: 1, stderr: message },
      command.join(' '),
    );
  const daemon = await sandbox.pdfseald();
  t.match(daemon, { status: 1, stderr: message }, 'the daemon is not started again');
  t.match(daemon.stderr, /restore the newest backup/);
});

t.test('an API key that is not in its place is reported', async (t) => {
  await damage(async ({ credentials }) => {
    const [entry] = [...credentials.getRange({})];
    if (entry === undefined) throw new Error('there is no API key');
    const moved = Buffer.from(entry.key);
    moved.writeUInt8(moved.readUInt8(5) ^ 2, 5);
    await credentials.remove(entry.key);
    await credentials.put(moved, entry.value);
  });
  const config = ['--config', sandbox.configFile];
  const message = /API key key_\w+ in the store is damaged: it is not in its place/;
  for (const command of [
    ['audit', 'verify'],
    ['keys', 'list'],
  ])
    t.match(
      await sandbox.pdfseal([...command, ...config]),
      { status: 1, stderr: message },
      command.join(' '),
    );
});

t.test('the daemon ends with a remedy if a waiting job is not in the store', async (t) => {
  await damage(({ waiting }) => waiting.put(Buffer.alloc(16, 1), Buffer.alloc(0)));
  const daemon = await sandbox.pdfseald();
  t.match(daemon, { status: 70, stderr: /job .* waits but is not in the store/ });
  t.match(daemon.stderr, remedy);
});

t.test('a list of epochs that is damaged or gone is reported', async (t) => {
  const first = Buffer.alloc(1);
  await damage(async ({ epochs }) => {
    for (const key of [...epochs.getKeys({ start: first })]) await epochs.put(key, Buffer.from('12345678[]'));
  });
  await eachSays(t, /is damaged \(the list of epochs in the store is damaged/);
  await damage(async ({ epochs }) => {
    for (const key of [...epochs.getKeys({ start: first })]) await epochs.remove(key);
  });
  await eachSays(t, /is damaged \(the store has no epochs\)/);
});
