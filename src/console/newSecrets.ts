/**
 * API keys and webhook secrets that were created but not yet shown. Each is shown once, to the session that created it, and is lost when
 * that session ends.
 */
import { english } from './english.ts';
import { code, type HtmlContent, html } from './html.ts';
import { type Page, type Redirect, Refusal } from './screen.ts';
import type { Session } from './sessions.ts';

interface MadeSecret {
  kind: 'key' | 'webhook';
  secret: string;
  /** The id of the key or endpoint that it belongs to. */
  id: string;
}

const words = english.access;
const PATHS = { key: '/access/keys', webhook: '/access/webhooks' };

export class NewSecrets {
  readonly #unshown = new WeakMap<Session, MadeSecret[]>();

  /** Returns a redirect to the page that shows it. */
  add(session: Session, made: MadeSecret): Redirect {
    this.#unshown.set(session, [...(this.#unshown.get(session) ?? []), made]);
    return { location: '/access/new' };
  }

  /** A link to the waiting secrets: the answer with the redirect may have been lost. */
  notice(session: Session): HtmlContent {
    const unshown = this.#unshown.get(session);
    if (unshown === undefined) return undefined;
    const [{ kind } = { kind: 'key' as const }] = unshown;
    const waits = unshown.length > 1 ? words.newWait(unshown.length) : words.newWaits[kind];
    return html`<p class="notice" id="unshown" role="status">${waits} <a href="/access/new">${words.newShow}</a></p>`;
  }

  /** Shows all of them, once. Throws Refusal if there are none. */
  show(session: Session): Page {
    const unshown = this.#unshown.get(session);
    if (unshown === undefined) throw new Refusal(410, words.newGone, words.newGoneHow);
    this.#unshown.delete(session);
    const [{ kind } = { kind: 'key' as const }] = unshown;
    const isMany = unshown.length > 1;
    const title = isMany ? words.newTitle(unshown.length) : words.newTitles[kind];
    const shown = unshown.map(({ kind, secret, id }, n) => {
      const field = n === 0 ? 'secret' : `secret-${n + 1}`;
      return html`<p><label for="${field}">${words.newLabels[kind]} ${code(id)}</label></p>
<textarea id="${field}" class="secret" readonly rows="2" spellcheck="false" autocomplete="off">${secret}</textarea>
<p><a class="button" href="${PATHS[kind]}/${id}">${words.newTo[kind]}${isMany && html`<span class="hidden"> ${id}</span>`}</a></p>`;
    });
    return {
      title,
      main: html`<section class="card narrow" id="new-secret">
<h1>${title}</h1>
<p><strong>${words.newLead}</strong></p>
${isMany && html`<p>${words.newMany}</p>`}
${shown}
</section>`,
    };
  }
}
