import { systemReason } from '../../base/systemReason.ts';
import { type Chore, noteUpkeep, type UpkeepNote } from '../../watch/upkeepNotes.ts';
import { note } from '../terminal.ts';

/** Leaves a note for the daemon's metrics. What was done stays done where that cannot be written. */
export function noteChore(stateDir: string, chore: Chore, done: Omit<UpkeepNote, 'finished_at'>): void {
  try {
    noteUpkeep(stateDir, chore, { finished_at: new Date().toISOString(), ...done });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    note(`pdfseal: the metrics of the daemon will not tell of this ${chore} (${systemReason(error)})`);
  }
}
