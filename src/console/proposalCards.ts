/** Part of the page of epochs: the change that waits for a second administrator, and the form that proposes one. */

import { describeSeconds } from '../base/phrases.ts';
import type { PresentedEpoch } from '../ops/presentEpochs.ts';
import type { Concern } from './concerns.ts';
import { english } from './english.ts';
import { type Html, html, named } from './html.ts';
import { requireSure, sureBox, tokenField } from './pageFrame.ts';
import { isSameName, type PlanChoice, type Prepared, type Proposal, type Proposals } from './proposals.ts';
import { changing, Refusal, type ScreenRequest, type ScreenRoute } from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { definitions, figure, utc } from './values.ts';

const words = english.proposals;
const DAY_MS = 86_400_000;

export function proposalRoutes({ proposals, epochActs }: Sources): ScreenRoute[] {
  const change = (name: string, notice: string, act: (request: ScreenRequest) => Promise<void>) =>
    changing(`/care/epochs/${name}`, 'administrator', async (request) => {
      await act(request);
      return { location: '/care/epochs', notice };
    });
  return [
    change('propose', words.proposed, (request) => {
      const { form } = request;
      if (form.get('act') === 'cancel') return proposals.propose(() => epochActs.cancel(), request);
      const choice = readChoice(form);
      return proposals.propose(() => epochActs.plan(choice), request);
    }),
    change('approve', words.approved, (request) => {
      const { form } = request;
      requireSure(form, words.sure, words.badTimeHow);
      return proposals.approve(form.get('proposal') ?? '', request);
    }),
    change('refuse', words.refused, (request) =>
      proposals.refuse(request.form.get('proposal') ?? '', request),
    ),
  ];
}

function readChoice(form: URLSearchParams): PlanChoice {
  const suffix = form.get('suffix') ?? '';
  if (!/^[\w.-]{0,32}$/.test(suffix)) throw new Refusal(400, words.badSuffix, words.badTimeHow);
  return { from: readTime(form.get('from') ?? ''), newKeys: form.getAll('new'), suffix };
}

/** A date and time field sends no time zone; the value is in UTC. */
function readTime(text: string): number {
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?$/.test(text) ? Date.parse(`${text}Z`) : Number.NaN;
  if (Number.isNaN(at)) throw new Refusal(400, words.badTime, words.badTimeHow);
  return at;
}

/** The effects of the proposal, one sentence each. */
function sentencesOf({ act, inForce, epoch, lowersQuorum, newRoots }: Prepared): Html[] {
  const names = ({ keys }: Prepared['epoch']) =>
    keys.map(({ region, key_label: label }) => `${region}/${label}`);
  const first = html`${firstSentence({ act, epoch })}`;
  if (act === 'epoch.cancel') return [first, html`${words.trustAgain}`];
  const gone = names(inForce).filter((name) => !names(epoch).includes(name));
  const added = names(epoch).filter((name) => !names(inForce).includes(name));
  const [before, after] = [inForce, epoch].map(({ quorum }) => String(quorum));
  const stamps = epoch.timestamps === 'required' ? words.stamped : words.unstamped;
  return [
    first,
    before === after
      ? html`${words.sameQuorum} ${named(`${after}`)}.`
      : html`${words.quorum} ${named(`${before}`)} ${words.becomes} ${named(`${after}`)}.`,
    ...(lowersQuorum ? [html`<strong>${words.lowers}</strong>`] : []),
    ...gone.map((name) => html`${named(name)} ${words.signsNoMore}`),
    ...added.map((name) => html`${named(name)} ${words.signsAnew}`),
    html`${gone.length + added.length === 0 ? words.keysStay : words.othersStay}`,
    ...(inForce.timestamps === epoch.timestamps ? [] : [html`${stamps}`]),
    ...newRoots.map((root) => html`<strong>${words.newRoot}</strong> ${named(root)}`),
    html`${words.trust}`,
  ];
}

function firstSentence({ act, epoch }: Pick<Prepared, 'act' | 'epoch'>): string {
  return words[act](figure(epoch.epoch), utc(epoch.from));
}

export function proposalConcerns({ waiting }: Pick<Proposals, 'waiting'>): Concern[] {
  if (waiting === undefined) return [];
  const { by, prepared } = waiting;
  const what = `${firstSentence(prepared)}${prepared.lowersQuorum ? ` ${words.lowers}` : ''}`;
  return [
    {
      level: 'warning',
      what: words.concern,
      detail: words.concernDetail(by, what),
      remedy: words.concernRemedy,
      page: '/care/epochs',
    },
  ];
}

