/** Card of the screen Care: takes a partition out of service on purpose, and puts it back. */

import { ServiceError } from '../base/errors.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import { english } from './english.ts';
import { type Html, type HtmlContent, html, named } from './html.ts';
import { requireSure, selectField, sureBox, tokenField } from './pageFrame.ts';
import { changing, Refusal, type ScreenRequest, type ScreenRoute } from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { figure, state, tableOf, utc, when } from './values.ts';

const words = english.care.drill;

export function drillRoutes({ drills, clock }: Sources): ScreenRoute[] {
  const change = (path: string, act: (request: ScreenRequest) => Promise<string>) =>
    changing(`/care/drill/${path}`, 'operator', async (request) => ({
      location: '/care',
      notice: await act(request).catch(refuse),
    }));
  return [
    change('begin', async ({ form, actor }) => {
      const seconds = form.get('for') ?? '';
      const partition = form.get('partition') ?? '';
      if (partition === '' || !Object.hasOwn(words.durations, seconds))
        throw new Refusal(400, words.badChoice, words.badHow);
      requireSure(form, words.sure, words.badHow);
      const forMs = Number(seconds) * 1000;
      const name = await drills.takeOut(partition, { forMs, belowQuorum: false }, actor);
      return words.began(name, utc(new Date(clock() + forMs).toISOString()));
    }),
    change('end', async ({ form, actor }) =>
      words.ended(await drills.putBack(form.get('partition') ?? '', actor)),
    ),
  ];
}

/** Passes on a refusal by the partitions as one that the user can remedy. */
function refuse(error: unknown): never {
  if (!(error instanceof ServiceError)) throw error;
  const remedy = error.code === 'below_quorum' ? words.quorumHow : words.refusedHow;
  throw new Refusal(409, error.message, remedy);
}

export function drillCard(
  { drills: { spare } }: Sources,
  { partitions }: AdminStatus,
  session: Session,
  now: number,
): Html {
  const { members, quorum } = partitions;
  const isOperator = reaches(session.person.role, 'operator');
  const rows = members.map(({ name, state: is, signatures, returns_at: back }): HtmlContent[] => [
    named(name),
    state(is === 'ready' ? 'good' : 'warning', english.now.partitionStates[is]),
    figure(signatures),
    back === undefined ? undefined : when(back, now),
    isOperator && is === 'withdrawn' ? endForm(name, session) : undefined,
  ]);
  const isReady = members.some(({ state }) => state === 'ready');
  const columns = [words.partition, words.state, words.signatures, words.returns, words.action];
  return html`<section class="card" id="drill"><h2>${words.title}</h2><p>${words.lead}</p>
${members.length > 0 ? tableOf(words.title, columns, rows) : html`<p class="quiet">${words.none}</p>`}
<p class="small quiet">${english.now.quorum(String(quorum))}</p>
${!isOperator ? html`<p class="quiet">${words.operatorOnly}</p>` : spare.length > 0 ? beginForm(spare, session) : html`<p class="quiet">${isReady ? words.noneSpare : words.noneReady}</p>`}
</section>`;
}

function beginForm(names: readonly string[], session: Session): Html {
  const partitions = names.map((name) => [name, name] as const);
  return html`<form class="search grid" method="post" action="/care/drill/begin">${tokenField(session)}
${selectField('partition', words.partition, partitions)}
${selectField('for', words.duration, Object.entries(words.durations))}
<div class="wide">${sureBox(words.sure)}</div>
<p class="wide actions"><button class="danger">${words.begin}</button></p></form>`;
}

function endForm(name: string, session: Session): Html {
  return html`<form method="post" action="/care/drill/end">${tokenField(session)}<input type="hidden" name="partition" value="${name}"><button>${words.end}<span class="hidden">: ${name}</span></button></form>`;
}
