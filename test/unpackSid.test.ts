/** Set-up uses lists of Debian only if Debian signed them. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { changeByte } from './support/changeByte.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const COMPRESS = 'import lzma, sys; sys.stdout.buffer.write(lzma.compress(sys.stdin.buffer.read()))';

t.test('lists of Debian are used only if Debian signed them', async (t) => {
  const dir = t.testdir({ mirror: {}, tree: { own: 'a file' } });
  const home = mkdtempSync(join(tmpdir(), 'pdfseal-gpg-')); // Short enough for a socket.
  const gpg = (...args: string[]) => execFileSync('gpg', ['--homedir', home, '--batch', '--quiet', ...args]);
  t.teardown(() => {
    spawnSync('gpgconf', ['--homedir', home, '--kill', 'all']);
    rmSync(home, { recursive: true, force: true });
  });
  for (const name of ['archive', 'stranger'])
    gpg(
      '--pinentry-mode',
      'loopback',
      '--passphrase',
      '',
      '--quick-generate-key',
      name,
      'ed25519',
      'sign',
      'never',
    );
  const keyring = join(dir, 'keyring.gpg');
  gpg('--output', keyring, '--export', 'archive');

  const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
  mkdirSync(join(dir, 'tree/DEBIAN'));
  const control = `Package: sample\nVersion: 1\nArchitecture: all\nMaintainer: Test <test@example.com>\nDescription: a sample\n`;
  writeFileSync(join(dir, 'tree/DEBIAN/control'), control);
  const mirror = join(dir, 'mirror');
  execFileSync('dpkg-deb', ['--build', join(dir, 'tree'), join(mirror, 'sample.deb')]);
  const lists = join(mirror, `dists/sid/main/binary-${architecture}`);
  mkdirSync(lists, { recursive: true });
  const sha256 = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex');
  const list = join(lists, 'Packages.xz');
  const publish = (key: string, sum = sha256(join(mirror, 'sample.deb'))) => {
    const entry = `Package: sample\nFilename: sample.deb\nSHA256: ${sum}\n`;
    writeFileSync(list, execFileSync('python3', ['-c', COMPRESS], { input: entry }));
    const name = `main/binary-${architecture}/Packages.xz`;
    const release = `Suite: unstable\nMD5Sum:\n 0 0 ${name}\nSHA256:\n ${sha256(list)} 0 ${name}\n`;
    writeFileSync(join(dir, 'Release'), release);
    const into = ['--yes', '--local-user', key, '--output', join(mirror, 'dists/sid/InRelease')];
    gpg('--pinentry-mode', 'loopback', '--passphrase', '', ...into, '--clear-sign', join(dir, 'Release'));
  };
  const unpack = () => {
    const folder = join(dir, 'unpacked');
    const env = {
      ...process.env,
      PDFSEALD_DEBIAN_MIRROR: `file://${mirror}`,
      PDFSEALD_DEBIAN_KEYRING: keyring,
    };
    const args = ['test/unpackSid.sh', folder, 'sample', 'former.deb', '0'.repeat(64)];
    const { status, stderr } = spawnSync('sh', args, { cwd: ROOT, env, encoding: 'utf8' });
    return { status, stderr, isUnpacked: existsSync(join(folder, 'own')), isThere: existsSync(folder) };
  };
  const refused = { status: 1, isThere: false };

  publish('archive');
  t.match(unpack(), { status: 0, isUnpacked: true });
  publish('stranger');
  t.match(unpack(), { ...refused, stderr: /are not signed by a key in .*keyring\.gpg/ });
  publish('archive', '0'.repeat(64));
  t.match(unpack(), { ...refused, stderr: /sample\.deb of .* is not the package that is expected/ });
  publish('archive');
  changeByte(list);
  t.match(unpack(), { ...refused, stderr: /Packages\.xz of .* is not the one that was signed/ });
  publish('archive');
  const signed = sha256(list);
  changeByte(list);
  const inRelease = join(mirror, 'dists/sid/InRelease');
  writeFileSync(inRelease, readFileSync(inRelease, 'utf8').replace(signed, sha256(list)));
  t.match(unpack(), { ...refused, stderr: /are not signed/ });
});
