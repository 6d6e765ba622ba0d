import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { probeToken } from '../../src/kms/keyOperations.ts';
import { withPinFile } from '../../src/kms/pinFile.ts';
import { makeToken } from '../support/partitions.ts';

function pinFile(dir: string, content: string, mode = 0o600): string {
  const path = join(dir, 'pin');
  rmSync(path, { force: true });
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

t.test('a PIN is the file without its final line break', async (t) => {
  const names = { label: 'vault', region: 'eu', keyLabel: 'log' };
  for (const [content, pin] of [
    ['1234', '1234'],
    ['1234\n', '1234'],
    ['1234\r\n', '1234'],
    [' 12 34 \n', ' 12 34 '],
    ['pässword\n', 'pässword'],
  ] as const) {
    const token = makeToken(t.testdir(), names, pin);
    writeFileSync(token.pinFile, content);
    await t.resolves(probeToken(token), JSON.stringify(content));
  }
  const token = makeToken(t.testdir(), names);
  for (const [content, why] of [
    ['\n', 'is empty'],
    ['\r\n', 'is empty'],
    ['1234\n5678\n', 'has more than one line'],
    ['1234\n\n', 'has more than one line'],
    ['1234\r5678', 'has more than one line'],
  ] as const) {
    writeFileSync(token.pinFile, content);
    await t.rejects(
      probeToken(token),
      { message: new RegExp(`${why} \\(pin_file_invalid\\)`) },
      JSON.stringify(content),
    );
  }
});

t.test('a file that others can read, or that cannot be a PIN, is refused', async (t) => {
  const dir = t.testdir();
  const use = (path: string) => withPinFile(path, 'source', (file) => readFileSync(file, 'utf8'));
  for (const mode of [0o604, 0o602, 0o601, 0o644]) {
    t.throws(() => use(pinFile(dir, 'secret-pin', mode)), { code: 'pin_file_exposed' }, mode.toString(8));
  }
  for (const mode of [0o400, 0o600, 0o640]) t.equal(use(pinFile(dir, 'x', mode)), 'x');
  for (const content of ['', '9'.repeat(1025)])
    t.throws(() => use(pinFile(dir, content)), { code: 'pin_file_invalid' });
  t.throws(() => use(dir), { code: 'pin_file_invalid' }, 'a folder');
  execFileSync('mkfifo', ['-m', '600', join(dir, 'fifo')]);
  t.throws(() => use(join(dir, 'fifo')), { code: 'pin_file_invalid' }, 'a FIFO does not block');
  t.throws(() => use(join(dir, 'missing')), { code: 'pin_file_unreadable' });
});
