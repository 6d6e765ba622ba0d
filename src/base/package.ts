import { readFileSync } from 'node:fs';

/** The version of this package in semver form: of the build, or of the next release in a checkout. */
export function packageVersion(): string {
  return readManifest().version;
}

/** The answer to `--version`. */
export function versionLine(): string {
  const { version, commit } = readManifest();
  return `${version} (${commit ? `commit ${commit}` : 'commit unknown: not a release'})`;
}

/** `commit` is present only in a bundle whose commit is known. */
function readManifest(): { version: string; commit?: string } {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
}

/** The module of that name next to the one at `url`, with the same extension: .ts in source form, .js when compiled. */
export function siblingModule(name: string, url: string): URL {
  return new URL(`./${name}${url.slice(url.lastIndexOf('.'))}`, url);
}

/** The folder in which the package installs the manual as HTML; `index.html` is its first page. */
export const MANUAL_FOLDER = '/usr/share/doc/pdfseald/html';
