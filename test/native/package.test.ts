import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import t from 'tap';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The package as `npm pack` makes it, unpacked, with its dependencies. */
function install(dir: string): string {
  const pack = ['pack', '--silent', '--ignore-scripts', '--pack-destination', dir];
  const tarball = execFileSync('npm', pack, { cwd: ROOT, encoding: 'utf8' }).trim();
  execFileSync('tar', ['-xzf', join(dir, tarball), '-C', dir]);
  const installed = join(dir, 'package');
  symlinkSync(join(ROOT, 'node_modules'), join(installed, 'node_modules'));
  return installed;
}

t.test('the package brings the compiled add-on, and its workers find it', async (t) => {
  const installed = install(t.testdir());
  const compiled = (path: string) => import(pathToFileURL(join(installed, 'dist', path)).href);
  const { chooseEngine }: typeof import('../../src/hash/choose.ts') = await compiled('hash/choose.js');
  const { openHashPool }: typeof import('../../src/hash/pool.ts') = await compiled('hash/pool.js');
  const warnings: unknown[] = [];
  const logger = { warn: (warning: unknown) => void warnings.push(warning) };
  const onTrouble = (error: unknown) => t.fail(String(error));

  t.equal(chooseEngine('native', logger), 'native');
  const pool = await openHashPool({ workers: 1, engine: 'native', crossCheckShare: 1, onTrouble });
  t.teardown(() => pool.close());
  const hasher = pool.hasher();
  hasher.update(Buffer.from('abc'));
  t.match(await hasher.digest(), { sha256: createHash('sha256').update('abc').digest('hex') });

  rmSync(join(installed, 'native/build'), { recursive: true });
  const script = `import { chooseEngine } from './dist/hash/choose.js';
    console.log(chooseEngine('auto', { warn: (_, message) => console.log(message) }));`;
  const alone = execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: installed });
  t.match(`${alone}`, /^the native hash engine cannot be used.*\nwasm\n$/);
  t.same(warnings, []);
});
