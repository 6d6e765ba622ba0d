/** The screen Find: jobs by document, reference, id, client, purpose and day. */
import { parseDay, toRfc3339 } from '../base/clock.ts';
import { jobIdTime } from '../job/id.ts';
import { documentSha256, type JobRecord } from '../job/job.ts';
import { type EveryJobQuery, listEveryClient } from '../store/everyClient.ts';
import type { JobPage } from '../store/store.ts';
import { english } from './english.ts';
import { dropZone } from './fileDrop.ts';
import { exact, type Html, type HtmlContent, html, named } from './html.ts';
import { jobRoutes } from './receiptPage.ts';
import { type Page, type Redirect, reading, type Screen, type ScreenRequest } from './screen.ts';
import type { Sources } from './sources.ts';
import { brief, state, tableOf, utc } from './values.ts';

const words = english.find;
const PAGE_JOBS = 25;
const DIGEST_CHARS = 12;
const DAY_MS = 86_400_000;

const DIGEST = /^[0-9a-f]{64}$/i;
const JOB_ID = /^job_[0-9a-f]{32}$/;
const FIELDS = ['q', 'client', 'purpose', 'from', 'to'] as const;

export function findScreen(sources: Sources): Screen {
  return {
    path: '/find',
    label: words.title,
    routes: [reading('/find', (request) => findPage(sources, request)), ...jobRoutes(sources)],
  };
}

type Fields = Record<(typeof FIELDS)[number] | 'before', string>;

async function findPage({ store }: Sources, { query }: ScreenRequest): Promise<Page | Redirect> {
  const of = (name: string) => query.get(name) ?? '';
  const [q, client, purpose, from, to] = FIELDS.map(of) as [string, string, string, string, string];
  const fields = { q, client, purpose, from, to, before: of('before') };
  const id = q.trim();
  if (JOB_ID.test(id) && (await store.jobs.get(id)) !== undefined) return { location: `/find/${id}` };
  const times = timesOf(fields);
  if (times === undefined) return lay(fields, html`<p class="warning" role="alert">${words.badDate}</p>`);
  const found = await search(store, fields, times);
  const [only, second] = found.records;
  const isOne = second === undefined && found.next === undefined && fields.before === '';
  if (only !== undefined && isOne && DIGEST.test(id)) return { location: `/find/${only.job.id}` };
  return lay(fields, results(fields, found));
}

/** Undefined if either is not a valid day. */
function timesOf({ from, to }: Fields): Pick<EveryJobQuery, 'createdFrom' | 'createdTo'> | undefined {
  const [first, last] = [parseDay(from), parseDay(to)];
  if ((from !== '' && first === undefined) || (to !== '' && last === undefined)) return undefined;
  return {
    createdFrom: first,
    ...(last !== undefined && { createdTo: last + DAY_MS }),
  };
}

async function search(
  store: Sources['store'],
  { q, client, purpose, before }: Fields,
  times: Pick<EveryJobQuery, 'createdFrom' | 'createdTo'>,
): Promise<JobPage> {
  const only = { ...times, ...(client !== '' && { clientId: client }), ...(before !== '' && { before }) };
  const page = (sought: Partial<EveryJobQuery>) =>
    listEveryClient(
      store,
      { ...only, ...sought, limit: PAGE_JOBS },
      (job) => purpose === '' || job.purpose === purpose,
    );
  const id = q.trim();
  if (JOB_ID.test(id)) return { records: [] };
  if (q === '') return page({});
  if (!DIGEST.test(id)) return page({ customerReference: q });
  const found = await page({ documentSha256: id.toLowerCase() });
  const isNothing = found.records.length === 0 && found.next === undefined;
  return isNothing ? page({ customerReference: q }) : found;
}

function lay(fields: Fields, below: HtmlContent): Page {
  return {
    title: words.title,
    script: 'find',
    main: html`<h1>${words.heading}</h1>
<div class="seek">
${dropZone(words.drop, words.dropNote)}
${form(fields)}
</div>
${below}`,
  };
}

