/** Makes elements. All text goes in as text: nothing that a file says becomes markup. */
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

/** Puts the children in the place of those it has. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child) => child !== undefined));
}

export function find<Kind extends HTMLElement>(selector: string, kind: new () => Kind): Kind {
  const found = document.querySelector(selector);
  if (!(found instanceof kind)) throw new Error(`no ${selector}`);
  return found;
}

/** A sentence, its emphasis set apart from the words around it. */
export function sentence(text: Text): Node {
  const fragment = document.createDocumentFragment();
  for (const part of text) {
    if (typeof part === 'string') fragment.append(part);
    else if (Array.isArray(part)) fragment.append(sentence(part));
    else fragment.append(element('em', {}, value(part.emphasis)));
  }
  return fragment;
}

/** A value of a stranger, set apart from the direction of the text around it. */
export function value(text: string): HTMLElement {
  const shown = visible(text);
  const isLong = shown.split(/[\s/.@_-]/).some((word) => word.length > WORD_CHARS_MAX);
  return element('bdi', { class: isLong ? 'value long' : 'value' }, ...breakable(shown, /([/.@_-]+)/));
}

/** Longer ones are broken anywhere, or they would not fit on a phone. */
const WORD_CHARS_MAX = 24;

/** A digest, which may be broken after every eighth character, and is copied without a gap. */
export function digest(hex: string): HTMLElement {
  return element('code', { class: 'digest' }, ...breakable(hex, /(.{8})/));
}

/** A heading and what is under it. */
export function section(title: string, ...children: Child[]): HTMLElement {
  return element('section', { class: 'card' }, element('h2', {}, title), ...children);
}

/** The same as wide as the page. */
export function wideSection(title: string, ...children: Child[]): HTMLElement {
  const made = section(title, ...children);
  made.classList.add('wide');
  return made;
}

/** Names and values; a value that is missing leaves its name out. */
export function definitions(pairs: readonly [name: string, value: Child | Child[]][]): HTMLElement {
  const items = pairs.flatMap(([name, value]) => {
    const children = [value].flat().filter((child) => child !== undefined);
    if (children.length === 0) return [];
    const values = children.map((child) => element('dd', {}, child));
    return [element('div', {}, element('dt', {}, name), ...values)];
  });
  return element('dl', {}, ...items);
}

/** A table whose cells name their column where the screen is too narrow for columns. */
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

/** A sign that repeats in form what the words beside it say. */
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
