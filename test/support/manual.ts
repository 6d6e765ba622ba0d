/** The manual: README.md and the pages below docs, taken apart for the tests that hold them to what there is. */
import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { anchorOf } from '../../systemd/bundle/html.ts';
import { type ManualSource, manualSources } from '../../systemd/bundle/sources.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Heading {
  /** 1 for the title of a page. */
  level: number;
  text: string;
  anchor: string;
}

export interface ManualPage {
  /** Relative to the root of the checkout: `docs/hsm/softhsm.md`. */
  path: string;
  text: string;
  /** The text without its fenced blocks. */
  prose: string;
  /** Fenced blocks, with the headings above each: the title of the page first. */
  blocks: { language: string; body: string; under: string[] }[];
  /** What stands between backticks on one line. */
  spans: string[];
  headings: Heading[];
}

export interface ManualLink {
  /** Relative to the root of the checkout. */
  path: string;
  /** Empty where the link is to the page as a whole. */
  anchor: string;
}

function toPage({ path, markdown: text }: ManualSource): ManualPage {
  const blocks: ManualPage['blocks'] = [];
  const headings: Heading[] = [];
  const above: string[] = [];
  const prose = text.replaceAll(
    /^( *)```(\w*)\n([\s\S]*?)^\1```$|^(#+) (.+)$/gm,
    (match, _indent, language, body, marks?: string, heading = '') => {
      if (marks === undefined) {
        blocks.push({ language, body, under: [...above] });
        return '';
      }
      above.splice(marks.length - 1, above.length, heading);
      headings.push({ level: marks.length, text: heading, anchor: anchorOf(heading) });
      return match;
    },
  );
  const spans = Array.from(prose.matchAll(/`([^`\n]+)`/g), ([, span = '']) => span);
  return { path, text, prose, blocks, spans, headings };
}

export const MANUAL: readonly ManualPage[] = manualSources().map(toPage);

/** Pages for developers, which are not in the manual. */
export const BESIDE: readonly ManualPage[] = ['CONTRIBUTING.md', 'systemd/README.md'].map((path) =>
  toPage({ path, markdown: readFileSync(join(ROOT, path), 'utf8') }),
);

/** The page at that path; throws where there is none. */
export function pageAt(path: string): ManualPage {
  const page = MANUAL.find((one) => one.path === path);
  if (page === undefined) throw new Error(`the manual has no page ${path}`);
  return page;
}

/** Where a page links to within the checkout. */
export function linksOf({ path, prose }: ManualPage): ManualLink[] {
  return Array.from(prose.matchAll(/\]\((?!https?:)([^)#]*)#?([^)]*)\)/g), ([, to = '', anchor = '']) => ({
    path: to === '' ? path : normalize(join(dirname(path), to)),
    anchor,
  }));
}

/** Whether the manual has that page and, where an anchor is named, that heading. */
export function leadsSomewhere({ path, anchor }: ManualLink): boolean {
  const page = MANUAL.find((one) => one.path === path);
  if (page === undefined) return false;
  return anchor === '' || page.headings.some((heading) => heading.anchor === anchor);
}

/** Where a link to the installed manual leads, such as `file:///usr/share/doc/pdfseald/html/recovery.html#lost-hsm`. */
export function toLink(reference: string): ManualLink {
  const [, page = '', anchor = ''] =
    /\/usr\/share\/doc\/pdfseald\/html\/([\w/-]+)\.html#?(.*)$/.exec(reference) ?? [];
  return { path: `docs/${page.replace(/(^|\/)index$/, '$1README')}.md`, anchor };
}

/** Bodies of the fenced blocks of that language in the section with that heading, or in one of its subsections. */
export function blocksUnder({ path, blocks }: ManualPage, heading: string, language: string): string[] {
  const found = blocks.filter((block) => block.language === language && block.under.includes(heading));
  if (found.length === 0) throw new Error(`${path} has no ${language} under "${heading}"`);
  return found.map(({ body }) => body);
}
