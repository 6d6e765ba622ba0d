/** Administration of webhook endpoints: add, change and remove them, and rotate their secrets. */

import { addWebhook, changeWebhook, removeWebhook, rotateWebhook } from '../ops/endpointOperations.ts';
import { perform } from '../ops/operation.ts';
import { WEBHOOK_EVENTS, type WebhookEndpoint, type WebhookEvent } from '../store/webhookStore.ts';
import { overlapField, overlapIn } from './accessParts.ts';
import { refuseEndpointAct } from './endpointParts.ts';
import { english } from './english.ts';
import { exact, type Html, type HtmlContent, html } from './html.ts';
import type { NewSecrets } from './newSecrets.ts';
import { requireSure, sureBox, tokenField } from './pageFrame.ts';
import { changing, type Redirect, type ScreenRequest, type ScreenRoute } from './screen.ts';
import type { Session } from './sessions.ts';
import type { Sources } from './sources.ts';

const words = english.webhooks;
const LIST = '/access/webhooks';

export function endpointFormRoutes(sources: Sources, newSecrets: NewSecrets): ScreenRoute[] {
  const change = (path: string, act: (request: ScreenRequest, id: string) => Promise<Redirect>) =>
    changing(`${LIST}${path}`, 'administrator', (request) =>
      act(request, request.params.id ?? '').catch(refuseEndpointAct),
    );
  return [
    change('', async ({ form, session, actor }) => {
      const wanted = { client: form.get('client') ?? undefined, ...fieldsIn(form) };
      const { id, secret } = await perform(addWebhook, sources, wanted, actor);
      return newSecrets.add(session, { kind: 'webhook', secret, id });
    }),
    change('/:id/change', async ({ form, actor }, id) => {
      const wanted = { endpoint_id: id, ...fieldsIn(form), revision: revisionIn(form) };
      await perform(changeWebhook, sources, wanted, actor);
      return { location: `${LIST}/${id}`, notice: words.isChanged };
    }),
    change('/:id/rotate', async ({ form, session, actor }, id) => {
      const wanted = { endpoint_id: id, overlap: overlapIn(form) };
      const { secret } = await perform(rotateWebhook, sources, wanted, actor);
      return newSecrets.add(session, { kind: 'webhook', secret, id });
    }),
    change('/:id/remove', async ({ form, actor }, id) => {
      requireSure(form, words.removeSure, english.access.badHow);
      await perform(removeWebhook, sources, { endpoint_id: id }, actor);
      return { location: LIST, notice: words.isRemoved };
    }),
  ];
}

function fieldsIn(form: URLSearchParams) {
  return {
    url: form.get('url') ?? undefined,
    // An operation refuses other types than those of the form.
    events: form.getAll('event') as WebhookEvent[],
    description: form.get('description') ?? '',
  };
}

/** The revision that the page showed. */
export function revisionIn(form: URLSearchParams): number {
  return Number(form.get('revision') ?? -1);
}

/** See {@link revisionIn}. */
export function revisionField({ revision }: WebhookEndpoint): Html {
  return html`<input type="hidden" name="revision" value="${revision}">`;
}

/** The form on the page of all endpoints. `clients` is the id of a list of client names. */
export function addForm(session: Session, clients: string): Html {
  return html`<section class="card" id="add"><h2>${words.add}</h2><p>${words.addLead}</p>
<form class="search grid" method="post" action="${LIST}">${tokenField(session)}
<p class="field"><label for="client">${words.columns.client}</label><input id="client" name="client" required list="${clients}" autocomplete="off" autocapitalize="off" spellcheck="false"></p>
${fields({ url: '', events: WEBHOOK_EVENTS })}
<p class="wide actions"><button class="strong">${words.add}</button></p></form></section>`;
}

/** The forms on the page of one endpoint. */
export function endpointForms(endpoint: WebhookEndpoint, session: Session): Html {
  const form = (name: 'change' | 'rotate' | 'remove', lead: string, content: HtmlContent) =>
    html`<section class="card" id="${name}"><h2>${words[name]}</h2><p>${lead}</p>
<form class="${name === 'change' ? 'search grid' : 'grid'}" method="post" action="${LIST}/${endpoint.id}/${name}">${tokenField(session)}${content}</form></section>`;
  const button = (name: 'change' | 'rotate' | 'remove', kind: 'strong' | 'danger') =>
    html`<p class="wide actions"><button class="${kind}">${words[name]}</button></p>`;
  return html`${form('change', words.changeLead, [revisionField(endpoint), fields(endpoint), button('change', 'strong')])}
<div class="columns">${form('rotate', words.rotateLead, [overlapField(words.overlap), button('rotate', 'strong')])}
${form('remove', words.removeLead, [sureBox(words.removeSure), button('remove', 'danger')])}</div>`;
}

function fields({
  url,
  events,
  description = '',
}: Pick<WebhookEndpoint, 'url' | 'description'> & { events: readonly string[] }): Html {
  const event = (one: (typeof WEBHOOK_EVENTS)[number]) =>
    html`<li><label class="chosen"><input type="checkbox" name="event" value="${one}"${events.includes(one) && html` checked`}> <span>${words.events[one]} <code class="quiet">${one}</code></span></label></li>`;
  return html`<p class="field wide"><label for="url">${words.facts.url}</label><input id="url" name="url" type="url" required maxlength="2048" value="${exact(url)}" autocomplete="off" spellcheck="false" aria-describedby="url-note"></p>
<p class="wide small quiet" id="url-note">${words.urlNote}</p>
<fieldset class="wide"><legend>${words.facts.events}</legend><ul class="choices">${WEBHOOK_EVENTS.map(event)}</ul></fieldset>
<p class="field wide"><label for="description">${words.facts.description}</label><input id="description" name="description" maxlength="256" value="${exact(description)}" autocomplete="off"></p>`;
}
