/** Cards of the screen Care: when each chore was last done, how it ended, and when it is due again. */
import { noteState, UPKEEP_AGE_MS_MAX } from '../health/sections/upkeepSection.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import { CHORES } from '../health/upkeepFindings.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html } from './html.ts';
import { capitalized, day, definitions, figure, type StateMark, state, when } from './values.ts';

const words = english.care.chores;

export function upkeepCards(status: AdminStatus, now: number): Html {
  const cards = choresOf(status).map((chore) => choreCard(chore, status, now));
  return html`<div class="columns">${cards}</div>
${status.store.engine !== 'lmdb' && html`<p class="quiet">${words.database}</p>`}`;
}

/** Those that this service needs, and those that were done once. */
export function choresOf({ upkeep }: AdminStatus): Chore[] {
  return (Object.keys(CHORES) as Chore[]).filter(
    (chore) => upkeep.chores.includes(chore) || upkeep[chore] !== undefined,
  );
}

type Chore = keyof typeof CHORES;
type Note = NonNullable<AdminStatus['upkeep'][Chore]>;

function choreCard(chore: Chore, { upkeep, findings }: AdminStatus, now: number): Html {
  const { name, how } = CHORES[chore];
  const last = upkeep[chore];
  const found = findings.find(({ section, subject }) => section === 'upkeep' && subject === name);
  const is = last === undefined ? 'never' : noteState(chore, last, now);
  const { never, done, late, future } = words;
  const label = { never, good: done, bad: found?.detail ?? '', late, ahead: future }[is];
  const mark: StateMark = is === 'good' || is === 'bad' ? is : 'warning';
  return html`<section class="card"><div class="title"><h2>${capitalized(name)}</h2>${state(mark, label)}</div>
${last !== undefined && definitions(factsOf(chore, last, now))}
<p class="${mark === 'good' ? 'small quiet' : 'remedy'}">${capitalized(found?.remedy ?? how)}</p></section>`;
}

function factsOf(chore: Chore, last: Note, now: number): [string, HtmlContent][] {
  const { finished_at: at, tree_size: size, holds_until: until } = last;
  const dueAt = Date.parse(at) + UPKEEP_AGE_MS_MAX[chore];
  const isKnown = noteState(chore, last, now) !== 'ahead';
  return [
    [words.last, when(at, now)],
    [dueAt < now ? words.wasDue : words.due, isKnown && when(new Date(dueAt).toISOString(), now)],
    [words.leaves, size !== undefined && words.leafCount(figure(size))],
    [words.holds, until !== undefined && day(until)],
  ];
}