/** A note for the first page of Care, which does not show the epochs. */
export function proposalNote({ proposals: { waiting } }: Sources): Html | undefined {
  if (waiting === undefined) return undefined;
  return html`<p class="remedy"><a href="/care/epochs">${words.waits}</a></p>`;
}

/** `shown`: the epoch in force, and the planned one, if any, which can be cancelled. */
export function proposalCard(
  { proposals: { waiting }, clock }: Sources,
  { session }: ScreenRequest,
  shown: readonly PresentedEpoch[],
): Html {
  const isAdministrator = reaches(session.person.role, 'administrator');
  if (waiting !== undefined) return waitingCard(waiting, session, isAdministrator);
  const isPlanned = shown.some(({ state }) => state === 'planned');
  const form = isPlanned ? cancelForm(session) : planForm(shown, session, clock());
  return html`<section class="card" id="proposal"><h2>${words.title}</h2><p>${words.lead}</p>
${isAdministrator ? form : html`<p class="quiet">${words.adminOnly}</p>`}</section>`;
}

function waitingCard(proposal: Proposal, session: Session, isAdministrator: boolean): Html {
  const { by, prepared, endsAt } = proposal;
  const isOwn = isSameName(by, session.person.name);
  const left = Math.max(0, Math.round((endsAt - performance.now()) / 1000));
  return html`<section class="card" id="proposal"><h2>${words.waits}</h2>
${definitions([
  [words.by, named(by)],
  [words.ends, words.endsIn(describeSeconds(left))],
])}
<h3>${words.happens}</h3>
<ul>${sentencesOf(prepared).map((one) => html`<li>${one}</li>`)}</ul>
${isAdministrator ? answerForm(proposal, session, isOwn) : html`<p class="quiet">${words.adminOnly}</p>`}</section>`;
}

/** Both people see the same result. */
export function lastProposalCard({ proposals: { last } }: Pick<Sources, 'proposals'>): Html | undefined {
  if (last === undefined) return undefined;
  const { by, answeredBy, prepared, result } = last;
  return html`<section class="card" id="last-proposal"><h2>${words.last}</h2>
${definitions([
  [words.by, named(by)],
  [words.answeredBy, answeredBy !== undefined && named(answeredBy)],
  [words.proposal, firstSentence(prepared)],
  [words.result, result],
])}</section>`;
}

/** The proposer can only withdraw it. */
function answerForm({ id }: Proposal, session: Session, isOwn: boolean): Html {
  const refuse = (label: string) =>
    html`<button formaction="/care/epochs/refuse" formnovalidate>${label}</button>`;
  const fields = isOwn ? html`<p class="quiet">${words.yours}</p>` : sureBox(words.sure);
  const buttons = isOwn
    ? refuse(words.withdraw)
    : html`<button class="danger">${words.approve}</button> ${refuse(words.refuse)}`;
  return html`<form class="grid" method="post" action="/care/epochs/approve">${tokenField(session)}<input type="hidden" name="proposal" value="${id}">
<div class="wide">${fields}</div>
<p class="wide actions">${buttons}</p></form>`;
}

function planForm(shown: readonly PresentedEpoch[], session: Session, now: number): Html {
  const tomorrow = new Date(now + DAY_MS).toISOString().slice(0, 10);
  const boxes = shown
    .flatMap(({ keys }) => keys)
    .filter(({ software }) => software !== true)
    .map(({ region, partition }) => {
      const name = `${region}/${partition}`;
      return html`<label class="chosen"><input type="checkbox" name="new" value="${name}"> <span>${named(name)}</span></label>`;
    });
  return html`<p class="quiet">${words.planHow}</p>
<form class="search grid" method="post" action="/care/epochs/propose">${tokenField(session)}<input type="hidden" name="act" value="plan">
<p class="field"><label for="from">${words.from}</label><input type="datetime-local" id="from" name="from" required value="${tomorrow}T06:00"></p>
<p class="field"><label for="suffix">${words.suffix}</label><input id="suffix" name="suffix" maxlength="32" autocomplete="off" spellcheck="false"></p>
<fieldset class="wide"><legend>${words.newKeys}</legend>${boxes}<p class="small quiet">${words.newKeysHow}</p></fieldset>
<p class="wide actions"><button class="strong">${words.propose}</button></p></form>`;
}

function cancelForm(session: Session): Html {
  return html`<form method="post" action="/care/epochs/propose">${tokenField(session)}<input type="hidden" name="act" value="cancel"><p class="actions"><button class="danger">${words.proposeCancel}</button></p></form>`;
}
