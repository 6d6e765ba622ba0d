import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MAINTAINER } from './changelog.ts';
import type { BuildVersion } from './version.ts';

const SCRIPTS = fileURLToPath(new URL('debian/', import.meta.url));

interface DebianPackage {
  /** The installation as it will lie below /. Gains a folder DEBIAN. */
  tree: string;
  /** Where the package goes. */
  file: string;
  version: BuildVersion;
  architecture: string;
}

/** Builds the package with dpkg-deb(1), which is reproducible for a given SOURCE_DATE_EPOCH. */
export function buildDebianPackage({ tree, file, version, architecture }: DebianPackage): void {
  const control = join(tree, 'DEBIAN');
  mkdirSync(control, { mode: 0o755 });
  for (const script of readdirSync(SCRIPTS)) cpSync(join(SCRIPTS, script), join(control, script));
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', control]);
  const [kilobytes = ''] = execFileSync('du', ['-sk', '--apparent-size', '--exclude=DEBIAN', tree], {
    encoding: 'utf8',
  }).split('\t');
  writeFileSync(join(control, 'control'), controlText(version.debian, architecture, kilobytes), {
    mode: 0o644,
  });
  // By these, dpkg --verify tells what is no longer as it was installed.
  const sums = "find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 md5sum";
  writeFileSync(join(control, 'md5sums'), execFileSync('sh', ['-c', sums], { cwd: tree }), { mode: 0o644 });
  // xz: the tools that keep a repository on Debian 12 refuse zstd. Level 1: a higher one takes minutes for a few megabytes.
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '-z1', '--build', tree, file], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(version.epoch) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

function controlText(version: string, architecture: string, kilobytes: string): string {
  return `Package: pdfseald
Version: ${version}
Architecture: ${architecture}
Maintainer: ${MAINTAINER}
Installed-Size: ${kilobytes}
Depends: systemd (>= 252), ${['libc6', 'libstdc++6', 'libgcc-s1'].map(asHere).join(', ')}
Suggests: chrony, softhsm2, clamav-daemon
Section: utils
Priority: optional
Description: seals PDF documents with an HSM into a tamper-evident log
 An application posts a PDF; pdfseald hashes it, has an HSM sign it into a
 tamper-evident log, time-stamps it, and returns a receipt that anyone who holds
 the document can verify offline.
 .
 Node.js and all libraries are part of this package: nothing is fetched.
`;
}

/** A library of Debian, no older than the one against which the add-ons are compiled. */
function asHere(name: string): string {
  const [, version] = execFileSync('dpkg-query', ['--show', name], { encoding: 'utf8' }).split('\t');
  return `${name} (>= ${/^[\d.]+/.exec(version ?? '')?.[0]})`;
}
