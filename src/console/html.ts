/** Writes HTML. Every value put into a template is escaped, so that foreign text never becomes markup. */
import { escapeControls } from '../base/controls.ts';

/** Markup. Only {@link html} makes it, from templates of this program. */
export class Html {
  readonly #markup: string;

  constructor(strings: readonly string[], values: readonly HtmlContent[]) {
    this.#markup = strings.map((text, n) => text + (n < values.length ? markupOf(values[n]) : '')).join('');
  }

  toString(): string {
    return this.#markup;
  }
}

/** Values that a template accepts. `undefined` and `false` produce nothing, so that a part can be left out. */
export type HtmlContent = Html | string | number | false | undefined | readonly HtmlContent[];

/**
 * A template of markup. Attributes must be in double quotes. Control characters are shown by their numbers, so that none is invisible or
 * reverses the text around it.
 */
export function html(strings: TemplateStringsArray, ...values: HtmlContent[]): Html {
  return new Html(strings, values);
}

function markupOf(value: HtmlContent): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Html) return value.toString();
  if (typeof value === 'object') return value.map(markupOf).join('');
  return escapeMarkup(escapeControls(String(value)));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeMarkup(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => ENTITIES[char] ?? '');
}

/** The exact value of a field, so that the form sends back what was typed. */
export function exact(text: string): Html {
  return new Html([escapeMarkup(text)], []);
}

/** Longer words may break anywhere; otherwise they would not fit on a phone. */
const WORD_CHARS_MAX = 16;

/** A user-chosen name, isolated from the direction of the text around it. A long one may break at punctuation. */
export function named(text: string): Html {
  const parts = text.split(/([/.@_,:-]+)/).filter((part) => part !== '');
  const isLong = parts.some((part) => part.length > WORD_CHARS_MAX);
  const broken = parts.map((part) => (/^[/.@_,:-]/.test(part) ? html`${part}<wbr>` : part));
  return html`<bdi class="${isLong ? 'name long' : 'name'}">${broken}</bdi>`;
}

/** A digest or an id, which may break after every eighth character and is copied without gaps. */
export function code(text: string): Html {
  const parts = text.match(/.{1,8}/gsu) ?? [];
  return html`<code class="digest">${parts.map((part) => html`${part}<wbr>`)}</code>`;
}
