/** Values as the pages show them: times, durations, counts. */
import { fromNow } from '../base/phrases.ts';
import { type Html, type HtmlContent, html, named } from './html.ts';

/** A moment (RFC 3339), relative to now; the exact time is in the tooltip. */
export function when(time: string, now: number): Html {
  return html`<time datetime="${time}" title="${utc(time)}">${fromNow(time, now)}</time>`;
}

/** A moment (RFC 3339) in full. */
export function moment(time: string): Html {
  return html`<time datetime="${time}">${utc(time)}</time>`;
}

/** The day of a moment (RFC 3339). */
export function day(time: string): Html {
  return html`<time datetime="${time}" title="${utc(time)}">${time.slice(0, 10)}</time>`;
}

/** A moment (RFC 3339) to the second. */
export function utc(time: string): string {
  return `${time.slice(0, 10)} ${time.slice(11, 19)} UTC`;
}

/** `0.8 ms`, `42 ms`, `1.2 s`, `3 min`. */
export function milliseconds(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

/** A number with three significant digits, in groups of three: `0.25`, `12.5`, `1,204`. */
export function figure(value: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: value < 1 ? 2 : value < 100 ? 1 : 0 });
}

const PATHS = {
  good: 'M5 12.5l4.5 4.5L19 7.5',
  bad: 'M6.5 6.5l11 11m0-11l-11 11',
  warning: 'M12 5.5v8m0 4.6v.1',
};
export type StateMark = keyof typeof PATHS;

/** A symbol that repeats the meaning of the adjacent words by its shape. */
export function sign(kind: StateMark): Html {
  return html`<svg class="sign ${kind}" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="${PATHS[kind]}"/></svg>`;
}

/** A word with its symbol. */
export function state(kind: StateMark, text: string): Html {
  return html`<span class="state ${kind}">${sign(kind)}<span>${named(text)}</span></span>`;
}

/** Links to alternatives, one of them selected. They work without a script, and can be bookmarked. */
export function chooser(
  label: string,
  links: readonly { path: string; label: string; isHere: boolean }[],
): Html {
  return html`<nav class="choice" aria-label="${label}"><ul>${links.map(
    ({ path, label, isHere }) =>
      html`<li><a href="${path}"${isHere && html` aria-current="true"`}>${label}</a></li>`,
  )}</ul></nav>`;
}

/** A section with a heading. */
export function card(title: string, content: HtmlContent): Html {
  return html`<section class="card"><h2>${title}</h2>${content}</section>`;
}

/** Terms with their values. Terms without a value are omitted. */
export function definitions(pairs: readonly (readonly [term: HtmlContent, value: HtmlContent])[]): Html {
  const known = pairs.filter(([, value]) => value !== false && value !== undefined);
  return html`<dl>${known.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`;
}

const CELL_CHARS_MAX = 60;
/** About two lines of text. */
export const LINE_CHARS_MAX = 160;

/** A long text shortened for a table cell: the page of the row's subject shows all of it. */
export function brief(text: string, max = CELL_CHARS_MAX): string {
  const chars = [...text];
  return chars.length <= max ? text : `${chars.slice(0, max - 1).join('')}…`;
}

/** A long quoted text, shortened, which can be unfolded. `id`: keeps it unfolded while the page refreshes itself. */
export function folded(text: string, id: string): Html {
  const short = brief(text, LINE_CHARS_MAX);
  if (short === text) return html`<p>${named(text)}</p>`;
  return html`<details id="${id}"><summary>${named(short)}</summary><p>${named(text)}</p></details>`;
}

/** A column by its name; numbers are right-aligned. */
type Column = string | { number: string };

/** A table whose cells name their columns if the screen is too narrow for columns. */
export function tableOf(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly HtmlContent[])[],
): Html {
  const nameOf = (column: Column) => (typeof column === 'string' ? column : column.number);
  const sided = (column: Column) => typeof column !== 'string' && html` class="right"`;
  return html`<table>
<caption class="hidden">${caption}</caption>
<thead><tr>${columns.map((column) => html`<th scope="col"${sided(column)}>${nameOf(column)}</th>`)}</tr></thead>
<tbody>
${rows.map(
  (cells) =>
    html`<tr>${cells.map((cell, n) => html`<td data-column="${nameOf(columns[n] ?? '')}"${sided(columns[n] ?? '')}>${cell}</td>`)}</tr>\n`,
)}</tbody>
</table>`;
}

/** The status speaks in parts of sentences. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
