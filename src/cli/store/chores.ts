import { systemReason } from '../../base/systemReason.ts';
import { type Chore, noteUpkeep, type UpkeepNote } from '../../health/upkeepNotes.ts';
import { beginBackup, endBackup, takeRequest } from '../../ops/backupRequest.ts';
import { note } from '../terminal.ts';
import { asOperatorError } from './backupFolder.ts';

/** Leaves a note for the daemon's metrics. If the note cannot be written, the chore still counts as done. */
export function noteChore(stateDir: string, chore: Chore, done: Omit<UpkeepNote, 'finished_at'>): void {
  tell(chore, () => noteUpkeep(stateDir, chore, { finished_at: new Date().toISOString(), ...done }));
}

/** Notes for the console that this backup begins, and how it ends. Throws OperatorError if the request for it cannot be removed. */
export async function noteBackup<Made>(stateDir: string, make: () => Promise<Made>): Promise<Made> {
  const began = new Date();
  const end = (reason?: string) => tell('backup', () => endBackup(stateDir, began, reason));
  try {
    takeRequest(stateDir);
  } catch (error) {
    throw asOperatorError(error, `cannot remove the request for a backup in ${stateDir}`);
  }
  tell('backup', () => beginBackup(stateDir, began));
  try {
    const made = await make();
    end();
    return made;
  } catch (error) {
    end(error instanceof Error ? error.message : String(error));
    throw error;
  }
}

function tell(chore: Chore, write: () => void): void {
  try {
    write();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error)) throw error;
    // Without a state folder there is no daemon either.
    if (error.code === 'ENOENT') return;
    note(`pdfseal: the daemon will not show this ${chore} (${systemReason(error)})`);
  }
}