function form(fields: Fields): Html {
  const { fields: names } = words;
  const text = (name: 'client' | 'purpose') =>
    html`<p class="field"><label for="${name}">${names[name]}</label><input id="${name}" name="${name}" value="${exact(fields[name])}" maxlength="512" autocomplete="off" spellcheck="false"></p>`;
  const date = (name: 'from' | 'to') =>
    html`<p class="field"><label for="${name}">${names[name]}</label><input id="${name}" name="${name}" type="date" value="${parseDay(fields[name]) !== undefined && fields[name]}"></p>`;
  return html`<form class="card search" method="get" action="/find" role="search">
<p class="field wide"><label for="q">${names.q}</label><input id="q" name="q" value="${exact(fields.q)}" maxlength="512" autocomplete="off" spellcheck="false" autocapitalize="off" aria-describedby="q-note"><span class="small quiet" id="q-note">${names.qNote}</span></p>
${text('client')}${text('purpose')}${date('from')}${date('to')}
<p class="wide actions"><button class="strong">${words.search}</button><a class="button" href="/find">${words.clear}</a></p>
</form>`;
}

function results(fields: Fields, { records, next }: JobPage): Html {
  const isAsked = FIELDS.some((name) => fields[name] !== '');
  const head = html`<div class="title"><h2>${isAsked ? words.found : words.newest}</h2><p class="small quiet">${words.times}</p></div>`;
  const rows = records.map(rowOf);
  const { columns: names } = words;
  const body =
    records.length > 0 ? tableOf(words.found, Object.values(names), rows) : nothing(fields, isAsked, next);
  return html`<section class="card" id="results">${head}
${body}
${pager(fields, records, next)}
</section>`;
}

function rowOf({ job, outcome }: JobRecord): HtmlContent[] {
  const accepted = toRfc3339(job.acceptedAt);
  const time = utc(accepted);
  const kind = outcome?.kind ?? 'waiting';
  const mark = kind === 'sealed' ? 'good' : kind === 'failed' ? 'bad' : 'warning';
  return [
    html`<a href="/find/${job.id}" aria-label="${words.openJob(time)}"><time datetime="${accepted}">${time.replace(' UTC', '')}</time></a>`,
    state(mark, words.states[kind]),
    named(brief(job.clientId)),
    named(brief(job.customerReference ?? '')),
    named(brief(job.purpose ?? '')),
    html`<code>${documentSha256(job).slice(0, DIGEST_CHARS)}…</code>`,
  ];
}

function nothing({ q }: Fields, isAsked: boolean, next: string | undefined): Html | undefined {
  if (next !== undefined) return undefined;
  if (!isAsked)
    return html`<p><strong>${words.noneAtAll}</strong></p><p class="remedy">${words.noneAtAllHow}</p>`;
  const isDigest = DIGEST.test(q.trim());
  return html`<p><strong>${words.none}</strong></p>
${isDigest && html`<p class="long">${words.noneOfDigest(q.trim().toLowerCase())}</p>`}
<p class="remedy">${words.noneHow}</p>`;
}

function pager(fields: Fields, records: readonly JobRecord[], next: string | undefined): HtmlContent {
  const link = (before: string, label: string) => {
    const given = Object.entries({ ...fields, before }).filter(([, value]) => value !== '');
    return html`<a class="button" href="/find?${String(new URLSearchParams(given))}">${label}</a>`;
  };
  const isShort = next !== undefined && records.length < PAGE_JOBS;
  const looked = isShort ? jobDay(next) : undefined;
  if (next === undefined && fields.before === '') return undefined;
  return html`<nav class="actions" aria-label="${words.found}">
${looked !== undefined && html`<span>${words.further(looked)}</span>`}
${next !== undefined && link(next, isShort ? words.searchFurther : words.more)}
${fields.before !== '' && link('', words.first)}
</nav>`;
}

function jobDay(jobId: string): string | undefined {
  const at = jobIdTime(jobId);
  return at === undefined ? undefined : utc(toRfc3339(at));
}
