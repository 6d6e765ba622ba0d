/** The screen Access: clients and their API keys, which administrators create, rotate and revoke; quotas; webhooks. */
import { toRfc3339 } from '../base/clock.ts';
import { keyState } from '../store/apiKeys.ts';
import { type Credential, SCOPES } from '../store/credentialStore.ts';
import { clientNamesIn } from '../store/everyClient.ts';
import { accessHead, clientFilter, ROWS_MAX } from './accessParts.ts';
import { english } from './english.ts';
import { code, type Html, type HtmlContent, html, named } from './html.ts';
import { keyRoutes } from './keyPage.ts';
import { NewSecrets } from './newSecrets.ts';
import { selectField, tokenField } from './pageFrame.ts';
import { quotaRoute } from './quotasPage.ts';
import { type Page, reading, type Screen, type ScreenRequest } from './screen.ts';
import { reaches } from './sessions.ts';
import { sessionRoutes } from './sessionsPage.ts';
import type { Sources } from './sources.ts';
import { brief, day, figure, state, tableOf } from './values.ts';
import { webhookRoutes } from './webhooksPage.ts';

const words = english.access;

export function accessScreen(sources: Sources): Screen {
  const newSecrets = new NewSecrets();
  return {
    path: '/access',
    label: words.title,
    routes: [
      reading('/access', (request) => accessPage(sources, request, newSecrets)),
      ...keyRoutes(sources, newSecrets),
      quotaRoute(sources),
      ...webhookRoutes(sources, newSecrets),
      ...sessionRoutes(sources),
    ],
  };
}

async function accessPage(
  { store, clock }: Sources,
  { query, session }: ScreenRequest,
  newSecrets: NewSecrets,
): Promise<Page> {
  const now = clock();
  const client = query.get('client') ?? '';
  const all = await store.credentials.all();
  const wanted = all
    .filter(({ clientId }) => client === '' || clientId === client)
    .sort((a, b) => Number(isActive(b, now)) - Number(isActive(a, now)) || b.createdAt - a.createdAt);
  const isAdministrator = reaches(session.person.role, 'administrator');
  return {
    title: words.title,
    main: html`${accessHead('/access')}
${newSecrets.notice(session)}
<section class="card" id="keys">
${clientFilter('/access', clientNamesIn(all), client)}
${wanted.length > 0 ? keysTable(wanted.slice(0, ROWS_MAX), now) : html`<p><strong>${words.none}</strong></p><p class="remedy">${words.noneHow}</p>`}
${wanted.length > ROWS_MAX && html`<p class="small quiet">${words.cutOff(figure(ROWS_MAX), figure(wanted.length))}</p>`}
</section>
${isAdministrator ? issueForm(tokenField(session)) : html`<p class="quiet">${words.adminOnly}</p>`}`,
  };
}

function isActive(credential: Credential, now: number): boolean {
  return keyState(credential, now) === 'active';
}

function keysTable(credentials: readonly Credential[], now: number): Html {
  const rows = credentials.map((credential): HtmlContent[] => {
    const { id, clientId, organization, scopes, expiresAt, createdAt, certificateName } = credential;
    const is = keyState(credential, now);
    return [
      html`${named(brief(clientId))} <span class="small quiet">${named(brief(organization))}</span>`,
      html`<a href="/access/keys/${id}">${code(id)}</a>${certificateName !== undefined && html` <span class="small quiet">${words.certificate}</span>`}`,
      html`<span class="small">${scopes.map((scope) => words.scopes[scope]).join(', ')}</span>`,
      state(is === 'active' ? 'good' : is === 'expired' ? 'warning' : 'bad', words.states[is]),
      day(toRfc3339(createdAt)),
      expiresAt === undefined ? words.never : day(toRfc3339(expiresAt)),
    ];
  });
  return tableOf(words.sections['/access'].heading, Object.values(words.columns), rows);
}

function issueForm(token: Html): Html {
  const name = (field: 'client' | 'organization', label: string) =>
    html`<p class="field"><label for="${field}">${label}</label><input id="${field}" name="${field}" required maxlength="63" pattern="[a-z0-9][a-z0-9\\-]*" autocomplete="off" autocapitalize="off" spellcheck="false" aria-describedby="name-note"></p>`;
  const scope = (one: (typeof SCOPES)[number]) =>
    html`<li><label class="chosen"><input type="checkbox" name="scope" value="${one}"${one.startsWith('jobs:') && html` checked`}> <span>${words.scopes[one]} <code class="quiet">${one}</code></span></label></li>`;
  return html`<section class="card" id="issue"><h2>${words.issue}</h2>
<form class="search grid" method="post" action="/access/keys">${token}
${name('client', words.columns.client)}${name('organization', words.organization)}
<p class="wide small quiet" id="name-note">${words.nameNote}</p>
${selectField('lifetime', words.lifetime, Object.entries(words.lifetimes), '365')}
<fieldset class="wide"><legend>${words.scopesTitle}</legend><ul class="choices">${SCOPES.map(scope)}</ul></fieldset>
<p class="wide small quiet">${words.issueNote}</p>
<p class="wide actions"><button class="strong">${words.issue}</button></p>
</form></section>`;
}
