/** Of the screen Care: when each chore was last done, how it ended, and when it is due again. */
import { noteState, UPKEEP_AGE_MS_MAX } from '../health/sections/upkeepSection.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html } from './html.ts';
import { day, definitions, figure, type StateMark, state, when } from './values.ts';

const words = english.care.chores;
const { chores, couldNotTell, ahead, aheadHow } = english.concerns;

export function upkeepCards(status: AdminStatus, now: number): Html {
  const cards = choresOf(status).map((chore) => choreCard(chore, status.upkeep[chore], now));
  return html`<div class="columns">${cards}</div>
${status.store.engine !== 'lmdb' && html`<p class="quiet">${words.database}</p>`}`;
}

/** The chores that this service needs, and those that were done at least once. */
export function choresOf({ upkeep, store, timestamps }: AdminStatus) {
  return (['backup', 'check', 'restore_drill', 'renewal'] as const).filter((chore) => {
    if (upkeep[chore] !== undefined || chore === 'check') return true;
    return chore === 'renewal' ? timestamps !== undefined : store.engine === 'lmdb';
  });
}

type Note = NonNullable<AdminStatus['upkeep']['check']>;

function choreCard(chore: keyof typeof chores, last: Note | undefined, now: number): Html {
  const { name, how, badly } = chores[chore];
  const is = last === undefined ? 'never' : noteState(chore, last, now);
  const { never, done, late, future } = words;
  const bad = last?.undecided === undefined ? badly : couldNotTell(last.undecided);
  const label = { never, good: done, bad, late, ahead: future }[is];
  const mark: StateMark = is === 'good' || is === 'bad' ? is : 'warning';
  return html`<section class="card"><div class="title"><h2>${name}</h2>${state(mark, label)}</div>
${last !== undefined && definitions(factsOf(chore, last, now))}
<p class="${mark === 'good' ? 'small quiet' : 'remedy'}">${is === 'ahead' ? `${ahead} ${aheadHow}` : how}</p></section>`;
}

function factsOf(chore: keyof typeof chores, last: Note, now: number): [string, HtmlContent][] {
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
