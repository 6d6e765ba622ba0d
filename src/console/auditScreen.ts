/** The screen Audit trail: find records, check them, and export them. */
import { parseDay } from '../base/clock.ts';
import { Slots } from '../base/slots.ts';
import { ACTS, auditDigest, parseAuditRecord } from '../manifest/auditRecord.ts';
import { describeActor, describeObject, type RecordFilter } from '../manifest/auditWords.ts';
import { encodeReceipt, type Receipt } from '../manifest/receipt.ts';
import { type KeptRecord, receiptFile, recordFile, some } from '../prove/trail/trailCheck.ts';
import type { Store } from '../store/store.ts';
import {
  archiveOf,
  CHECKED_RECORDS_MAX,
  findRecord,
  type ListedRecord,
  listRecords,
} from './auditRecords.ts';
import { english } from './english.ts';
import { code, exact, type Html, type HtmlContent, html, named } from './html.ts';
import { tokenField } from './pageFrame.ts';
import {
  changing,
  type Download,
  type Page,
  Refusal,
  reading,
  type Screen,
  type ScreenRequest,
} from './screen.ts';
import type { Sources } from './sources.ts';
import type { EndedCheck } from './trailChecks.ts';
import { definitions, figure, moment, type StateMark, sign, state, tableOf, when } from './values.ts';

const words = english.audit;
const DAY_MS = 86_400_000;
/** Limit on concurrent exports, which read the whole trail. */
const READERS = { of: 'readers of the trail', max: 4, perClientMax: 1 };
const CHECK_PATH = '/audit/check';

export function auditScreen(sources: Sources): Screen {
  const { store, trailChecks } = sources;
  const readers = new Slots(READERS);
  return {
    path: '/audit',
    label: words.title,
    routes: [
      reading('/audit', (request) => listPage(store, request)),
      reading('/audit/export', (request) => exported(store, readers, request)),
      { ...reading(CHECK_PATH, () => checkPage(sources)), isLive: true },
      changing(CHECK_PATH, 'auditor', () => {
        trailChecks.begin();
        return { location: CHECK_PATH };
      }),
      reading('/audit/:number', async (request) => recordPage(await wanted(store, request))),
      reading('/audit/:number/record', async (request) => recordDownload(await wanted(store, request))),
      reading('/audit/:number/receipt', async (request) => receiptDownload(await wanted(store, request))),
    ],
  };
}

async function listPage(store: Store, { query, session }: ScreenRequest): Promise<Page> {
  const filter = filterOf(query);
  const newest = await store.trail.newest();
  const before = Number(query.get('before')) || newest + 1;
  const { records, older } = await listRecords(store, Math.min(before, newest + 1), filter);
  const count = figure(CHECKED_RECORDS_MAX);
  return {
    title: words.title,
    main: html`<div class="intro"><h1>${words.title}</h1><p class="quiet">${words.lead}</p></div>
${filterForm(query)}
<section class="card">
${records.length > 0 ? recordsTable(records) : html`<p>${older === undefined ? words.empty : words.emptySoFar}</p>`}
${pager(query, before <= newest, older)}
</section>
<section class="columns">
<div class="card"><h2>${words.check}</h2><p>${words.checkLead(count)}</p>
<form method="post" action="/audit/check">${tokenField(session)}<button>${words.check}</button></form></div>
<div class="card"><h2>${words.export}</h2><p>${words.exportLead}</p><p><a class="button" href="/audit/export" download>${words.export}</a></p></div>
</section>`,
  };
}

function filterOf(query: URLSearchParams): RecordFilter {
  const since = dateOf(query, 'since');
  const until = dateOf(query, 'until');
  const [act, who] = [query.get('act'), query.get('who')];
  return {
    since,
    // The last day is included.
    ...(until !== undefined && { until: until + DAY_MS }),
    ...(act && { act }),
    ...(who && { who }),
  };
}

