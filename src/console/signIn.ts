/** Pages for clients without a session. */
import { type Person, ROLES } from '../base/people.ts';
import { english } from './english.ts';
import { html } from './html.ts';
import type { Page } from './screen.ts';
import type { Sessions } from './sessions.ts';

export function signInPage(): Page {
  const roles = ROLES.map(
    (role) => html`<div><dt>${english.roles[role]}</dt><dd>${english.roleMeans[role]}</dd></div>`,
  );
  return {
    title: english.signIn,
    status: 401,
    main: html`<section class="card narrow">
<h1>${english.signIn}</h1>
<p>${english.signInLead}</p>
<p>${english.signInHow}</p>
<pre><code>${english.signInCommand}</code></pre>
<p>${english.signInRoles}</p>
<dl>${roles}</dl>
</section>`,
  };
}

/** Viewing a link does not use it, because link previews of other programs view it too: only the button does. */
export function linkPage(
  secret: string,
  environment: string,
  sessions: Pick<Sessions, 'invited' | 'wasUsed'>,
): Page {
  const person = sessions.invited(secret);
  if (person === undefined) return brokenLinkPage(sessions.wasUsed(secret));
  return personCard(person, english.linkLead(environment), secret);
}

/** Shows the person whose session the button begins. */
export function personCard(person: Person, lead: string, link = ''): Page {
  return {
    title: english.linkTitle,
    main: html`<section class="card narrow">
<h1>${english.linkTitle}</h1>
<p>${lead}</p>
<dl>
<div><dt>${english.linkName}</dt><dd>${person.name}</dd></div>
<div><dt>${english.linkRole}</dt><dd>${english.roles[person.role]}: ${english.roleMeans[person.role]}</dd></div>
</dl>
<p class="quiet">${english.linkNote}</p>
<form method="post" action="/login"><input type="hidden" name="link" value="${link}"><button class="strong">${english.linkButton}</button></form>
</section>`,
  };
}

/** If the button is pressed twice, the first request uses the link, and the second one gets this answer: the session has begun. */
export function brokenLinkPage(wasUsed: boolean): Page {
  const { linkBad, linkBadWhy, linkBadHow, linkUsed, linkUsedWhy, linkUsedOpen, linkUsedHow } = english;
  if (!wasUsed) return messagePage(linkBad, linkBadWhy, { status: 410, remedy: linkBadHow });
  return {
    title: linkUsed,
    status: 410,
    main: html`<section class="card narrow">
<h1>${linkUsed}</h1>
<p>${linkUsedWhy}</p>
<p class="actions"><a class="button strong" href="/">${linkUsedOpen}</a></p>
<p class="remedy">${linkBadHow}</p>
<p class="remedy">${linkUsedHow}</p>
</section>`,
  };
}

/** `how`: how to sign in again. */
export function loggedOutPage(how: string): Page {
  return messagePage(english.loggedOut, english.loggedOutLead, { status: 200, remedy: how });
}

export function messagePage(
  title: string,
  text: string | undefined,
  { status, remedy }: { status: number; remedy: string },
): Page {
  return {
    title,
    status,
    main: html`<section class="card narrow">
<h1>${title}</h1>
${text !== undefined && html`<p>${text}</p>`}
<p class="remedy">${remedy}</p>
</section>`,
  };
}
