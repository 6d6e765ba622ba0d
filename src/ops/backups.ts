import { type Clock, toRfc3339 } from '../base/clock.ts';
import type { Actor } from '../manifest/auditRecord.ts';
import { actBy, onRecord } from '../store/acts.ts';
import type { TrailStore } from '../store/trail.ts';
import { askForBackup, type BackupAsked, type BackupRun, readBackupNotes } from './backupRequest.ts';

/** The service manager begins it within a second: whoever waits for longer waits for a unit that does not run. */
export const BACKUP_BEGINS_MS_MAX = 60_000;
/** `TimeoutStartSec` of `pdfseald-backup@.service`: after that, a run that did not say how it ended was ended. */
export const BACKUP_MS_MAX = 6 * 3_600_000;

interface BackupsOptions {
  stateDir: string;
  trail: Pick<TrailStore, 'append'>;
  clock: Clock;
}

export type BackupState =
  | ({ is: 'asked' | 'stuck' } & BackupAsked)
  | ({ is: 'running' | 'failed' | 'lost' | 'done' } & BackupRun);

/** Backups that people ask for. The daemon makes none itself: it may write to its own folder only. */
export class Backups {
  readonly #options: BackupsOptions;
  #isAsking = false;

  constructor(options: BackupsOptions) {
    this.#options = options;
  }

  /** The newest backup on record; undefined if there is none. */
  state(): BackupState | undefined {
    const { stateDir, clock } = this.#options;
    const { asked, run } = readBackupNotes(stateDir);
    const age = (at: string) => clock() - Date.parse(at);
    if (asked !== undefined)
      return { is: age(asked.asked_at) > BACKUP_BEGINS_MS_MAX ? 'stuck' : 'asked', ...asked };
    if (run === undefined) return undefined;
    if (run.ended_at !== undefined) return { is: run.reason === undefined ? 'done' : 'failed', ...run };
    return { is: age(run.began_at) > BACKUP_MS_MAX ? 'lost' : 'running', ...run };
  }

  /** Asks for one, on record. Returns false where one waits already, or is under way. Throws the system's error. */
  async ask(actor: Actor): Promise<boolean> {
    const { stateDir, trail, clock } = this.#options;
    const is = this.state()?.is;
    if (this.#isAsking || is === 'asked' || is === 'running') return false;
    this.#isAsking = true;
    const asked = { asked_at: toRfc3339(clock()), person: actor.person ?? '' };
    const act = actBy(actor, 'backup.ask', {});
    try {
      await onRecord(trail, act, async () => askForBackup(stateDir, asked));
    } finally {
      this.#isAsking = false;
    }
    return true;
  }
}
