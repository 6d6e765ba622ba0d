/** Parts that the pages of the screen Access share. */
import { formatDuration } from '../base/units.ts';
import { english } from './english.ts';
import { exact, type Html, html } from './html.ts';
import { sectionHead, selectField } from './pageFrame.ts';
import { Refusal } from './screen.ts';

const words = english.access;

/** Maximum rows of one table. */
export const ROWS_MAX = 200;

/** The heading of a section of the screen, with links to the others. */
export function accessHead(here: keyof typeof words.sections): Html {
  return sectionHead(words.title, words.sections, here);
}

const HOUR_MS = 3_600_000;

/** The duration chosen in a form, in units of `unitMs`; undefined if "no limit" was chosen. Throws Refusal. */
export function durationIn(
  form: URLSearchParams,
  name: string,
  choices: Readonly<Record<string, string>>,
  unitMs: number,
): number | undefined {
  const chosen = form.get(name);
  if (chosen === null || !Object.hasOwn(choices, chosen))
    throw new Refusal(400, words.badChoice, words.badHow);
  return chosen === '' ? undefined : Number(chosen) * unitMs;
}

/** How long the former key or secret stays valid, as the form has it. Throws Refusal. */
export function overlapIn(form: URLSearchParams): string {
  return formatDuration(durationIn(form, 'overlap', words.overlaps, HOUR_MS) ?? 0);
}

/** How long the former key or secret stays valid. One day is preselected. */
export function overlapField(label: string): Html {
  const overlaps = Object.entries(words.overlaps).sort(([a], [b]) => Number(b === '24') - Number(a === '24'));
  return selectField('overlap', label, overlaps);
}

/** A form that limits the list at `action` to one client. */
export function clientFilter(action: string, names: readonly string[], client: string): Html {
  return html`<form class="actions" method="get" action="${action}">
<label for="client-filter">${words.only}</label>
<input id="client-filter" name="client" value="${exact(client)}" list="clients" autocomplete="off" spellcheck="false">
<datalist id="clients">${names.slice(0, ROWS_MAX).map((name) => html`<option value="${name}"></option>`)}</datalist>
<button>${words.show}</button>${client !== '' && html`<a class="button" href="${action}">${words.all}</a>`}
</form>`;
}
