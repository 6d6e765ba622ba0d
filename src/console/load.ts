/** Card of the screen Now: how much is sealed, how fast, and what failed. */

import { describeSeconds } from '../base/phrases.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import { barChart, lineChart, meter, niceTop } from './charts.ts';
import { english } from './english.ts';
import { type Html, html, named } from './html.ts';
import { type History, type Slot, SPANS, type Span, totalsOf } from './loadHistory.ts';
import { card, chooser, figure, milliseconds, tableOf } from './values.ts';

const words = english.now;
const [HOUR] = SPANS;
/** Ten-second slots in a minute. */
const MINUTE_SLOTS = 6;
/** Slots combined in one bar of a chart. */
const GROUP = 3;
const PERCENTILES = [
  ['p50', 0.5],
  ['p95', 0.95],
  ['p99', 0.99],
] as const;

/** The four key figures. */
export function figures({ queue }: AdminStatus, history: History, span: Span): Html {
  const slots = history.slots(span);
  const totals = totalsOf(slots);
  // The newest slot is still in progress, so it is left out.
  const lately = totalsOf(history.slots(HOUR).slice(-1 - MINUTE_SLOTS, -1));
  const rate = (lately.sealed * 1000) / (MINUTE_SLOTS * HOUR.slotMs);
  const waiting = queue.queued + queue.hashing + queue.sealing;
  const errors = totals.failures.reduce((sum, [, count]) => sum + count, 0);
  const [p50 = '', p95 = '', p99 = ''] = PERCENTILES.map(([, share]) => durationOf(totals.percentile(share)));
  const period = words.spans[span.name];
  return html`<dl class="figures">
${tile(words.rate, figure(rate), [words.rateNow, words.rateTotal(figure(totals.sealed), period)])}
${tile(words.latency, p50, totals.sealed === 0 ? [words.noJobs] : [words.latencyHalf, words.latencyOthers(p95, p99)])}
${tile(words.queue, figure(waiting), [
  words.queueOf(figure(queue.jobs_max)),
  ...(waiting > 0 ? [words.queueOldest(describeSeconds(queue.oldest_age_seconds))] : []),
])}
${tile(words.errors, figure(errors), [words.errorsIn(period)])}
</dl>`;
}

function tile(name: string, value: string, notes: readonly string[]): Html {
  return html`<div class="card figure"><dt>${name}</dt><dd class="value">${value}</dd>${notes.map((note) => html`<dd class="small quiet">${note}</dd>`)}</div>`;
}

function durationOf(ms: number | undefined): string {
  return ms === undefined ? words.none : milliseconds(ms);
}

/** The charts of a span, and the links that select the span. */
export function charts(history: History, span: Span): Html {
  const slots = history.slots(span);
  const groups = Array.from({ length: slots.length / GROUP }, (_, n) => {
    const members = slots.slice(n * GROUP, (n + 1) * GROUP);
    return { from: members[0]?.from ?? 0, ...totalsOf(members) };
  });
  const seconds = (GROUP * span.slotMs) / 1000;
  const rates = groups.map(({ sealed }) => sealed / seconds);
  const most = Math.max(...rates);
  const series = PERCENTILES.map(([, share]) => groups.map(({ percentile }) => percentile(share)));
  const slowest = Math.max(...(series.at(-1) ?? []).map((value) => value ?? 0));
  const times = timesOf(slots, span);
  const period = words.spans[span.name];
  const [rateTop, latencyTop] = [niceTop(most), niceTop(slowest)];
  const tip = (n: number, text: string) => `${clockOf(groups[n]?.from ?? 0)} UTC: ${text}`;
  const legend = PERCENTILES.map(
    ([name], n) =>
      html`<li><svg class="key" viewBox="0 0 24 4" aria-hidden="true" focusable="false"><path class="line series-${n + 1}" d="M0 2h24"/></svg>${words.percentiles[name]}</li>`,
  );
  return html`<section class="columns">
<figure class="card">
<figcaption class="title"><h2>${words.rate}</h2></figcaption>
${barChart(rates, {
  summary: words.chartRate(figure(most), period),
  top: rateTop,
  topLabel: figure(rateTop),
  times,
  tips: rates.map((rate, n) => tip(n, figure(rate))),
})}
</figure>
<figure class="card">
<figcaption class="title"><h2>${words.latency}</h2><ul class="legend small">${legend}</ul></figcaption>
${lineChart(series, {
  summary: words.chartLatency(milliseconds(slowest), period),
  top: latencyTop,
  topLabel: milliseconds(latencyTop),
  times,
  tips: groups.map(({ percentile }, n) =>
    tip(n, PERCENTILES.map(([name, share]) => `${name} ${durationOf(percentile(share))}`).join(', ')),
  ),
})}
</figure>
</section>`;
}

export function spanChoice(chosen: Span): Html {
  const links = SPANS.map((span) => {
    return { path: `/?span=${span.name}`, label: words.spans[span.name], isHere: span === chosen };
  });
  return chooser(words.span, links);
}

export function errorsTable(history: History, span: Span): Html {
  const { failures } = totalsOf(history.slots(span));
  const most = failures[0]?.[1] ?? 1;
  const rows = failures.map(([code, count]) => [
    html`<code>${named(code)}</code>`,
    figure(count),
    meter(count / most, 'bad', words.ofMost(Math.round((100 * count) / most))),
  ]);
  const columns = [words.code, { number: words.count }, words.share];
  const table = rows.length > 0 && tableOf(words.errors, columns, rows);
  return card(words.errors, table || html`<p class="quiet">${words.noErrors}</p>`);
}

/** The beginning, the middle and the end. */
function timesOf(slots: readonly Slot[], { slotMs }: Span): string[] {
  const first = slots[0]?.from ?? 0;
  const length = slots.length * slotMs;
  return [clockOf(first), clockOf(first + length / 2), `${clockOf(first + length)} UTC`];
}

function clockOf(ms: number): string {
  return new Date(ms).toISOString().slice(11, 16);
}
