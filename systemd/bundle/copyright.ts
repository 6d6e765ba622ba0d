import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isLegal } from './modules.ts';

/** Licences that every Debian has: the whole text from its title to its end, and the file that stands for it (Debian Policy, 12.5). */
const COMMON: readonly [text: RegExp, file: string][] = [
  [/^ *Apache License\s+Version 2\.0[\s\S]*?END OF TERMS AND CONDITIONS.*$/gm, 'Apache-2.0'],
  [/^ *GNU GENERAL PUBLIC LICENSE\s+Version 2[\s\S]*/gm, 'GPL-2'],
];

const HEADER = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: pdfseald
Comment:
 The licences of Node.js and of the libraries also lie beside their files, below
 /usr/lib/pdfseald/node_modules.

Files: *
Copyright: pdfseald maintainers
License: none-yet
`;

/** Debian's machine-readable copyright file: a paragraph for Node in the folder `node`, and one for each of `modules`. */
export function copyrightText(
  root: string,
  node: string,
  modules: ReadonlyMap<string, readonly string[]>,
): string {
  const ofNode = readdirSync(join(root, node), { encoding: 'utf8' }).map((file) => join(node, file));
  const others = Array.from(modules, ([folder, files]) => paragraph(root, folder, `${folder}/*`, files));
  const own = `${HEADER}${folded(readFileSync(join(root, 'LICENSE'), 'utf8').trim())}\n`;
  return [own, paragraph(root, node, 'bin/node', ofNode), ...others].join('\n');
}

/** What is installed as `installed` has the licence of the package in `folder`, whose legal texts are among `files`. */
function paragraph(root: string, folder: string, installed: string, files: readonly string[]): string {
  const { name, license, author } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
  const texts = files.filter(isLegal).map((file) => readFileSync(join(root, file), 'utf8').trim());
  const holders = texts.flatMap((text) => text.match(/^[^\w\n]*(copyright\b.*\d{4}|©).*$/gim) ?? []);
  if (holders.length === 0) holders.push(author?.name ?? author ?? `the authors of ${name}`);
  if (texts.length === 0) texts.push(`${name} comes without a text; its package.json names this licence.`);
  return [
    `Files: usr/lib/pdfseald/${installed}`,
    `Copyright: ${Array.from(new Set(holders), (line) => line.trim()).join('\n ')}`,
    `License: ${license.replaceAll(/[()]/g, '').replaceAll(' OR ', ' or ')}`,
    folded(texts.map(withoutCommon).join('\n\n')),
    '',
  ].join('\n');
}

function withoutCommon(text: string): string {
  return COMMON.reduce(
    (shorter, [full, file]) =>
      shorter.replace(full, `The full text is in /usr/share/common-licenses/${file} on Debian systems.`),
    text,
  );
}

/** As the lines of a field go on: each behind a space, an empty one as a dot. */
function folded(text: string): string {
  return text
    .replaceAll('\r', '')
    .replaceAll(/^.*$/gm, (line) => (line.trim() === '' ? ' .' : ` ${line.trimEnd()}`));
}
