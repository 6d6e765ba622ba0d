/** The page of a webhook endpoint: its messages, which operators can send again, and its state, which administrators change. */

import { disableWebhook, enableWebhook, findEndpoint } from '../ops/endpointOperations.ts';
import { perform } from '../ops/operation.ts';
import { replayWebhook } from '../ops/webhookMessages.ts';
import type { WebhookEndpoint } from '../store/webhookStore.ts';
import { endpointFormRoutes, endpointForms, revisionField, revisionIn } from './endpointForms.ts';
import { addressOf, allFaring, endpointState, type Faring, refuseEndpointAct } from './endpointParts.ts';
import { english } from './english.ts';
import { code, type Html, html, named } from './html.ts';
import { messagesCard } from './messages.ts';
import type { NewSecrets } from './newSecrets.ts';
import { requireSure, sureBox, tokenField } from './pageFrame.ts';
import { changing, type Page, Refusal, reading, type ScreenRequest, type ScreenRoute } from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { card, definitions, figure, moment } from './values.ts';

const words = english.webhooks;

export function endpointRoutes(sources: Sources, newSecrets: NewSecrets): ScreenRoute[] {
  const change = (
    path: 'enable' | 'disable' | 'replay',
    role: ScreenRoute['role'],
    act: (request: ScreenRequest, id: string) => Promise<string>,
  ) =>
    changing(`/access/webhooks/:id/${path}`, role, async (request) => {
      const id = request.params.id ?? '';
      const notice = await act(request, id).catch(refuseEndpointAct);
      return { location: `/access/webhooks/${id}`, notice };
    });
  return [
    reading('/access/webhooks/:id', (request) => endpointPage(sources, request, newSecrets)),
    change('enable', 'administrator', async ({ form, actor }, id) => {
      await perform(enableWebhook, sources, { endpoint_id: id, revision: revisionIn(form) }, actor);
      return words.isEnabled;
    }),
    change('disable', 'administrator', async ({ form, actor }, id) => {
      requireSure(form, words.disableSure, english.access.badHow);
      await perform(disableWebhook, sources, { endpoint_id: id, revision: revisionIn(form) }, actor);
      return words.isDisabled;
    }),
    change('replay', 'operator', async ({ form, actor }, id) => {
      const chosen = chosenIn(form);
      const wanted = { endpoint_id: id, webhook_ids: chosen };
      const { replayed, status } = await perform(replayWebhook, sources, wanted, actor);
      if (replayed === 0) throw new Refusal(409, words.noneReplayed, words.noneReplayedHow);
      const left = (chosen?.length ?? 0) - replayed;
      const notes = [
        words.replayed(replayed),
        left > 0 && words.replayLeft(left),
        status === 'disabled' && words.untilEnabled,
      ];
      return notes.filter((note) => note !== false).join(' ');
    }),
    ...endpointFormRoutes(sources, newSecrets),
  ];
}

/** Undefined for all messages. */
function chosenIn(form: URLSearchParams): string[] | undefined {
  if (form.get('all') === 'yes') {
    requireSure(form, words.replaySure, english.access.badHow);
    return undefined;
  }
  const chosen = form.getAll('message');
  if (chosen.length === 0) throw new Refusal(400, words.noneChosen, english.access.badHow);
  return chosen;
}

async function endpointPage(sources: Sources, request: ScreenRequest, newSecrets: NewSecrets): Promise<Page> {
  const { store, clock } = sources;
  const { params, session } = request;
  const found = await findEndpoint(store, params.id ?? '').catch(refuseEndpointAct);
  const [one] = await allFaring(store, [found], clock());
  if (one === undefined) throw new Refusal(404, words.noEndpoint, words.noEndpointHow);
  return {
    title: words.endpoint,
    main: html`<div><p class="small"><a href="/access/webhooks">← ${words.title}</a></p><h1>${words.endpoint}</h1></div>
${newSecrets.notice(session)}
<div class="columns">
${facts(one, found, session)}
<div class="group">${deliveries(one)}${actions(found, session)}</div>
</div>
${await messagesCard(sources, one, request)}
${reaches(session.person.role, 'administrator') && endpointForms(found, session)}`,
  };
}

function facts({ shown, is }: Faring, { revision }: WebhookEndpoint, session: Session): Html {
  const { facts: names } = words;
  const { disabled_at: since, previous_secret_expires_at: former, description } = shown;
  const known = definitions([
    [names.id, code(shown.id)],
    [names.client, named(shown.client)],
    [names.url, html`<code>${named(addressOf(shown.url, session))}</code>`],
    [names.state, endpointState(is)],
    [names.since, since !== undefined && moment(since)],
    [names.events, shown.events.join(', ')],
    [names.description, description !== undefined && named(description)],
    [names.created, moment(shown.created_at)],
    [names.former, former !== undefined && moment(former)],
    [names.revision, figure(revision)],
  ]);
  return card(words.factsTitle, known);
}

function deliveries({ tally }: Faring): Html {
  const { tallies: names } = words;
  const { last_delivered_at: delivered, last_failure: failure, dropped_from: from, dropped_to: to } = tally;
  return card(
    words.deliveries,
    definitions([
      [names.delivered, figure(tally.delivered)],
      [names.last, delivered === undefined ? words.never : moment(delivered)],
      [names.failed, figure(tally.failed_attempts)],
      [names.failure, failure && html`<code>${named(failure.reason)}</code>, ${moment(failure.at)}`],
      [
        names.dropped,
        tally.dropped > 0 &&
          html`<strong class="bad">${figure(tally.dropped)}</strong>${from !== undefined && to !== undefined && html`, ${moment(from)} – ${moment(to)}`}`,
      ],
    ]),
  );
}

function actions(endpoint: WebhookEndpoint, session: Session): Html {
  if (!reaches(session.person.role, 'administrator'))
    return html`<p class="quiet">${english.access.adminOnly}</p>`;
  const form = (path: string, content: Html) =>
    html`<form class="grid" method="post" action="/access/webhooks/${endpoint.id}/${path}">${tokenField(session)}${revisionField(endpoint)}${content}</form>`;
  if (endpoint.disabled)
    return card(words.enable, [
      html`<p>${words.enableLead}</p>`,
      form('enable', html`<p class="actions"><button class="strong">${words.enable}</button></p>`),
    ]);
  return card(words.disable, [
    html`<p>${words.disableLead}</p>`,
    form(
      'disable',
      html`${sureBox(words.disableSure)}
<p class="actions"><button class="danger">${words.disable}</button></p>`,
    ),
  ]);
}
