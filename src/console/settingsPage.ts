/** Page of the screen Care: the configuration in effect, and what awaits a restart. */
import type { AdminStatus } from '../health/statusSchema.ts';
import { english } from './english.ts';
import { code, type Html, type HtmlContent, html, named } from './html.ts';
import type { ScreenRequest } from './screen.ts';
import { reaches } from './sessions.ts';
import type { ShownSetting, Sources } from './sources.ts';
import { chooser, definitions, figure, moment, sign, tableOf } from './values.ts';

const words = english.care.configuration;
const ROWS_MAX = 500;

export async function settingsPage(
  { settings, status }: Sources,
  { query, session }: ScreenRequest,
): Promise<Html> {
  const { config } = await status.read();
  const all = settings({ isWhole: reaches(session.person.role, 'administrator') });
  const isAll = query.get('keys') === 'all';
  const wanted = isAll ? all : all.filter(({ changed }) => changed);
  const links = [
    { path: '/care/configuration', label: words.changed, isHere: !isAll },
    { path: '/care/configuration?keys=all', label: words.all, isHere: isAll },
  ];
  return html`${waiting(all.filter(({ next }) => next !== undefined))}
${fileCard(config)}
<section class="card" id="settings"><div class="title"><h2>${words.now}</h2>${chooser(words.which, links)}</div>
${wanted.length > 0 ? settingsTable(wanted.slice(0, ROWS_MAX)) : html`<p class="quiet">${words.none}</p>`}
${wanted.length > ROWS_MAX && html`<p class="small quiet">${words.cutOff(figure(ROWS_MAX), figure(wanted.length))}</p>`}
</section>`;
}

function waiting(settings: readonly ShownSetting[]): HtmlContent {
  if (settings.length === 0) return undefined;
  const rows = settings
    .slice(0, ROWS_MAX)
    .map(({ key, value, next }) => [keyOf(key), spelling(value), spelling(next?.value)]);
  return html`<section class="card" id="waiting"><h2 class="state warning">${sign('warning')}<span>${words.waits}</span></h2>
${tableOf(words.waits, [words.key, words.now, words.next], rows)}
<p class="remedy">${words.waitsHow}</p></section>`;
}

function fileCard({ file, sha256, loaded_at: loaded, pending }: AdminStatus['config']): Html {
  const pairs: [string, HtmlContent][] = [
    [words.file, named(file)],
    [words.sha256, code(sha256)],
    [words.loaded, moment(loaded)],
  ];
  return html`<section class="card">${definitions(pairs)}
<p class="small quiet">${pending.length === 0 && `${words.nothingWaits} `}${words.stale}</p></section>`;
}

function settingsTable(settings: readonly ShownSetting[]): Html {
  const columns = [words.key, words.value, words.source];
  const rows = settings.map(({ key, value, source }) => [keyOf(key), spelling(value), words.sources[source]]);
  return tableOf(words.now, columns, rows);
}

function keyOf(key: string): Html {
  return html`<code>${named(key)}</code>`;
}

function spelling(value: string | undefined): Html {
  if (value === undefined) return html`<span class="quiet">${words.unset}</span>`;
  return html`<code class="long">${named(value)}</code>`;
}
