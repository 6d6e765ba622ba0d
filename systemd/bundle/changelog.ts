import { readFileSync } from 'node:fs';

/** Whom the package names. No address of the project is public; `.invalid` is no one's (RFC 2606). */
export const MAINTAINER = 'pdfseald maintainers <maintainers@pdfseald.invalid>';

/**
 * Debian's changelog of the package (deb-changelog(5)). A version that is not the newest of `changelog` gets an entry that says so.
 * `epoch`: time of the build, seconds since the epoch.
 */
export function changelogText(version: string, epoch: number): string {
  const written = readFileSync(new URL('changelog', import.meta.url), 'utf8');
  if (written.startsWith(`pdfseald (${version}) `)) return written;
  const date = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000');
  return `pdfseald (${version}) stable; urgency=medium

  * Built as version ${version}. The entries below tell what changed up to then.

 -- ${MAINTAINER}  ${date}

${written}`;
}
