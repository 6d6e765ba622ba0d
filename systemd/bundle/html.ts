/** The manual as HTML that needs no network and no server. Without scripts, it lacks its search and the buttons that copy code. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, extname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Marked, type Tokens } from 'marked';
import { manualSources } from './sources.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const STYLE = readFileSync(join(ROOT, 'page/palette.css'), 'utf8') + asset('style.css');
const SEARCH_PAGE = 'search.html';
/** The media types of pictures, by the ending of their files. */
const PICTURES: Readonly<Record<string, string>> = { '.svg': 'image/svg+xml', '.png': 'image/png' };

interface Page {
  /** Relative to the root of the checkout: `docs/hsm/softhsm.md`. */
  source: string;
  /** Relative to the folder of the manual: `hsm/softhsm.html`. */
  path: string;
  title: string;
  markdown: string;
  /** The heading of the start page below which it is first linked to. */
  group?: string;
}

interface Heading {
  text: string;
  anchor: string;
}

/** What the search knows of a section. */
interface Section {
  page: string;
  title: string;
  heading: string;
  /** Path of the page, and where the section is in it. */
  href: string;
  text: string;
}

/** The files of the manual by their path; `index.html` is the first to open. */
export function htmlManual(version: string): Map<string, string> {
  const pages = inOrder(readPages());
  const rendered = pages.map((page) => ({ page, ...renderPage(page, pages) }));
  const files = new Map(
    rendered.map(({ page, body, headings }) => {
      const contents = contentsOf(pages, page, headings);
      const script = body.includes('<pre>') ? asset('copy.js') : '';
      return [page.path, wholePage(page.path, page.title, contents, body, version, script)];
    }),
  );
  const index = JSON.stringify(rendered.flatMap(({ sections }) => sections)).replaceAll('<', '\\u003c');
  const data = `<script type="application/json" id="sections">${index}</script>\n`;
  const contents = contentsOf(pages, undefined, []);
  const search = asset('search.html') + data;
  files.set(SEARCH_PAGE, wholePage(SEARCH_PAGE, 'Search', contents, search, version, asset('search.js')));
  return files;
}

function asset(name: string): string {
  return readFileSync(new URL(`html/${name}`, import.meta.url), 'utf8');
}

