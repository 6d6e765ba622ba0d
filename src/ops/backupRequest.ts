/** A backup that somebody asks the daemon for. The daemon leaves a request, the unit of the nightly backup takes it, and notes how it fares. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { readNoteFile, writeNote } from '../health/upkeepNotes.ts';

const askedNote = z.object({ asked_at: z.iso.datetime(), person: z.string() });
const runNote = z.object({
  began_at: z.iso.datetime(),
  ended_at: z.iso.datetime().optional(),
  reason: z.string().optional().describe('Why there is no backup.'),
});
export type BackupAsked = z.infer<typeof askedNote>;
export type BackupRun = z.infer<typeof runNote>;

/** The path in `pdfseald-backup@.path`. */
const ASKED = 'backup-asked.json';
const RUN = 'backup-run.json';
const REASON_CHARS_MAX = 500;

/** Throws the system's error if the request cannot be written. */
export function askForBackup(stateDir: string, asked: BackupAsked): void {
  writeNote(join(stateDir, ASKED), asked);
}

/** The request that waits to begin, and the last run. */
export function readBackupNotes(stateDir: string): {
  asked: BackupAsked | undefined;
  run: BackupRun | undefined;
} {
  return {
    asked: readNoteFile(join(stateDir, ASKED), askedNote),
    run: readNoteFile(join(stateDir, RUN), runNote),
  };
}

/** Takes the request away, whatever it is. Throws the system's error: then the unit would begin one backup after the other. */
export function takeRequest(stateDir: string): void {
  rmSync(join(stateDir, ASKED), { force: true, recursive: true });
}

/** Notes that a backup begins. Throws the system's error. */
export function beginBackup(stateDir: string, began: Date): void {
  writeNote(join(stateDir, RUN), { began_at: began.toISOString() });
}

/** `reason`: why there is no backup. Throws the system's error. */
export function endBackup(stateDir: string, began: Date, reason?: string): void {
  writeNote(join(stateDir, RUN), {
    began_at: began.toISOString(),
    ended_at: new Date().toISOString(),
    ...(reason !== undefined && { reason: reason.slice(0, REASON_CHARS_MAX) }),
  });
}
