import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Manual pages by file name, made of what the programs say themselves and of the commented configuration. */
export function manualPages(version: string): Record<string, string> {
  const pages: Record<string, string> = {
    'pdfseald.8': page('pdfseald', '8', version, 'seals PDF documents', help('main.js', ['--help'])),
    'pdfseal.1': page(
      'pdfseal',
      '1',
      version,
      'administers pdfseald, seals and verifies',
      help('cli.js', ['--help']),
    ),
    'pdfseald.toml.5': page('pdfseald.toml', '5', version, 'configuration of pdfseald', configuration()),
  };
  for (const command of commandsOf(help('cli.js', ['--help']))) {
    const own = help('cli.js', [command, '--help']);
    const parts = commandsOf(own).map((name) => help('cli.js', [command, name, '--help']));
    const summary = own.split('\n\n')[1]?.replaceAll('\n', ' ').split('. ')[0] ?? command;
    pages[`pdfseal-${command}.1`] = page(
      `pdfseal-${command}`,
      '1',
      version,
      summary,
      [own, ...parts].join('\n\n'),
    );
  }
  return pages;
}

function help(program: string, args: string[]): string {
  return execFileSync(process.execPath, [join(ROOT, 'dist', program), ...args], {
    encoding: 'utf8',
    env: { COLUMNS: '80', NO_COLOR: '1' },
  }).trim();
}

function commandsOf(text: string): string[] {
  const [, list = ''] = text.split('\nCommands:\n');
  const names = [...list.matchAll(/^ {2}([a-z][a-z-]*)/gm)].map(([, name = '']) => name);
  return names.filter((name) => name !== 'help');
}

function configuration(): string {
  return readFileSync(join(ROOT, 'config/production.toml'), 'utf8');
}

/** A page of manual (man-pages(7)): what the program says, line by line. */
function page(name: string, section: string, version: string, summary: string, text: string): string {
  const lines = text.split('\n').map((line) => troff(line));
  return [
    `.TH "${name.toUpperCase()}" "${section}" "" "pdfseald ${version}"`,
    '.SH NAME',
    `${troff(name)} \\- ${troff(summary)}`,
    '.SH DESCRIPTION',
    '.nf',
    ...lines,
    '.fi',
    '.SH SEE ALSO',
    'pdfseald(8), pdfseal(1), pdfseald.toml(5), /usr/share/doc/pdfseald/README.md',
    '',
  ].join('\n');
}

/** A dot or an apostrophe at the start of a line, and every backslash, mean something to troff. */
function troff(line: string): string {
  return line
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/, '\\&$1');
}
