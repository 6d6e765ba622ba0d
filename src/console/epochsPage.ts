/** Page of the screen Care that shows the epoch in force and the planned ones. Changing them takes two people. */
import type { PresentedEpoch } from '../ops/presentEpochs.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html, named } from './html.ts';
import { lastProposalCard, proposalCard } from './proposalCards.ts';
import type { ScreenRequest } from './screen.ts';
import type { Sources } from './sources.ts';
import { definitions, figure, moment, state, tableOf } from './values.ts';

const words = english.care.epochs;

export async function epochsPage(sources: Sources, request: ScreenRequest): Promise<Html> {
  const all = await sources.epochs();
  const shown = all.filter(({ state }) => state !== 'past');
  const past = all.length - shown.length;
  const isPlanned = shown.some(({ state }) => state === 'planned');
  const card = proposalCard(sources, request, shown);
  const waits = sources.proposals.waiting !== undefined;
  return html`${waits ? card : lastProposalCard(sources)}
<div class="columns">${shown.map(epochCard)}</div>
${!isPlanned && html`<p class="quiet">${words.nonePlanned}</p>`}
${!waits && card}
${past > 0 && html`<p class="quiet">${words.earlier(past)}</p>`}`;
}

function epochCard({ epoch, state: is, from, until, quorum, timestamps, keys }: PresentedEpoch): Html {
  const pairs: [string, HtmlContent][] = [
    [is === 'planned' ? words.from : words.began, moment(from)],
    [words.until, until !== undefined && moment(until)],
    [words.quorum, String(quorum)],
    [words.timestamps, timestamps === 'required' ? words.required : words.noTimestamps],
  ];
  const rows = keys.map(({ region, key_label: label, algorithm, software, partition }): HtmlContent[] => [
    html`${named(`${region}/${label}`)}${software && html` <span class="small quiet">${words.software}</span>`}`,
    html`<code>${named(algorithm)}</code>`,
    named(partition),
  ]);
  return html`<section class="card"><div class="title"><h2>${words.epoch(figure(epoch))}</h2>${is === 'planned' ? html`<span class="quiet">${words.states[is]}</span>` : state('good', words.states[is])}</div>
${definitions(pairs)}
${tableOf(words.keys, Object.values(words.keyColumns), rows)}</section>`;
}
