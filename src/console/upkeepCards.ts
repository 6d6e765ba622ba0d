/** Of the screen Care: when each chore was last done, how it ended, and when it is due again. */
import { noteState, UPKEEP_AGE_MS_MAX } from '../admin/status/upkeepSection.ts';
import type { AdminStatus } from '../admin/statusSchema.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html } from './html.ts';
import { day, figure, type StateMark, state, when } from './values.ts';

const words = english.care.chores;
const { chores, ahead, aheadHow } = english.concerns;

export function upkeepCards({ upkeep, store, timestamps }: AdminStatus, now: number): Html {
  const isDatabase = store.engine !== 'lmdb';
  const shown = (['backup', 'check', 'restore_drill', 'renewal'] as const).filter((chore) => {
    if (upkeep[chore] !== undefined || chore === 'check') return true;
    return chore === 'renewal' ? timestamps !== undefined : !isDatabase;
  });
  return html`<div class="columns">${shown.map((chore) => choreCard(chore, upkeep[chore], now))}</div>
${isDatabase && html`<p class="quiet">${words.database}</p>`}`;
}

type Pair = [string, HtmlContent];

function choreCard(chore: keyof typeof chores, last: AdminStatus['upkeep']['check'], now: number): Html {
  const { name, how, badly } = chores[chore];
  const dueAt = last && Date.parse(last.finished_at) + UPKEEP_AGE_MS_MAX[chore];
  const is = last === undefined ? 'never' : noteState(chore, last, now);
  const { never, done, late, future } = words;
  const label = { never, good: done, bad: badly, late, ahead: future }[is];
  const mark: StateMark = is === 'good' || is === 'bad' ? is : 'warning';
  const pairs: Pair[] =
    last === undefined || dueAt === undefined
      ? []
      : [
          [words.last, when(last.finished_at, now)],
          ...(is === 'ahead'
            ? []
            : [[dueAt < now ? words.wasDue : words.due, when(new Date(dueAt).toISOString(), now)] as Pair]),
          [words.leaves, words.leafCount(figure(last.tree_size))],
          ...(last.holds_until === undefined ? [] : [[words.holds, day(last.holds_until)] as Pair]),
        ];
  return html`<section class="card"><div class="title"><h2>${name}</h2>${state(mark, label)}</div>
${pairs.length > 0 && html`<dl>${pairs.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`}
<p class="${mark === 'good' ? 'small quiet' : 'remedy'}">${is === 'ahead' ? `${ahead} ${aheadHow}` : how}</p></section>`;
}