function readPages(): Page[] {
  return manualSources().map(({ path: source, markdown }) => {
    const [, title = source] = /^# (.+)$/m.exec(markdown) ?? [];
    const path =
      source === 'README.md'
        ? 'about.html'
        : source
            .replace(/^docs\//, '')
            .replace(/README\.md$/, 'index.md')
            .replace(/\.md$/, '.html');
    return { source, path, title: title.replaceAll('`', ''), markdown };
  });
}

/** The start page first, then each page where it is first linked to as a whole, those of a folder after the folder's own. */
function inOrder(pages: Page[]): Page[] {
  const order = new Set<Page>();
  const add = (page: Page, group?: string): void => {
    if (order.has(page)) return;
    page.group = group;
    order.add(page);
    if (!page.path.endsWith('/index.html')) return;
    const inside = pages.filter(({ path }) => dirname(path) === dirname(page.path));
    for (const one of [...linkedFrom(page, page.markdown, inside), ...inside]) add(one, group);
  };
  const [start] = pages.filter(({ path }) => path === 'index.html');
  if (start === undefined) throw new Error('the manual has no start page');
  add(start);
  const outside = pages.filter(({ path }) => !path.includes('/') || path.endsWith('/index.html'));
  for (const part of start.markdown.split(/^(?=## )/m)) {
    const [, heading] = /^## (.+)$/m.exec(part) ?? [];
    for (const page of linkedFrom(start, part, outside)) add(page, heading);
  }
  for (const page of pages) add(page);
  return [...order];
}

function linkedFrom({ source }: Page, markdown: string, pages: readonly Page[]): Page[] {
  const targets = Array.from(markdown.matchAll(/\]\(([^)#:]+\.md)\)/g), ([, href = '']) =>
    normalize(join(dirname(source), href)),
  );
  return targets.flatMap((target) => pages.filter((page) => page.source === target));
}

/** As GitHub makes anchors of headings. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

function renderPage(page: Page, pages: readonly Page[]) {
  const headings: Heading[] = [];
  const sections: Section[] = [];
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }: Tokens.Heading): string {
        const anchor = anchorOf(text);
        const plain = text.replaceAll('`', '');
        if (depth === 2) headings.push({ text: plain, anchor });
        const link = `<a class="anchor" href="#${anchor}" aria-label="Link to this section">#</a>`;
        return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)} ${link}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link): string {
        return `<a href="${escapeHtml(targetOf(href, page, pages))}">${this.parser.parseInline(tokens)}</a>`;
      },
      image({ href, text }: Tokens.Image): string {
        const type = PICTURES[extname(href)];
        if (type === undefined) throw new Error(`${page.source}: ${href} is a picture of an unknown type`);
        const picture = readFileSync(join(ROOT, dirname(page.source), href)).toString('base64');
        return `<img src="data:${type};base64,${picture}" alt="${escapeHtml(text)}">`;
      },
      html({ text }: Tokens.HTML | Tokens.Tag): string {
        return escapeHtml(text);
      },
    },
  });
  for (const token of marked.lexer(page.markdown)) {
    if (token.type === 'heading') {
      const plain = (token as Tokens.Heading).text.replaceAll('`', '');
      const href = token.depth === 1 ? page.path : `${page.path}#${anchorOf((token as Tokens.Heading).text)}`;
      sections.push({ page: page.path, title: page.title, heading: plain, href, text: '' });
    } else {
      const section = sections.at(-1);
      if (section !== undefined) section.text += `${plainText(token.raw)} `;
    }
  }
  const body = (marked.parse(page.markdown) as string)
    .replaceAll('<table>', '<div class="table"><table>')
    .replaceAll('</table>', '</table></div>');
  return { body, headings, sections };
}

/** Where a link of the Markdown leads within the manual; links to elsewhere stay. Throws where there is no such page. */
function targetOf(href: string, from: Page, pages: readonly Page[]): string {
  if (/^(https?:|#)/.test(href)) return href;
  const [path = '', anchor] = href.split('#');
  const source = normalize(join(dirname(from.source), path));
  // The package has the folder `docs` beside that of these pages.
  if (source.endsWith('.json')) return pathBetween(from.path, join('..', source));
  const page = pages.find(
    (one) => one.source === source || one.source === `${source.replace(/\/$/, '')}/README.md`,
  );
  if (page === undefined) throw new Error(`${from.source} links to ${href}, which the manual does not have`);
  return `${pathBetween(from.path, page.path)}${anchor === undefined ? '' : `#${anchor}`}`;
}

function pathBetween(from: string, to: string): string {
  return relative(dirname(from), to);
}

/** What a search reads of a piece of Markdown. */
function plainText(raw: string): string {
  return raw
    .replaceAll(/\]\([^)]*\)/g, '')
    .replaceAll('\\|', '|')
    .replaceAll(/^ *```\w*$|[`*[\]]|^\||\|$| \| |-{3,}/gm, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
}

/** The contents column: all pages in their groups, and below the one that is open its sections. */
function contentsOf(pages: readonly Page[], open: Page | undefined, headings: readonly Heading[]): string {
  const from = open?.path ?? SEARCH_PAGE;
  const items = pages.map((page, index) => {
    const isFirst = page.group !== undefined && page.group !== pages[index - 1]?.group;
    const group = isFirst ? `<li class="group">${escapeHtml(page.group ?? '')}</li>\n` : '';
    const depth = page.path.includes('/') && !page.path.endsWith('index.html') ? ' class="inner"' : '';
    const current = page === open ? ' aria-current="page"' : '';
    const own = page === open ? headings : [];
    const sections = own.map(({ text, anchor }) => `<li><a href="#${anchor}">${escapeHtml(text)}</a></li>`);
    const list = sections.length === 0 ? '' : `\n<ul>${sections.join('')}</ul>`;
    return `${group}<li${depth}><a href="${pathBetween(from, page.path)}"${current}>${escapeHtml(page.title)}</a>${list}</li>`;
  });
  return `<ul>\n${items.join('\n')}\n</ul>`;
}

function wholePage(
  path: string,
  title: string,
  contents: string,
  body: string,
  version: string,
  script = '',
): string {
  const policy = [
    `default-src 'none'`,
    `style-src ${hashOf(STYLE)}`,
    'img-src data:',
    `script-src ${script === '' ? `'none'` : hashOf(script)}`,
    `form-action 'self' file:`,
    `base-uri 'none'`,
    `require-trusted-types-for 'script'`,
  ].join('; ');
  const heading =
    title.startsWith('pdfseald') || title.includes(' of pdfseald') ? title : `${title} · pdfseald`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(heading)}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
<a class="home" href="${pathBetween(path, 'index.html')}">pdfseald ${escapeHtml(version)}</a>
<form role="search" action="${pathBetween(path, SEARCH_PAGE)}"><input type="search" name="q" aria-label="Search the manual" placeholder="Search the manual" required><button>Search</button></form>
<label class="menu" for="menu">Contents</label>
</header>
<input type="checkbox" id="menu" aria-label="Show the contents">
<nav aria-label="Contents">
${contents}
</nav>
<main>
${body}</main>
${script === '' ? '' : `<script>${script}</script>\n`}</body>
</html>
`;
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

function escapeHtml(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replaceAll(/[&<>"]/g, (character) => names[character] ?? '');
}
