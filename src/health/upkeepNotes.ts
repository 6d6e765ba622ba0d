/** Notes that `pdfseal backup`, `check`, `renew` and `restore --drill` leave for the daemon's status: when they ended, and how. */
import { closeSync, fchmodSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';

export const upkeepNote = z.object({
  finished_at: z.iso.datetime(),
  good: z.boolean(),
  undecided: z
    .string()
    .optional()
    .describe('Why the command could not tell whether the store is good; `good` is false then.'),
  tree_size: z
    .int()
    .min(0)
    .optional()
    .describe('Of the log that was copied, checked or examined; absent where it could not be read.'),
  holds_until: z.iso
    .datetime()
    .optional()
    .describe('Of a renewal: when the first time-stamp of the log ends, if nothing renews it.'),
});
export type UpkeepNote = z.infer<typeof upkeepNote>;

export type Chore = 'backup' | 'check' | 'renewal' | 'restore-drill';

/** Readable by the daemon's user, whoever ran the command; the note holds no secrets. */
const MODE = 0o644;

function fileOf(stateDir: string, chore: Chore): string {
  return join(stateDir, `last-${chore}.json`);
}

/** Replaces the previous note. Throws the system's error if the note cannot be written. */
export function noteUpkeep(stateDir: string, chore: Chore, note: UpkeepNote): void {
  writeNote(fileOf(stateDir, chore), note);
}

/** Replaces the file at once. Throws the system's error. Root may write into a folder of the daemon's user, so links are not followed. */
export function writeNote(file: string, note: object): void {
  const draft = `${file}.part`;
  rmSync(draft, { force: true });
  const opened = openSync(draft, 'wx', MODE);
  try {
    fchmodSync(opened, MODE); // regardless of the umask
    writeFileSync(opened, `${JSON.stringify(note)}\n`);
  } finally {
    closeSync(opened);
  }
  renameSync(draft, file);
}

/** The newest note; undefined if there is none, or none that can be read. */
export function readUpkeep(stateDir: string, chore: Chore): UpkeepNote | undefined {
  return readNoteFile(fileOf(stateDir, chore), upkeepNote);
}

/** Undefined if there is none, or none that can be read. */
export function readNoteFile<Note>(file: string, schema: z.ZodType<Note>): Note | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    return undefined;
  }
}
