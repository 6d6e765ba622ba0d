/** API keys and webhook secrets that were made and not shown yet. Each is shown once, to the session that made it, and goes with that session. */
import { english } from './english.ts';
import { code, type HtmlContent, html } from './html.ts';
import { type Page, type Redirect, Refusal } from './screen.ts';
import type { Session } from './sessions.ts';

interface MadeSecret {
  kind: 'key' | 'webhook';
  secret: string;
  /** Of the key or endpoint it belongs to. */
  id: string;
}

const words = english.access;
const PATHS = { key: '/access/keys', webhook: '/access/webhooks' };

export class NewSecrets {
  readonly #unshown = new WeakMap<Session, MadeSecret[]>();

  /** Returns the way to it. */
  add(session: Session, made: MadeSecret): Redirect {
    this.#unshown.set(session, [...(this.#unshown.get(session) ?? []), made]);
    return { location: '/access/new' };
  }

  /** The way to those that wait: an answer can be lost, and with it the page that would have shown them. */
  notice(session: Session): HtmlContent {
    const unshown = this.#unshown.get(session);
    if (unshown === undefined) return undefined;
    const [{ kind } = { kind: 'key' as const }] = unshown;
    const waits = unshown.length > 1 ? words.newWait(unshown.length) : words.newWaits[kind];
    return html`<p class="notice" id="unshown" role="status">${waits} <a href="/access/new">${words.newShow}</a></p>`;
  }

  /** All of them, for the only time. Throws Refusal if there is none. */
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
