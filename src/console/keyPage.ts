/** The page of an API key, and the actions of administrators on it. */
import { toRfc3339 } from '../base/clock.ts';
import { formatDuration } from '../base/units.ts';
import { issueApiKey, revokeApiKey, rotateApiKey } from '../ops/apiKeyOperations.ts';
import { activeSuccessors, unmanagedEndpoints } from '../ops/credentials.ts';
import { perform } from '../ops/operation.ts';
import { keyState } from '../store/apiKeys.ts';
import type { Credential, Scope } from '../store/credentialStore.ts';
import type { Store } from '../store/store.ts';
import type { WebhookEndpoint } from '../store/webhookStore.ts';
import { durationIn, overlapField, overlapIn } from './accessParts.ts';
import { addressOf, allFaring, endpointState } from './endpointParts.ts';
import { english } from './english.ts';
import { code, type Html, type HtmlContent, html, named } from './html.ts';
import type { NewSecrets } from './newSecrets.ts';
import { requireSure, tokenField } from './pageFrame.ts';
import {
  changing,
  type Page,
  Refusal,
  reading,
  refuseWith,
  type ScreenRequest,
  type ScreenRoute,
} from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { card, definitions, moment, state, tableOf } from './values.ts';

const words = english.access;
const DAY_MS = 86_400_000;

export function keyRoutes(sources: Sources, newSecrets: NewSecrets): ScreenRoute[] {
  const { store, clock } = sources;
  const change = (
    path: string,
    act: (request: ScreenRequest) => Promise<{ apiKey?: string | undefined; id: string; notice?: string }>,
  ) =>
    changing(path, 'administrator', async (request) => {
      const { apiKey, id, notice } = await act(request).catch(refuseWith(words.refusedHow));
      if (apiKey === undefined) return { location: `/access/keys/${id}`, ...(notice && { notice }) };
      return newSecrets.add(request.session, { kind: 'key', secret: apiKey, id });
    });
  return [
    reading('/access/new', ({ session }) => newSecrets.show(session), 'administrator'),
    reading('/access/keys/:id', (request) => keyPage(store, request, { newSecrets, now: clock() })),
    change('/access/keys', async ({ form, actor }) => {
      const { api_key: apiKey, id } = await perform(issueApiKey, sources, keyIn(form), actor);
      return { apiKey, id };
    }),
    change('/access/keys/:id/rotate', async ({ form, params, actor }) => {
      const wanted = { key_id: params.id, overlap: overlapIn(form) };
      const made = await perform(rotateApiKey, sources, wanted, actor);
      return { apiKey: made.api_key, id: made.id };
    }),
    change('/access/keys/:id/revoke', async ({ form, params, actor }) => {
      requireSure(form, words.revokeSure, words.badHow);
      const wanted = { key_id: params.id, with_successors: form.get('successors') === 'yes' };
      const { id, active_successors: active } = await perform(revokeApiKey, sources, wanted, actor);
      return { id, notice: active.length > 0 ? words.isRevokedAlone : words.isRevoked };
    }),
  ];
}

function keyIn(form: URLSearchParams) {
  const lifetimeMs = durationIn(form, 'lifetime', words.lifetimes, DAY_MS);
  return {
    client: form.get('client') ?? undefined,
    organization: form.get('organization') ?? undefined,
    // The operation refuses other scopes than those of the form.
    scopes: form.getAll('scope') as Scope[],
    for: lifetimeMs === undefined ? undefined : formatDuration(lifetimeMs),
  };
}

