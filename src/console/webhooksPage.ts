/** Page of the screen Access that lists the webhook endpoints of every client, and their state. */
import { clientsOf } from '../store/everyClient.ts';
import { accessHead, clientFilter, ROWS_MAX } from './accessParts.ts';
import { addForm } from './endpointForms.ts';
import { endpointRoutes } from './endpointPage.ts';
import { addressOf, allFaring, endpointState, type Faring } from './endpointParts.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html, named } from './html.ts';
import type { NewSecrets } from './newSecrets.ts';
import { type Page, reading, type ScreenRequest, type ScreenRoute } from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { brief, figure, tableOf, when } from './values.ts';

const words = english.webhooks;

export function webhookRoutes(sources: Sources, newSecrets: NewSecrets): ScreenRoute[] {
  return [
    reading('/access/webhooks', (request) => webhooksPage(sources, request, newSecrets)),
    ...endpointRoutes(sources, newSecrets),
  ];
}

async function webhooksPage(
  { store, clock }: Sources,
  { query, session }: ScreenRequest,
  newSecrets: NewSecrets,
): Promise<Page> {
  const client = query.get('client') ?? '';
  const all = await store.webhooks.endpoints.all(client === '' ? undefined : client);
  const now = clock();
  const found = await allFaring(store, all, now);
  const rows = found.sort((a, b) => Number(b.isTroubled) - Number(a.isTroubled)).slice(0, ROWS_MAX);
  return {
    title: words.title,
    main: html`${accessHead('/access/webhooks')}
${newSecrets.notice(session)}
<section class="card" id="webhooks">
${clientFilter('/access/webhooks', await clientsOf(store), client)}
${rows.length > 0 ? table(rows, session, now) : html`<p><strong>${words.none}</strong></p><p class="remedy">${words.noneHow}</p>`}
${all.length > ROWS_MAX && html`<p class="small quiet">${words.cutOff(figure(ROWS_MAX), figure(all.length))}</p>`}
</section>
${reaches(session.person.role, 'administrator') && addForm(session, 'clients')}`,
  };
}

function table(rows: readonly Faring[], session: Session, now: number): Html {
  return tableOf(
    words.title,
    Object.values(words.columns),
    rows.map(({ shown: { id, client, url }, tally, is }): HtmlContent[] => [
      named(brief(client)),
      html`<a href="/access/webhooks/${id}">${named(brief(addressOf(url, session)))}</a>`,
      endpointState(is),
      figure(tally.pending),
      html`${tally.dead_letters > 0 ? html`<strong class="bad">${figure(tally.dead_letters)}</strong>` : '0'}`,
      tally.last_delivered_at === undefined ? words.never : when(tally.last_delivered_at, now),
    ]),
  );
}
