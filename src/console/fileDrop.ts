/** Drop area for a document. The page's script hashes it; only the digest is sent. */
import { english } from './english.ts';
import { type Html, html } from './html.ts';

const words = english.find;

export function dropZone(label: string, note: string): Html {
  return html`<div class="drop" id="drop" data-hashing="${words.hashing}" data-unreadable="${words.unreadable}" hidden>
<svg class="mark" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="M6 3h8l4 4v14H6zM14 3v4h4M12 18v-7m-3 3l3-3 3 3"/></svg>
<p><strong>${label}</strong></p>
<p class="small quiet" id="drop-note">${note}</p>
<label class="button strong pick">${words.choose}<input type="file" id="file" aria-describedby="drop-note"></label>
<p id="drop-work" role="status"></p>
<progress id="drop-bar" max="1" aria-label="${words.hashing}" hidden></progress>
</div>
<noscript><p class="notice">${words.noScript}</p></noscript>`;
}
