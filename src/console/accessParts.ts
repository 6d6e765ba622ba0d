/** What the pages of the screen Access have in common. */
import type { Store } from '../store/store.ts';
import { english } from './english.ts';
import { exact, type Html, html } from './html.ts';
import { chooser } from './values.ts';

const words = english.access;

/** Of one table. */
export const ROWS_MAX = 200;

/** The head of one of its sections, with links to the others. */
export function accessHead(here: keyof typeof words.sections): Html {
  const { heading, lead } = words.sections[here];
  const links = Object.entries(words.sections).map(([path, { label }]) => {
    return { path, label, isHere: path === here };
  });
  return html`<div class="title"><div class="intro"><h1>${heading}</h1><p class="quiet">${lead}</p></div>
${chooser(words.title, links)}</div>`;
}

/** Every client that has or had a key, by name. */
export async function clientNames({ credentials }: Pick<Store, 'credentials'>): Promise<string[]> {
  return [...new Set((await credentials.all()).map(({ clientId }) => clientId))].sort();
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
