/** Card of the screen Care that requests a backup and shows its progress. */

import type { AdminStatus } from '../health/statusSchema.ts';
import type { BackupState } from '../ops/backups.ts';
import { english } from './english.ts';
import { type Html, html, named } from './html.ts';
import { tokenField } from './pageFrame.ts';
import { changing, Refusal, type ScreenRoute } from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import type { Sources } from './sources.ts';
import { type StateMark, sign, when } from './values.ts';

const words = english.care.backup;

export function backupRoute({ backups }: Sources): ScreenRoute {
  return changing('/care/backup', 'operator', async ({ actor }) => {
    if (!(await backups.ask(actor))) throw new Refusal(409, words.underWay, words.underWayHow);
    return { location: '/care', notice: words.isAsked };
  });
}

/** Empty if the store is in a database, which is backed up with its own tools. */
export function backupCard(
  { backups, environment }: Sources,
  { store }: AdminStatus,
  session: Session,
  now: number,
): Html | undefined {
  if (store.engine !== 'lmdb') return undefined;
  const state = backups.state();
  const isFree = state?.is !== 'asked' && state?.is !== 'running';
  return html`<section class="card" id="backup"><h2>${words.title}</h2><p>${words.lead}</p>
${state && progress(state, environment, now)}
${
  !reaches(session.person.role, 'operator')
    ? html`<p class="quiet">${words.operatorOnly}</p>`
    : isFree &&
      html`<form method="post" action="/care/backup">${tokenField(session)}<p class="actions"><button>${words.ask}</button></p></form>`
}
</section>`;
}

const MARKS: Record<BackupState['is'], StateMark> = {
  ...{ asked: 'warning', stuck: 'bad', running: 'warning' },
  ...{ failed: 'bad', lost: 'bad', done: 'good' },
};

function progress(state: BackupState, environment: string, now: number): Html {
  const { is } = state;
  const time = 'asked_at' in state ? state.asked_at : (state.ended_at ?? state.began_at);
  const why = 'reason' in state ? state.reason : undefined;
  return html`<p class="state ${MARKS[is]}">${sign(MARKS[is])}<span>${words.states[is]}, ${when(time, now)}${'person' in state && html`, ${named(state.person)}`}</span></p>
${why !== undefined && html`<p><code>${named(why)}</code></p>`}
${
  is === 'stuck' &&
  html`<p class="remedy">${words.stuckHow}</p><pre class="wrap"><code>systemctl reset-failed 'pdfseald-backup@${environment}.*'
systemctl restart pdfseald-backup@${environment}.path</code></pre>`
}
${(is === 'failed' || is === 'lost') && html`<p class="remedy">${words.failedHow}</p><pre class="wrap"><code>journalctl --namespace=+pdfseald -u pdfseald-backup@${environment}</code></pre>`}`;
}
