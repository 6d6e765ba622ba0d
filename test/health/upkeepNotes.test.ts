import { readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { noteUpkeep, readUpkeep } from '../../src/health/upkeepNotes.ts';

const note = { finished_at: '2026-11-21T07:00:00.000Z', good: true, tree_size: 7 };

t.test('a note replaces the one before, and anyone can read it', async (t) => {
  const dir = t.testdir();
  t.equal(readUpkeep(dir, 'check'), undefined);
  const umask = process.umask(0o077);
  t.teardown(() => process.umask(umask));
  noteUpkeep(dir, 'check', { ...note, good: false });
  noteUpkeep(dir, 'check', note);
  t.strictSame(readUpkeep(dir, 'check'), note);
  t.equal(readUpkeep(dir, 'backup'), undefined);
  t.equal(statSync(join(dir, 'last-check.json')).mode & 0o777, 0o644);
});

t.test('symbolic links are not followed', async (t) => {
  const dir = t.testdir({ secret: 'precious' });
  const secret = join(dir, 'secret');
  const { mode } = statSync(secret);
  for (const name of ['last-backup.json.part', 'last-backup.json']) symlinkSync(secret, join(dir, name));
  noteUpkeep(dir, 'backup', note);
  t.strictSame(readUpkeep(dir, 'backup'), note);
  t.equal(readFileSync(secret, 'utf8'), 'precious');
  t.equal(statSync(secret).mode, mode);
});
