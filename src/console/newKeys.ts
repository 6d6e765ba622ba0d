/** API keys that were made and not shown yet. Each is shown once, to the session that made it, and goes with that session. */
import { english } from './english.ts';
import { code, type HtmlContent, html } from './html.ts';
import { type Page, Refusal } from './screen.ts';
import type { Session } from './sessions.ts';

interface NewKey {
  apiKey: string;
  id: string;
}

const words = english.access;

export class NewKeys {
  readonly #unshown = new WeakMap<Session, NewKey[]>();

  add(session: Session, key: NewKey): void {
    this.#unshown.set(session, [...(this.#unshown.get(session) ?? []), key]);
  }

  /** The way to those that wait: an answer can be lost, and with it the page that would have shown them. */
  notice(session: Session): HtmlContent {
    const count = this.#unshown.get(session)?.length ?? 0;
    if (count === 0) return undefined;
    return html`<p class="notice" id="unshown" role="status">${words.newWaits(count)} <a href="/access/new-key">${words.newShow}</a></p>`;
  }

  /** All of them, for the only time. Throws Refusal if there is none. */
  show(session: Session): Page {
    const keys = this.#unshown.get(session);
    if (keys === undefined) throw new Refusal(410, words.newGone, words.newGoneHow);
    this.#unshown.delete(session);
    const title = words.newTitle(keys.length);
    const shown = keys.map(({ apiKey, id }, n) => {
      const field = n === 0 ? 'api-key' : `api-key-${n + 1}`;
      return html`<p><label for="${field}">${words.newKey} ${code(id)}</label></p>
<textarea id="${field}" class="secret" readonly rows="2" spellcheck="false" autocomplete="off">${apiKey}</textarea>
<p><a class="button" href="/access/keys/${id}">${words.toKey}${keys.length > 1 && html`<span class="hidden"> ${id}</span>`}</a></p>`;
    });
    return {
      title,
      main: html`<section class="card narrow" id="new-key">
<h1>${title}</h1>
<p><strong>${words.newLead}</strong></p>
${keys.length > 1 && html`<p>${words.newMany}</p>`}
${shown}
</section>`,
    };
  }
}
