import { execFileSync } from 'node:child_process';
import { chmodSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { pinFileVersion, readPin } from '../../src/kms/pinFile.ts';

function pinFile(dir: string, content: string, mode = 0o600): string {
  const path = join(dir, 'pin');
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

t.test('a PIN is the file without its final line break', async (t) => {
  const dir = t.testdir();
  for (const [content, pin] of [
    ['1234', '1234'],
    ['1234\n', '1234'],
    ['1234\r\n', '1234'],
    [' 12 34 \n', ' 12 34 '],
    ['1234\n\n', '1234\n'],
    ['pässword\n', 'pässword'],
  ] as const) {
    t.equal(readPin(pinFile(dir, content)).value, pin, JSON.stringify(content));
  }
});

t.test('access for others, and what cannot be a PIN, is refused', async (t) => {
  const dir = t.testdir();
  for (const mode of [0o604, 0o602, 0o601, 0o644]) {
    t.throws(() => readPin(pinFile(dir, 'secret-pin', mode)), { code: 'pin_file_exposed' }, mode.toString(8));
  }
  for (const mode of [0o400, 0o600, 0o640]) t.equal(readPin(pinFile(dir, 'x', mode)).value, 'x');
  for (const content of ['', '\n', '9'.repeat(1025)]) {
    t.throws(() => readPin(pinFile(dir, content)), { code: 'pin_file_invalid' });
  }
  t.throws(() => readPin(dir), { code: 'pin_file_invalid' }, 'a folder');
  execFileSync('mkfifo', ['-m', '600', join(dir, 'fifo')]);
  t.throws(() => readPin(join(dir, 'fifo')), { code: 'pin_file_invalid' }, 'a FIFO does not block');
  t.throws(() => readPin(join(dir, 'missing')), { code: 'pin_file_unreadable' });
});

t.test('the version changes with every write and replacement', async (t) => {
  const dir = t.testdir();
  const path = pinFile(dir, '1234');
  const { version } = readPin(path);
  t.equal(await pinFileVersion(path), version);
  t.equal(readPin(path).version, version, 'reading changes nothing');

  utimesSync(path, 1, 1);
  const touched = await pinFileVersion(path);
  t.not(touched, version);

  writeFileSync(join(dir, 'new'), '4321', { mode: 0o600 });
  utimesSync(join(dir, 'new'), 1, 1);
  renameSync(join(dir, 'new'), path);
  t.not(await pinFileVersion(path), touched, 'same size and time, another file');
  t.equal(await pinFileVersion(join(dir, 'missing')), undefined);
});