function dateOf(query: URLSearchParams, name: string): number | undefined {
  const given = query.get(name);
  if (!given) return undefined;
  const at = parseDay(given);
  if (at !== undefined) return at;
  throw new Refusal(400, words.badDate, words.badDateHow);
}

function filterForm(query: URLSearchParams): Html {
  const value = (name: string) => query.get(name) ?? '';
  const field = (name: string, label: string, type: string) =>
    html`<label>${label}<input type="${type}" name="${name}" value="${exact(value(name))}"></label>`;
  const groups = Map.groupBy(ACTS, (act) => act.split('.')[0] ?? act);
  const option = (act: string, label: string) =>
    html`<option value="${act}"${act === value('act') && html` selected`}>${label}</option>`;
  const options = Array.from(groups, ([group, acts]) =>
    acts.length === 1
      ? acts.map((act) => option(act, act))
      : [option(group, words.all(group)), ...acts.map((act) => option(act, act))],
  );
  return html`<form class="filter card" method="get" action="/audit">
${field('since', words.since, 'date')}
${field('until', words.until, 'date')}
<label>${words.act}<select name="act">${option('', words.anyAct)}${options}</select></label>
${field('who', words.who, 'search')}
<button class="strong">${words.filter}</button>
${query.size > 0 && html`<a href="/audit">${words.reset}</a>`}
</form>`;
}

function recordsTable(records: readonly ListedRecord[]): Html {
  const rows = records.map(({ number, record, leafIndex }): HtmlContent[] => {
    const link = html`<a href="/audit/${number}">${number}</a>`;
    if (record === undefined) return [link, words.unreadable];
    const { at, act, outcome, actor, object } = record;
    return [
      link,
      moment(at),
      html`<code>${named(act)}</code>`,
      outcomeOf(outcome),
      named(describeActor(actor)),
      leafIndex === undefined ? words.notYet : words.leaf(figure(leafIndex)),
      Object.keys(object).length > 0 && html`<span class="small">${named(describeObject(object))}</span>`,
    ];
  });
  return tableOf(
    words.title,
    [words.number, words.time, words.act, words.outcome, words.who, words.sealed, words.what],
    rows,
  );
}

function outcomeOf(outcome: keyof typeof words.outcomes): Html {
  const marks = { begun: 'warning', done: 'good', failed: 'bad' } as const;
  return state(marks[outcome], words.outcomes[outcome]);
}

function pager(query: URLSearchParams, isPast: boolean, older: number | undefined): Html {
  const to = (before: number | undefined) => {
    const next = new URLSearchParams(query);
    if (before === undefined) next.delete('before');
    else next.set('before', String(before));
    return `/audit?${next}`;
  };
  return html`<p class="pager">${isPast && html`<a href="${to(undefined)}">${words.newest}</a>`} ${older !== undefined && html`<a href="${to(older)}">${words.older}</a>`}</p>`;
}

async function wanted(store: Store, { params }: ScreenRequest): Promise<KeptRecord> {
  const number = /^[1-9]\d{0,14}$/.test(params.number ?? '') ? Number(params.number) : undefined;
  const found = number === undefined ? undefined : await findRecord(store, number);
  if (found === undefined) throw new Refusal(404, words.noRecord, words.noRecordHow);
  return found;
}

