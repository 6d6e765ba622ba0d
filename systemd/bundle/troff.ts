/**
 * Manual pages in the man(7) macros, which groff and mandoc both read without a warning. A piece of text here is lines of troff. Pages of the
 * pandoc in Debian 12 (2.17) make mandoc warn.
 */

export interface Page {
  name: string;
  section: string;
  /** `2026-11-20`. */
  date: string;
  version: string;
  /** One line, for whatis(1). */
  summary: string;
  /** In their order, below NAME. */
  sections: [title: string, body: string][];
}

export function page({ name, section, date, version, summary, sections }: Page): string {
  return [
    `.TH "${name.toUpperCase()}" "${section}" "${date}" "pdfseald ${literal(version)}"`,
    // Ragged on the right, without hyphens: names of options stay whole.
    '.ad l',
    '.nh',
    '.SH NAME',
    `${literal(name)} \\- ${literal(summary)}`,
    ...sections.flatMap(([title, body]) => [`.SH ${title}`, body]),
    '',
  ].join('\n');
}

/** Blank lines separate paragraphs; each sentence begins a line, as troff wants it, and none is longer than an editor is wide. */
export function prose(text: string): string {
  return text
    .split('\n\n')
    .map((paragraph) =>
      paragraph
        .replaceAll(/\s+/g, ' ')
        .trim()
        .split(/(?<=[a-z)`"][.!?]) (?=[A-Z`])/)
        .flatMap(wrapped)
        .map(line)
        .join('\n'),
    )
    .join('\n.PP\n');
}

const LINE_CHARACTERS = 72;

function wrapped(sentence: string): string[] {
  const lines = [''];
  for (const word of sentence.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trimStart();
    if (literal(longer).length <= LINE_CHARACTERS || lines.at(-1) === '') lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Terms in bold, each with what it means below it. */
export function definitions(entries: readonly (readonly [term: string, meaning: string])[]): string {
  return entries.map(([term, meaning]) => `.TP\n\\fB${literal(term)}\\fR\n${prose(meaning)}`).join('\n');
}

/** Lines that stay as they are. */
export function verbatim(lines: readonly string[]): string {
  return ['.nf', ...lines.map(line), '.fi'].join('\n');
}

export function subsection(title: string, body: string): string {
  return `.SS ${line(title)}\n${body}`;
}

export const bold = (text: string): string => `\\fB${literal(text)}\\fR`;
export const italic = (text: string): string => `\\fI${literal(text)}\\fR`;

/** A dot or an apostrophe at its start means something to troff. */
function line(text: string): string {
  return literal(text).replace(/^([.'])/, '\\&$1');
}

/** Backslashes, and dashes, which are to be copied into a shell. Characters beyond ASCII have names in troff. */
export function literal(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('~', '\\(ti')
    .replaceAll('^', '\\(ha')
    .replaceAll('`', '\\(ga')
    .replaceAll(
      /[^\x20-\x7e]/gu,
      (one) => `\\[u${one.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}]`,
    );
}
