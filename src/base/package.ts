import { readFileSync } from 'node:fs';

/** The version of this package. */
export function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** The module of that name beside the one at `url`, with its extension: .ts as it is, .js once compiled. */
export function siblingModule(name: string, url: string): URL {
  return new URL(`./${name}${url.slice(url.lastIndexOf('.'))}`, url);
}

/** Where the package installs the manual, as HTML; `index.html` is its first page. */
export const MANUAL_FOLDER = '/usr/share/doc/pdfseald/html';
