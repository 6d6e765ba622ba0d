/** Card of the screen Now: each part of the daemon, and what is planned. */

import { formatBytes } from '../base/units.ts';
import { noteState } from '../health/sections/upkeepSection.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import { CHORES } from '../health/upkeepFindings.ts';
import { meter, timeLine } from './charts.ts';
import { diskLevel } from './concerns.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html, named } from './html.ts';
import { choresOf } from './upkeepCards.ts';
import {
  brief,
  capitalized,
  card,
  day,
  definitions,
  figure,
  LINE_CHARS_MAX,
  milliseconds,
  type StateMark,
  state,
  tableOf,
  when,
} from './values.ts';

const words = english.now;
const DAY_MS = 86_400_000;
/** Length of the time line. */
const AHEAD_MS = 730 * DAY_MS;

/** A card for each part. `now`: milliseconds since the epoch. */
export function machinery(status: AdminStatus, now: number): Html {
  return html`<div class="columns">
${card(english.parts.partitions, partitions(status))}
${card(english.parts.timestamps, timestamps(status))}
${card(english.parts.witnesses, witnesses(status, now))}
${card(english.parts.scanner, scanner(status, now))}
${card(words.disk, disk(status, now))}
${card(words.upkeep, upkeep(status, now))}
</div>`;
}

function partitions({ partitions: { members, quorum } }: AdminStatus): HtmlContent {
  const rows = members.map(({ name, state: is, signatures, software, last_error: error }) => [
    html`${named(name)}${software && html` <span class="small quiet">${words.software}</span>`}`,
    html`${state(is === 'ready' ? 'good' : 'warning', words.partitionStates[is])}${error !== undefined && is !== 'ready' && html` <span class="small quiet">${named(brief(error, LINE_CHARS_MAX))}</span>`}`,
    figure(signatures),
  ]);
  return [
    tableOf(english.parts.partitions, [words.partition, words.state, { number: words.signatures }], rows),
    html`<p class="small quiet">${words.quorum(String(quorum))}</p>`,
  ];
}

function timestamps({ timestamps }: AdminStatus): HtmlContent {
  if (timestamps === undefined) return html`<p class="quiet">${words.noTimestamps}</p>`;
  const { authorities, clock } = timestamps;
  const rows = authorities.map(({ name, trouble, tokens, failures }) => [
    named(name),
    trouble === undefined ? state('good', words.works) : state('warning', trouble),
    figure(tokens),
    figure(failures),
  ]);
  const columns = [words.authority, words.state, { number: words.stamps }, { number: words.failures }];
  const bound = clock.error_bound_ms;
  const within = bound === undefined ? '' : `, ${words.clockBound(milliseconds(bound))}`;
  return [
    tableOf(english.parts.timestamps, columns, rows),
    definitions([
      [
        words.clock,
        state(
          clock.trouble === undefined ? 'good' : 'bad',
          `${brief(clock.detail, LINE_CHARS_MAX)}${within}`,
        ),
      ],
    ]),
  ];
}

function witnesses({ witnesses }: AdminStatus, now: number): HtmlContent {
  if (witnesses === undefined) return html`<p class="quiet">${words.witnessesNone}</p>`;
  const marks: Partial<Record<string, StateMark>> = { failing: 'warning', contradiction: 'bad' };
  const rows = witnesses.members.map(({ name, state: is, tree_size: size, cosigned_at: at }) => [
    named(name),
    state(marks[is] ?? 'good', words.witnessStates[is]),
    figure(size),
    at === undefined ? words.never : when(at, now),
  ]);
  const columns = [words.witness, words.state, { number: words.held }, words.cosigned];
  return tableOf(english.parts.witnesses, columns, rows);
}

function scanner({ scanner }: AdminStatus, now: number): HtmlContent {
  if (scanner === undefined) return html`<p class="quiet">${words.scannerNone}</p>`;
  const { trouble, detail, engine, signatures_built_at: built } = scanner;
  const { connections_in_use: used, connections_max: max } = scanner;
  return definitions([
    [words.state, state(trouble === undefined ? 'good' : 'bad', brief(detail, LINE_CHARS_MAX))],
    [words.engine, engine],
    [words.signaturesOf, built !== undefined && when(built, now)],
    [words.connections, words.connectionsOf(figure(used), figure(max))],
  ]);
}

function disk(status: AdminStatus, now: number): HtmlContent {
  const { store, log } = status;
  const { disk_free_bytes: free, disk_bytes: all, disk_free_bytes_min: least, bytes } = store;
  const text = words.diskFree(formatBytes(free), formatBytes(all));
  return [
    meter(1 - free / all, diskLevel(status), text),
    html`<p>${text}. <span class="quiet">${words.diskMin(formatBytes(least))}</span></p>`,
    definitions([
      [words.store, `${formatBytes(bytes)}, ${store.engine}`],
      [
        words.log,
        html`${words.leaves(figure(log.tree_size))}${log.sealed_at !== undefined && html`, ${when(log.sealed_at, now)}`}`,
      ],
    ]),
  ];
}

function upkeep(status: AdminStatus, now: number): HtmlContent {
  return definitions(
    choresOf(status).map((chore) => {
      const name = capitalized(CHORES[chore].name);
      const last = status.upkeep[chore];
      if (last === undefined) return [name, words.never];
      const is = noteState(chore, last, now);
      const mark = is === 'good' || is === 'bad' ? is : 'warning';
      return [name, html`${state(mark, '')}${when(last.finished_at, now)}`];
    }),
  );
}

interface Event {
  at: string;
  what: string;
  kind: 'good' | 'warning' | 'bad' | 'plain';
}

/** Certificates that expire and epochs that begin, earliest first. `epochs`: milliseconds since the epoch. */
export function ahead(status: AdminStatus, epochs: readonly number[], now: number): Html {
  const kinds = { none: 'good', ahead: 'good', soon: 'warning', urgent: 'bad' } as const;
  const until = status.upkeep.renewal?.holds_until;
  const events: Event[] = [
    ...status.certificates.flatMap(({ not_after: at, role, authority, urgency }): Event[] =>
      at === undefined ? [] : [{ at, what: words.certificateEnds(role, authority), kind: kinds[urgency] }],
    ),
    ...epochs.map(
      (from): Event => ({ at: new Date(from).toISOString(), what: words.epochBegins, kind: 'plain' }),
    ),
    ...(until === undefined ? [] : [{ at: until, what: words.firstStampEnds, kind: 'good' } as const]),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const near = events.filter(({ at }) => Date.parse(at) - now < AHEAD_MS);
  const placeOf = (at: number) => Math.max(0, (at - now) / AHEAD_MS);
  const rows = events.map(({ at, what }) => [day(at), what, when(at, now)]);
  const columns = [words.when, words.what, words.left];
  return card(words.ahead, [
    html`<p class="quiet">${words.aheadLead}</p>`,
    timeLine(
      near.map(({ at, kind }) => ({ at: placeOf(Date.parse(at)), kind })),
      quarters(now).map((at) => ({ at: placeOf(at), label: new Date(at).toISOString().slice(0, 7) })),
      words.aheadLead,
    ),
    rows.length === 0 ? html`<p>${words.aheadNothing}</p>` : tableOf(words.ahead, columns, rows),
  ]);
}

/** Five labels along the time line. */
function quarters(now: number): number[] {
  return [0, 1, 2, 3, 4].map((n) => now + (n * AHEAD_MS) / 4);
}
