import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { build, type Metafile } from 'esbuild';

/** What Piscina starts as a thread, by a path that it puts together when it runs. */
const THREADS = ['node_modules/piscina/dist/worker.js'];

/**
 * Production packages of which at least one file is loaded when pdfseald runs, and the files of each that are shipped: what is
 * loaded, the package.json files by which Node finds it, and the legal texts. Folders and files are relative to `root`.
 */
export async function shippedModules(root: string): Promise<Map<string, string[]>> {
  const inputs = await reachableInputs(root);
  const imported = Object.entries(inputs)
    .filter(([path]) => path.startsWith('dist/'))
    .flatMap(([, { imports }]) => imports.filter(({ path }) => path.startsWith('node_modules/')))
    .flatMap(({ original }) => original ?? []);
  const loaded = [
    ...Object.keys(inputs).filter((path) => path.startsWith('node_modules/')),
    ...mappedAddons(root, [...new Set(imported)]),
  ];
  const { packages: locked } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  // What a package would use if it were there, and only tests have, is not in a production installation.
  const folders = new Set(loaded.map(packageOf).filter((folder) => locked[folder].dev !== true));
  return new Map(
    [...folders].sort().map((folder) => {
      const used = loaded.filter((file) => packageOf(file) === folder);
      const others = filesOf(root, folder).filter((file) => isLegal(file) || isManifestOf(file, used));
      return [folder, [...new Set([...used, ...others])].sort()];
    }),
  );
}

/** Each file that an `import` or a `require` of the compiled sources leads to; esbuild finds them as Node does. Throws where one is not found. */
async function reachableInputs(root: string): Promise<Metafile['inputs']> {
  const sources = readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.js'))
    .map((path) => join('dist', path));
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [...sources, ...THREADS],
    bundle: true,
    write: false,
    outdir: 'unused',
    metafile: true,
    platform: 'node',
    format: 'esm',
    conditions: ['node-addons', 'module-sync'],
    mainFields: ['main'],
    // Node loads a module whether or not its exports are used, and whether or not its package says that loading does nothing.
    treeShaking: false,
    ignoreAnnotations: true,
    loader: { '.node': 'copy' },
    logLevel: 'error',
  });
  return metafile.inputs;
}

/**
 * The add-ons that Node maps when it imports all of `specifiers`, and the entry points of their packages. Which of several add-ons
 * a package takes it decides when it runs, by the architecture, the C library and the version of Node.
 */
function mappedAddons(root: string, specifiers: readonly string[]): string[] {
  const script = `
    for (const specifier of ${JSON.stringify(specifiers)}) await import(specifier);
    console.log(JSON.stringify(process.report.getReport().sharedObjects));`;
  // Nothing is loaded that a variable of the environment asks for.
  const node = ['-i', join(root, 'node_modules/.bin/node'), '--input-type=module', '-e', script];
  const output = execFileSync('env', node, { cwd: root, encoding: 'utf8' });
  const addons = (JSON.parse(output) as string[])
    .map((path) => relative(root, path))
    .filter((path) => path.startsWith('node_modules/') && path.endsWith('.node'));
  // A package that has nothing but an add-on is found by its entry point, which nothing loads.
  const { resolve } = createRequire(join(root, 'package.json'));
  return addons.flatMap((addon) => [addon, relative(root, resolve(join(root, packageOf(addon))))]);
}

/** `node_modules/koa/node_modules/debug/src/index.js` is of `node_modules/koa/node_modules/debug`. */
function packageOf(file: string): string {
  const [folder = ''] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? [];
  return folder;
}

/** Every file of a package, without those of the packages inside of it. */
function filesOf(root: string, folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => packageOf(file) === folder);
}

/** A licence or a notice, wherever it lies in the package: that of the C library in an add-on too. */
export function isLegal(file: string): boolean {
  return /^(licen[cs]e|copying|copyright|notice)([.-]|$)/i.test(basename(file)) && !file.includes('/.');
}

/** Node asks the nearest package.json above a file what kind of module it is, and that of the package for its entry points. */
function isManifestOf(file: string, loaded: readonly string[]): boolean {
  return basename(file) === 'package.json' && loaded.some((other) => other.startsWith(`${dirname(file)}/`));
}
