/** What the pages of the screen Access have in common. */
import { english } from './english.ts';
import { exact, type Html, html } from './html.ts';
import { sectionHead } from './pageFrame.ts';

const words = english.access;

/** Of one table. */
export const ROWS_MAX = 200;

/** The head of one of its sections. */
export function accessHead(here: keyof typeof words.sections): Html {
  return sectionHead(words.title, words.sections, here);
}

/** What narrows the list at `action` down to one client. */
export function clientFilter(action: string, names: readonly string[], client: string): Html {
  return html`<form class="actions" method="get" action="${action}">
<label for="client-filter">${words.only}</label>
<input id="client-filter" name="client" value="${exact(client)}" list="clients" autocomplete="off" spellcheck="false">
<datalist id="clients">${names.slice(0, ROWS_MAX).map((name) => html`<option value="${name}"></option>`)}</datalist>
<button>${words.show}</button>${client !== '' && html`<a class="button" href="${action}">${words.all}</a>`}
</form>`;
}
