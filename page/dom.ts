/** Creates elements. All text is inserted as text, so that the content of a file never becomes markup. */
import { type Text, visible } from './text.ts';

export type Child = Node | string | undefined;

type Attributes = Readonly<Record<string, string | boolean | undefined>>;

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, '');
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

/** Replaces all children. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child) => child !== undefined));
}

export function find<Kind extends HTMLElement>(selector: string, kind: new () => Kind): Kind {
  const found = document.querySelector(selector);
  if (!(found instanceof kind)) throw new Error(`no ${selector}`);
  return found;
}

/** A sentence with its emphasised parts isolated from the words around them. */
export function sentence(text: Text): Node {
  const fragment = document.createDocumentFragment();
  for (const part of text) {
    if (typeof part === 'string') fragment.append(part);
    else if (Array.isArray(part)) fragment.append(sentence(part));
    else fragment.append(element('em', {}, value(part.emphasis)));
  }
  return fragment;
}

/** An untrusted value, isolated from the direction of the text around it. */
export function value(text: string): HTMLElement {
  const shown = visible(text);
  const isLong = shown.split(/[\s/.@_-]/).some((word) => word.length > WORD_CHARS_MAX);
  return element('bdi', { class: isLong ? 'value long' : 'value' }, ...breakable(shown, /([/.@_-]+)/));
}

/** Longer words may break anywhere; otherwise they would not fit on a phone. */
const WORD_CHARS_MAX = 24;

/** A digest, which may break after every eighth character and is copied without gaps. */
export function digest(hex: string): HTMLElement {
  return element('code', { class: 'digest' }, ...breakable(hex, /(.{8})/));
}

/** A section with a heading. */
export function section(title: string, ...children: Child[]): HTMLElement {
  return element('section', { class: 'card' }, element('h2', {}, title), ...children);
}

/** A section as wide as the page. */
export function wideSection(title: string, ...children: Child[]): HTMLElement {
  const made = section(title, ...children);
  made.classList.add('wide');
  return made;
}

/** Names and values. A missing value omits its name. */
export function definitions(pairs: readonly [name: string, value: Child | Child[]][]): HTMLElement {
  const items = pairs.flatMap(([name, value]) => {
    const children = [value].flat().filter((child) => child !== undefined);
    if (children.length === 0) return [];
    const values = children.map((child) => element('dd', {}, child));
    return [element('div', {}, element('dt', {}, name), ...values)];
  });
  return element('dl', {}, ...items);
}

/** A table whose cells name their column if the screen is too narrow for columns. */
export function table(caption: string, columns: readonly string[], rows: readonly Child[][]): HTMLElement {
  return element(
    'table',
    {},
    element('caption', {}, caption),
    element('thead', {}, headRow(columns)),
    element('tbody', {}, ...rows.map((cells) => bodyRow(columns, cells))),
  );
}

export function headRow(columns: readonly string[]): HTMLElement {
  return element('tr', {}, ...columns.map((name) => element('th', { scope: 'col' }, name)));
}

export function bodyRow(columns: readonly string[], cells: readonly Child[]): HTMLTableRowElement {
  return element('tr', {}, ...cells.map((cell, n) => element('td', { 'data-column': columns[n] }, cell)));
}

const PATHS = {
  good: 'M5 12.5l4.5 4.5L19 7.5',
  bad: 'M6.5 6.5l11 11m0-11l-11 11',
  unknown: 'M9 9.2a3 3 0 1 1 4.4 2.7c-.9.5-1.4 1-1.4 2.1m0 3.2v.1',
};

/** A symbol that repeats the meaning of the adjacent words by its shape. */
export function sign(kind: keyof typeof PATHS): SVGElement {
  const namespace = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(namespace, 'svg');
  const path = document.createElementNS(namespace, 'path');
  for (const [key, content] of [
    ['class', `sign ${kind}`],
    ['viewBox', '0 0 24 24'],
    ['aria-hidden', 'true'],
    ['focusable', 'false'],
  ] as const)
    svg.setAttribute(key, content);
  path.setAttribute('d', PATHS[kind]);
  svg.append(path);
  return svg;
}

function breakable(text: string, where: RegExp): Child[] {
  return text
    .split(where)
    .filter((part) => part !== '')
    .flatMap((part) => (where.test(part) ? [part, element('wbr')] : [part]));
}