function recordPage({ number, text, receipt, problem }: KeptRecord): Page {
  const record = parseAuditRecord(text);
  const title = words.record(String(number));
  const pairs: [string, HtmlContent][] =
    record === undefined
      ? []
      : [
          [words.time, moment(record.at)],
          [words.act, html`<code>${record.act}</code>`],
          [words.outcome, outcomeOf(record.outcome)],
          [words.who, named(describeActor(record.actor))],
          [words.channel, record.actor.via],
          [
            words.concludes,
            record.concludes !== undefined &&
              html`<a href="/audit/${record.concludes}">${record.concludes}</a>`,
          ],
          ...Object.entries(record.object).map(([name, value]): [string, HtmlContent] => [
            name,
            named(Array.isArray(value) ? value.join(', ') : String(value)),
          ]),
        ];
  return {
    title,
    main: html`<h1>${title}</h1>
${problem !== undefined && html`<p class="state bad">${sign('bad')}<span>${words.problem}: ${named(problem)}</span></p>`}
${record === undefined && html`<p class="state bad">${sign('bad')}<span>${words.unreadable}</span></p>`}
<section class="card">
${definitions([...pairs.map(([name, value]) => [named(name), value] as const), [words.digest, code(auditDigest(text))]])}
<p class="actions"><a class="button" href="/audit/${number}/record" download>${words.downloadRecord}</a>
${receipt === undefined ? html`<span class="quiet">${words.noReceipt}</span>` : html`<a class="button" href="/audit/${number}/receipt" download>${words.downloadReceipt}</a>`}</p>
</section>
<section class="card"><h2>${words.text}</h2><pre class="wrap"><code>${named(text)}</code></pre></section>
<p><a href="/audit?before=${number + 1}">${words.title}</a></p>`,
  };
}

function recordDownload({ number, text }: KeptRecord): Download {
  return { fileName: recordFile(number), type: 'application/json', body: text };
}

function receiptDownload({ number, receipt }: KeptRecord): Download {
  if (receipt === undefined) throw new Refusal(404, words.noReceipt, words.noRecordHow);
  return { fileName: receiptFile(number), type: 'application/json', body: encodeReceipt(receipt as Receipt) };
}

/** Throws Refusal if this person is already exporting the trail, or if too many exports are running. */
function exported(store: Store, readers: Slots, { session }: ScreenRequest): Download {
  const onEnd = readers.tryTake(session.person.name);
  if (onEnd === undefined) throw new Refusal(503, words.busy, words.busyHow);
  return { fileName: 'audit-trail.tar', type: 'application/x-tar', body: archiveOf(store), onEnd };
}

/** The check in progress, and the result of the last one. */
function checkPage({ trailChecks: { isUnderWay, last }, clock }: Sources): Page {
  return {
    title: words.check,
    live: CHECK_PATH,
    main: html`${isUnderWay && html`<section class="card"><p class="state warning">${sign('warning')}<span>${words.underWay}</span></p></section>`}
${last ? lastCheck(last, clock()) : html`<h1>${words.check}</h1>`}
<section class="card"><p>${words.offline}</p><p><a href="/audit">${words.title}</a></p></section>`,
  };
}

function lastCheck({ at, report }: EndedCheck, now: number): Html {
  const ended = html`<p class="quiet">${words.ended} ${when(at, now)}</p>`;
  if (report === undefined)
    return html`<section class="health bad"><div class="verdict">${sign('bad')}<div><h1>${words.notEnded}</h1><p>${english.failedHow}</p>${ended}</div></div></section>`;
  const { first, newest, problems, doubts, unended } = report;
  const mark: StateMark = problems.length > 0 ? 'bad' : doubts.length > 0 ? 'warning' : 'good';
  const verdict = { good: words.good, warning: words.unsure, bad: words.bad }[mark];
  const found = [...problems, ...doubts].slice(0, SHOWN_FINDINGS_MAX);
  return html`<section class="health ${mark}">
<div class="verdict">${sign(mark)}<div><h1>${verdict}</h1>
<p>${mark === 'good' && words.goodLead(figure(first), figure(newest?.number ?? 0))}${mark === 'bad' && words.badLead}</p>${ended}</div></div>
${found.length > 0 && html`<ul class="findings">${found.map((line) => html`<li>${named(line)}</li>`)}</ul>`}
${unended.length > 0 && html`<p>${words.unended(some(unended))}</p>`}
</section>`;
}

const SHOWN_FINDINGS_MAX = 50;
