import { readFileSync } from 'node:fs';

/** Whom the package names. No address of the project is public; `.invalid` is no one's (RFC 2606). */
export const MAINTAINER = 'pdfseald maintainers <maintainers@pdfseald.invalid>';

const SECTION = /^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?\n+/m;

/**
 * Debian's changelog of the package (deb-changelog(5)), of the sections of CHANGELOG.md. What is not released yet is the entry of the
 * version that is built. `epoch`: time of the build, seconds since 1970. Throws Error if the newest section is of another release.
 */
export function changelogText(version: string, epoch: number): string {
  const text = readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8');
  const [, ...sections] = text.split(new RegExp(SECTION, 'gm'));
  const entries: string[] = [];
  for (let at = 0; at < sections.length; at += 3) {
    const [name = '', date, changes = ''] = sections.slice(at, at + 3);
    const time = date === undefined ? epoch * 1000 : Date.parse(date);
    entries.push(entry(date === undefined ? version : name, time, changes));
  }
  if (!entries[0]?.startsWith(`pdfseald (${version}) `))
    throw new Error(`the newest section of CHANGELOG.md is neither [Unreleased] nor [${version}]`);
  return entries.join('\n');
}

function entry(version: string, time: number, changes: string): string {
  const lines = changes
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) =>
      line
        .replace(/^### (.*)/, '  [ $1 ]')
        .replace(/^- /, '  * ')
        .replace(/^ {2}(?=[^ [*])/, '    '),
    );
  const date = new Date(time).toUTCString().replace('GMT', '+0000');
  return `pdfseald (${version}) stable; urgency=medium\n\n${lines.join('\n')}\n\n -- ${MAINTAINER}  ${date}\n`;
}
