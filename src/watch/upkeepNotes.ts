/** What `pdfseal backup`, `check` and `restore --drill` leave behind for the daemon to tell: when they were done, and how they ended. */
import { closeSync, fchmodSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

export const upkeepNote = z.object({
  finished_at: z.iso.datetime(),
  good: z.boolean(),
  tree_size: z.int().min(0).describe('Of the log that was copied or checked.'),
});
export type UpkeepNote = z.infer<typeof upkeepNote>;

export type Chore = 'backup' | 'check' | 'restore-drill';

/** For the daemon's user to read, whoever did the chore; nothing in it is secret. */
const MODE = 0o644;

function fileOf(stateDir: string, chore: Chore): string {
  return join(stateDir, `last-${chore}.json`);
}

/**
 * Takes the place of the note before. Throws the system's error where it cannot be written. Root may write it into a folder of the daemon's
 * user, so a link that waits there is not followed.
 */
export function noteUpkeep(stateDir: string, chore: Chore, note: UpkeepNote): void {
  const file = fileOf(stateDir, chore);
  const draft = `${file}.part`;
  rmSync(draft, { force: true });
  const opened = openSync(draft, 'wx', MODE);
  try {
    fchmodSync(opened, MODE); // Whatever the umask is.
    writeFileSync(opened, `${JSON.stringify(note)}\n`);
  } finally {
    closeSync(opened);
  }
  renameSync(draft, file);
}

/** Undefined where nothing was noted, or nothing that can be read. */
export function readUpkeep(stateDir: string, chore: Chore): UpkeepNote | undefined {
  try {
    return upkeepNote.parse(JSON.parse(readFileSync(fileOf(stateDir, chore), 'utf8')));
  } catch {
    return undefined;
  }
}
