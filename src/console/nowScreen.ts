/** The screen Now: whether all is well, what to do if not, and how the daemon does. */

import { describeSeconds } from '../base/phrases.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import { type Concern, concernsOf } from './concerns.ts';
import { english } from './english.ts';
import { type Html, html, named } from './html.ts';
import { charts, errorsTable, figures, spanChoice } from './load.ts';
import { SPANS, type Span } from './loadHistory.ts';
import { ahead, machinery } from './machinery.ts';
import { proposalConcerns } from './proposalCards.ts';
import type { Proposal } from './proposals.ts';
import { type Page, reading, type Screen, type ScreenRequest } from './screen.ts';
import type { Sources } from './sources.ts';
import { capitalized, folded, moment, type StateMark, sign } from './values.ts';

const words = english.now;

/** Live pages refresh at the same moment, so they share one result, and so does a page opened then. */
const SHARED_MS = 1_000;

export function nowScreen(sources: Sources): Screen {
  const shared = new Map<Span, { at: number; proposal: Proposal | undefined; page: Promise<Page> }>();
  const share = (request: ScreenRequest) => {
    const span = spanOf(request);
    const former = shared.get(span);
    const at = performance.now();
    const proposal = sources.proposals.waiting;
    if (former?.proposal === proposal && former !== undefined && at - former.at < SHARED_MS)
      return former.page;
    const page = nowPage(sources, span);
    shared.set(span, { at, proposal, page });
    return page;
  };
  return {
    path: '/',
    label: words.title,
    routes: [
      reading('/', share),
      { ...reading('/now', share), isLive: true },
      { ...reading('/now/events', () => ({ stream: 'events' })), isLive: true },
    ],
  };
}

async function nowPage(
  { status: reader, epochs, history, proposals, clock }: Sources,
  span: Span,
): Promise<Page> {
  const status = await reader.read();
  const now = clock();
  const coming = (await epochs()).map(({ from }) => Date.parse(from)).filter((from) => from > now);
  return {
    title: words.title,
    live: `/now?span=${span.name}`,
    main: html`${health(status, [...concernsOf(status), ...proposalConcerns(proposals)], now)}
<section class="group">
<div class="title"><h2>${words.throughput}</h2>${spanChoice(span)}</div>
${figures(status, history, span)}
${charts(history, span)}
${errorsTable(history, span)}
<p class="small quiet">${words.since(`${new Date(history.since).toISOString().slice(0, 16).replace('T', ' ')} UTC`)}</p>
</section>
${machinery(status, now)}
${ahead(status, coming, now)}`,
  };
}

function spanOf({ query }: ScreenRequest): Span {
  return SPANS.find(({ name }) => name === query.get('span')) ?? SPANS[0];
}

/** One line: all is well, or what is not. Below it, what to do. */
function health(status: AdminStatus, concerns: readonly Concern[], now: number): Html {
  const { version, uptime_seconds: up, ready, draining } = status;
  const mark: StateMark = !ready ? 'bad' : concerns.length > 0 ? 'warning' : 'good';
  const line = draining
    ? words.draining
    : !ready
      ? words.unwell
      : concerns.length > 0
        ? words.worth(concerns.length)
        : words.well;
  const items = concerns.map(
    ({ level, what, detail, remedy, page }, n) => html`<li>
${sign(level)}
<div><h2 class="${level}">${named(what)}</h2>${folded(detail, `concern-${n}`)}<p class="remedy">${capitalized(remedy)}${page && html` <a href="${page}">${english.pages[page]}</a>`}</p></div>
</li>`,
  );
  return html`<section class="health ${mark}">
<div class="verdict">${sign(mark)}<div><h1>${line}</h1>
<p class="quiet">${mark === 'good' && `${words.wellLead} `}${words.up(version, describeSeconds(up))}. ${words.read} ${moment(new Date(now).toISOString())}.</p></div></div>
${items.length > 0 && html`<ul class="concerns">${items}</ul>`}
</section>`;
}
