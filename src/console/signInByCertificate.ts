/** Pages for clients that reach the console over TLS and have no session. */
import type { Person } from '../base/people.ts';
import { english } from './english.ts';
import { html, named } from './html.ts';
import type { Page } from './screen.ts';
import { messagePage, personCard } from './signIn.ts';

const words = english.certificates;

/** The button begins the session: viewing the page does not sign anyone in, not even right after logging out. */
export function ownCertificatePage(person: Person, environment: string): Page {
  return { ...personCard(person, words.lead(environment)), status: 401 };
}

export function noCertificatePage(): Page {
  return messagePage(words.needed, words.neededLead, { status: 401, remedy: words.neededHow });
}

/** `names`: the names of a valid certificate. */
export function refusedCertificatePage(why: string, names?: readonly string[]): Page {
  if (names === undefined) return messagePage(words.refused, why, { status: 403, remedy: words.faultyHow });
  return {
    title: words.refused,
    status: 403,
    main: html`<section class="card narrow">
<h1>${words.refused}</h1>
<p>${why}</p>
${names.length > 0 ? html`<ul>${names.map((name) => html`<li>${named(name)}</li>`)}</ul>` : html`<p>${words.noNames}</p>`}
<p class="remedy">${words.refusedHow}</p>
</section>`,
  };
}

export function tooManyLoginsPage(): Page {
  return messagePage(words.tooMany, words.tooManyLead, { status: 429, remedy: words.tooManyHow });
}
