/** Page of the screen Access that lists the people signed in to the console. Administrators can end a session. */
import { toRfc3339 } from '../base/clock.ts';
import { actBy } from '../store/acts.ts';
import { accessHead } from './accessParts.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html, named } from './html.ts';
import { tokenField } from './pageFrame.ts';
import {
  changing,
  type Page,
  type Redirect,
  Refusal,
  reading,
  type ScreenRequest,
  type ScreenRoute,
} from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { tableOf, when } from './values.ts';

const words = english.sessions;

export function sessionRoutes(sources: Sources): ScreenRoute[] {
  return [
    reading('/access/sessions', (request) => sessionsPage(sources, request)),
    changing('/access/sessions/:id/end', 'administrator', (request) => endSession(sources, request)),
  ];
}

function sessionsPage({ sessions, clock }: Sources, { session: own }: ScreenRequest): Page {
  const now = clock();
  const ago = (ms: number) => when(toRfc3339(Math.round(now - ms)), now);
  const rows = sessions
    .list()
    .map(({ id, person, beganMs, usedMs }): HtmlContent[] => [
      named(person.name),
      english.roles[person.role],
      ago(beganMs),
      ago(usedMs),
      id === own.id ? html`<span class="quiet">${words.yours}</span>` : endForm(id, person.name, own),
    ]);
  return {
    title: words.title,
    main: html`${accessHead('/access/sessions')}
<section class="card" id="sessions">${tableOf(words.title, Object.values(words.columns), rows)}
<p class="small quiet">${words.how}</p>
<pre class="wrap"><code>${words.command}</code></pre>
<p class="small quiet">${words.certificateNote}</p></section>
${!reaches(own.person.role, 'administrator') && html`<p class="quiet">${english.access.adminOnly}</p>`}`,
  };
}

function endForm(id: string, name: string, own: Session): Html | undefined {
  if (!reaches(own.person.role, 'administrator')) return undefined;
  return html`<form method="post" action="/access/sessions/${id}/end">${tokenField(own)}<button>${words.end}<span class="hidden">: ${name}</span></button></form>`;
}

/** The session ends before the act is recorded, so that a full store cannot keep it alive. */
async function endSession({ sessions, store }: Sources, { params, actor }: ScreenRequest): Promise<Redirect> {
  const person = sessions.endOne(params.id ?? '');
  if (person === undefined) throw new Refusal(404, words.gone, words.goneHow);
  await store.trail.append(actBy(actor, 'console.logout', { name: person.name, sessions: 1 }));
  return { location: '/access/sessions', notice: words.ended(person.name) };
}
