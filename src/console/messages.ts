/** Part of the page of a webhook endpoint: messages that wait for delivery, and those that were given up. */
import { perform } from '../ops/operation.ts';
import { listDeliveries } from '../ops/webhookMessages.ts';
import type { Faring } from './endpointParts.ts';
import { english } from './english.ts';
import { code, type Html, type HtmlContent, html, named } from './html.ts';
import { sureBox, tokenField } from './pageFrame.ts';
import type { ScreenRequest } from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { chooser, figure, moment, tableOf } from './values.ts';

const words = english.webhooks;
const PAGE_MESSAGES = 50;

/** One page of one of the two lists. */
export async function messagesCard(
  sources: Sources,
  { shown: { id, status }, tally }: Faring,
  { query, session, actor }: ScreenRequest,
): Promise<Html> {
  const counts = { waiting: tally.pending, dead: tally.dead_letters };
  const list = query.get('list') ?? (counts.dead > 0 ? 'dead' : 'waiting');
  const isDead = list === 'dead';
  const cursor = query.get('after') ?? undefined;
  const wanted = { endpoint_id: id, dead: isDead, limit: PAGE_MESSAGES, cursor };
  const found = await perform(listDeliveries, sources, wanted, actor);
  const { deliveries = [], dead_letters: letters = [], next_cursor: next } = found;
  const address = (name: string) => `/access/webhooks/${id}?list=${name}`;
  const links = (['waiting', 'dead'] as const).map((name) => {
    const label = words.lists[name](figure(counts[name]));
    return { path: `${address(name)}#messages`, label, isHere: (name === 'dead') === isDead };
  });
  const isOperator = reaches(session.person.role, 'operator');
  /** Why they cannot be sent again. */
  const bar = !isOperator ? words.operatorOnly : status === 'disabled' ? words.enableFirst : undefined;
  const table = isDead ? deadTable(letters, bar === undefined) : waitingTable(deliveries, sources.clock());
  const isNone = letters.length + deliveries.length === 0;
  return html`<section class="card" id="messages">
<div class="title"><h2>${words.messages}</h2>${chooser(words.messages, links)}</div>
${isNone ? html`<p class="quiet">${isDead ? words.noDead : words.noWaiting}</p>` : isDead ? (bar === undefined ? replayForms(table, id, session) : html`${table}<p class="quiet">${bar}</p>`) : table}
${(cursor ?? next) && html`<p class="pager">${cursor && html`<a href="${address(list)}#messages">${words.first}</a>`}${next && html`<a href="${address(list)}&amp;after=${next}#messages">${words.next}</a>`}</p>`}
</section>`;
}

type Found = Awaited<ReturnType<typeof listDeliveries.run>>;
type Waiting = NonNullable<Found['deliveries']>[number];
type Dead = NonNullable<Found['dead_letters']>[number];

function waitingTable(waiting: readonly Waiting[], now: number): Html {
  const rows = waiting.map((one): HtmlContent[] => [
    message(one),
    moment(one.occurred_at),
    Date.parse(one.due_at) <= now ? words.dueNow : moment(one.due_at),
    attempts(one),
  ]);
  return tableOf(words.messages, Object.values(words.waitingColumns), rows);
}

/** With a check box in each row if messages can be selected. */
function deadTable(letters: readonly Dead[], isChosen: boolean): Html {
  const rows = letters.map((one): HtmlContent[] => [
    isChosen
      ? html`<label class="chosen"><input type="checkbox" name="message" value="${one.webhook_id}"> <span>${message(one)}</span></label>`
      : message(one),
    moment(one.occurred_at),
    html`${moment(one.given_up_at)} <span class="small quiet">${words.causes[one.cause]}</span>`,
    attempts(one),
  ]);
  return tableOf(words.messages, Object.values(words.deadColumns), rows);
}

function message({ webhook_id: id, type }: Pick<Waiting, 'webhook_id' | 'type'>): Html {
  return html`${code(id)} <span class="small quiet">${named(type)}</span>`;
}

function attempts({
  attempts: count,
  last_failure: failure,
}: Pick<Waiting, 'attempts' | 'last_failure'>): Html {
  return html`${figure(count)}${failure && html` <code class="small">${named(failure.reason)}</code>`}`;
}

function replayForms(table: Html, id: string, session: Session): Html {
  const form = (name: string, content: HtmlContent) =>
    html`<form class="grid" id="${name}" method="post" action="/access/webhooks/${id}/replay">${tokenField(session)}${content}</form>`;
  return html`<p>${words.replayLead}</p>
${form('replay', [table, html`<p class="actions"><button class="strong">${words.replayChosen}</button></p>`])}
${form(
  'replay-all',
  html`<input type="hidden" name="all" value="yes">
${sureBox(words.replaySure)}
<p class="actions"><button>${words.replayAll}</button></p>`,
)}`;
}