async function keyPage(
  store: Store,
  { params, session }: ScreenRequest,
  { newSecrets, now }: { newSecrets: NewSecrets; now: number },
): Promise<Page> {
  const all = await store.credentials.all();
  const credential = all.find(({ id }) => id === params.id);
  if (credential === undefined) throw new Refusal(404, words.noKey, words.noKeyHow);
  const endpoints = await store.webhooks.endpoints.all(credential.clientId);
  const found = await allFaring(store, endpoints, now);
  const rows = found.map(({ shown: { id, url }, is }): HtmlContent[] => [
    html`<a href="/access/webhooks/${id}">${named(addressOf(url, session))}</a>`,
    endpointState(is),
  ]);
  const left = {
    successors: await activeSuccessors(store, credential.id, now),
    endpoints: credential.revokedAt === undefined ? [] : await unmanagedEndpoints(store, credential, now),
  };
  return {
    title: words.keyTitle,
    main: html`<div><p class="small"><a href="/access">← ${words.back}</a></p><h1>${words.keyTitle}</h1></div>
${newSecrets.notice(session)}
<div class="columns">
${facts(credential, now)}
<div class="group">${actions(credential, left, session, now)}
${card(words.endpoints, rows.length > 0 ? tableOf(words.endpoints, Object.values(words.endpointColumns), rows) : html`<p class="quiet">${words.noEndpoints}</p>`)}</div>
</div>`,
  };
}

function facts(credential: Credential, now: number): Html {
  const { facts: names } = words;
  const { expiresAt, revokedAt, certificateName, boundTo, replacedBy } = credential;
  const is = keyState(credential, now);
  const time = (at: number | undefined) => at !== undefined && moment(toRfc3339(at));
  const pairs: [string, HtmlContent][] = [
    [names.key, code(credential.id)],
    [names.state, state(is === 'active' ? 'good' : is === 'expired' ? 'warning' : 'bad', words.states[is])],
    [names.client, named(credential.clientId)],
    [names.organization, named(credential.organization)],
    [names.scopes, credential.scopes.map((scope) => words.scopes[scope]).join(', ')],
    [names.created, time(credential.createdAt)],
    [names.expires, time(expiresAt) || words.never],
    [names.revoked, time(revokedAt)],
    [names.certificate, certificateName !== undefined && named(certificateName)],
    [names.bound, boundTo !== undefined && code(boundTo)],
    [
      names.replacedBy,
      replacedBy !== undefined && html`<a href="/access/keys/${replacedBy}">${code(replacedBy)}</a>`,
    ],
    [names.sha256, certificateName === undefined && code(credential.keyHash)],
  ];
  return card(words.factsTitle, definitions(pairs));
}

/** The keys and endpoints that remain, or would remain, after a key ends. */
interface Left {
  /** Valid keys that replaced it. */
  successors: readonly Credential[];
  /** Enabled endpoints that no valid key can manage any more. */
  endpoints: readonly WebhookEndpoint[];
}

function actions(credential: Credential, left: Left, session: Session, now: number): HtmlContent {
  const { id, certificateName, replacedBy, revokedAt } = credential;
  const isOver = revokedAt !== undefined;
  if (isOver && left.successors.length + left.endpoints.length === 0) return undefined;
  const successors =
    left.successors.length > 0 &&
    html`<p>${words.successorsValid}</p><ul>${left.successors.map((one) => html`<li><a href="/access/keys/${one.id}">${code(one.id)}</a></li>`)}</ul>`;
  if (!reaches(session.person.role, 'administrator'))
    return html`${successors && html`<section class="card">${successors}</section>`}<p class="quiet">${words.adminOnly}</p>`;
  const revoke = isOver ? words.revokeLeft : words.revoke;
  const token = tokenField(session);
  const isReplaceable =
    certificateName === undefined && replacedBy === undefined && keyState(credential, now) === 'active';
  return html`${
    isReplaceable &&
    html`<section class="card" id="rotate"><h2>${words.rotate}</h2><p>${words.rotateLead}</p>
<form class="grid" method="post" action="/access/keys/${id}/rotate">${token}
${overlapField(words.overlap)}
<p class="actions"><button class="strong">${words.rotate}</button></p></form></section>`
  }
<section class="card" id="revoke"><h2>${revoke}</h2>${successors}<p>${isOver ? words.revokeLeftLead : words.revokeLead}</p>
<form class="grid" method="post" action="/access/keys/${id}/revoke">${token}
<ul class="choices"><li><label class="chosen"><input type="checkbox" name="successors" value="yes"> <span>${words.revokeSuccessors}</span></label></li>
<li><label class="chosen"><input type="checkbox" name="sure" value="yes" required> <span>${isOver ? words.revokeLeftSure : words.revokeSure}</span></label></li></ul>
<p class="actions"><button class="danger">${revoke}</button></p></form></section>`;
}
