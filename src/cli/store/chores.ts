import { systemReason } from '../../base/systemReason.ts';
import { type Chore, noteUpkeep, type UpkeepNote } from '../../watch/upkeepNotes.ts';
import { note } from '../terminal.ts';

/** Leaves a note for the daemon's metrics. If the note cannot be written, what was done stays done. */
export function noteChore(stateDir: string, chore: Chore, done: Omit<UpkeepNote, 'finished_at'>): void {
  try {
    noteUpkeep(stateDir, chore, { finished_at: new Date().toISOString(), ...done });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    note(`pdfseal: the metrics of the daemon will not show this ${chore} (${systemReason(error)})`);
  }
}
