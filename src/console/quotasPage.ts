/** Page of the screen Access: what each client may send, and what it has used of that. */

import { formatDuration } from '../base/units.ts';
import type { AdminQuotas, PresentedLimit } from '../health/sections/quotasSection.ts';
import { accessHead, clientFilter, ROWS_MAX } from './accessParts.ts';
import { meter } from './charts.ts';
import { english } from './english.ts';
import { type HtmlContent, html, named } from './html.ts';
import { type Page, reading, type ScreenRequest, type ScreenRoute } from './screen.ts';
import type { Sources } from './sources.ts';
import { brief, figure, tableOf, when } from './values.ts';

type ClientLimits = AdminQuotas['clients'][number];

const words = english.access.quotas;
/** Share of a limit from which it is marked as nearly used up. */
const NEARLY = 0.8;

export function quotaRoute(sources: Sources): ScreenRoute {
  return reading('/access/quotas', (request) => quotasPage(sources, request));
}

async function quotasPage({ quotas, status, clock }: Sources, { query }: ScreenRequest): Promise<Page> {
  const client = query.get('client') ?? '';
  const rates = new Map(status.quotas().clients.map(({ client_id: id, rate }) => [id, rate]));
  const all = (await quotas()).map((one) => limitsOf(one, rates.get(one.client_id) ?? one.rate));
  const rows = all
    .filter((one) => client === '' || one.client === client)
    .sort((a, b) => b.most - a.most)
    .flatMap((one) => rowsOf(one, clock()));
  const names = all.map((one) => one.client);
  return {
    title: words.title,
    main: html`${accessHead('/access/quotas')}
<section class="card" id="quotas">
${clientFilter('/access/quotas', names, client)}
${rows.length > 0 ? tableOf(words.title, Object.values(words.columns), rows.slice(0, ROWS_MAX)) : html`<p><strong>${words.none}</strong></p><p class="remedy">${words.noneHow}</p>`}
${rows.length > ROWS_MAX && html`<p class="small quiet">${words.cutOff(figure(ROWS_MAX), figure(rows.length))}</p>`}
<p class="small quiet">${words.how}</p>
</section>`,
  };
}

interface Limited extends PresentedLimit {
  of: string;
  /** False for the request rate, whose allowance refills continuously. */
  hasWindow: boolean;
}

function limitsOf({ client_id: client, quotas }: ClientLimits, rate: PresentedLimit | undefined) {
  const limits: Limited[] = quotas.map(({ name, ...limit }) => ({
    ...limit,
    of: words.jobs(name),
    hasWindow: true,
  }));
  if (rate !== undefined) limits.push({ ...rate, of: words.requests, hasWindow: false });
  return { client, limits, most: Math.max(0, ...limits.map(shareOf)) };
}

/** A limit of zero counts as used up. */
function shareOf({ used, limit }: PresentedLimit): number {
  return limit === 0 ? 1 : used / limit;
}

function rowsOf({ client, limits }: ReturnType<typeof limitsOf>, now: number): HtmlContent[][] {
  const name = named(brief(client));
  if (limits.length === 0) return [[name, words.unlimited, undefined, undefined, undefined]];
  return limits.map((one) => {
    const share = shareOf(one);
    const kind = share >= 1 ? 'bad' : share >= NEARLY ? 'warning' : 'good';
    return [
      name,
      named(brief(one.of)),
      html`${figure(one.used)}${share >= 1 && html` <strong class="bad">${words.usedUp}</strong>`}${meter(share, kind, words.share(Math.round(share * 100)))}`,
      words.allowed(figure(one.limit), formatDuration(one.window_seconds * 1000)),
      one.hasWindow ? when(one.resets_at, now) : undefined,
    ];
  });
}
