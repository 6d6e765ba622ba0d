/** Expressions that a page in a browser evaluates, to find what a reader could not read, see or reach. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** To be evaluated once, before {@link VIOLATIONS}. */
export const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Each fault that axe knows, in one line. */
export const VIOLATIONS = `axe.run({ resultTypes: ['violations'], runOnly: ${JSON.stringify(RULES)} })
  .then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 120)).join(' ')))`;

/** Takes out of a long table all but three of the rows that differ in numbers alone: they look alike, and axe takes seconds for them. */
export const THIN_OUT = `(() => {
  const seen = new Map();
  for (const row of document.querySelectorAll('tbody tr')) {
    const kind = row.innerHTML.replace(/[0-9a-f]+/g, '');
    seen.set(kind, (seen.get(kind) ?? 0) + 1);
    if (seen.get(kind) > 3) row.remove();
  }
})()`;

/** Words that are torn at the end of a line, but for those that fit on no line; and elements that reach beyond the screen. */
export const LAYOUT = `(() => {
  const torn = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (!parentElement.checkVisibility() || parentElement.closest('.long, .digest, .hidden, script, noscript')) continue;
    for (const word of data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top)));
      if (lines.size > 1) torn.push(word[0]);
    }
  }
  const { clientWidth, scrollWidth } = document.documentElement;
  // The heads of tables are clipped where their columns do not fit.
  const wide = [...document.querySelectorAll('body *:not(thead, thead *)')]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > clientWidth + 1)
    .map(({ outerHTML }) => outerHTML.slice(0, 80));
  // What is to be pressed stays clear of the border around it.
  const inside = (one, outer) => one.right <= outer.right - 8 && one.bottom <= outer.bottom - 4;
  for (const one of document.querySelectorAll('.choose'))
    if (!inside(one.getBoundingClientRect(), one.closest('.slot').getBoundingClientRect())) wide.push(one.closest('.slot').id);
  if (scrollWidth > clientWidth) wide.push(scrollWidth + ' pixels');
  return { torn, wide };
})()`;

/** What has the focus, and whether it shows. */
export const FOCUSED = `(() => {
  const one = document.activeElement;
  const ring = getComputedStyle(one.closest('label') ?? one);
  return { name: one.name || one.id || one.textContent.trim(), isVisible: ring.outlineStyle !== 'none' && parseFloat(ring.outlineWidth) >= 2 };
})()`;
