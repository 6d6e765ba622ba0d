import { closeSync, existsSync, fstatSync, openSync, readSync, renameSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Logger } from 'pino';
import { OperatorError } from '../../base/errors.ts';
import { syncFolder } from '../../base/folders.ts';
import { Rounds } from '../../base/rounds.ts';
import { codeOf, systemReason } from '../../base/systemReason.ts';
import { type Checkpoint, encodeCheckpoint, parseCheckpoint } from '../../log/checkpoint.ts';
import { NOTE_LENGTH_MAX } from '../../log/note.ts';
import { openCheckpoint } from '../../log/signedCheckpoint.ts';
import { emptyRoot } from '../../log/tree.ts';
import type { Store } from '../../store/store.ts';
import { isRefusedAs } from '../../store/storeError.ts';
import { contradiction, type EarlierState, signedCheckpoint } from './history.ts';

type LogStore = Pick<Store, 'identity' | 'log' | 'epochs'>;

export interface LastCheckpointOptions {
  /** The file of signed checkpoints, each followed by an empty line. It is append-only. */
  file: string;
  store: LogStore;
  /** Interval at which a new checkpoint is written if the log has grown, in milliseconds. */
  intervalMs: number;
  logger: Logger;
  /**
   * Called if the log is no longer the one that was noted, for example after a failover that lost commits: nothing of it may be shown or
   * continued.
   */
  onFatal(error: unknown): void;
}

export interface LastCheckpoint {
  readonly noted: LastCheckpointStatus;
  /** Writes the newest checkpoint. */
  close(): Promise<void>;
}

export interface LastCheckpointStatus {
  /** The tree size in the newest checkpoint of the file; 0 for an empty log. */
  treeSize: number;
  /** When the file was last known to be up to date, milliseconds since the Unix epoch; absent until then. */
  currentAt?: number;
}

/** Why it is uncertain whether a store has the newest state of its log. */
export interface Doubt {
  /** `unknown`: no checkpoint to compare with. `forged`: not signed by a key of the log. `rollback`: the log contradicts it. */
  kind: 'unknown' | 'forged' | 'rollback';
  reason: string;
  /** The administrator's remedy. */
  remedy: string;
}

/** The file is read in windows of this length, from its end. */
const WINDOW_BYTES = 8 * NOTE_LENGTH_MAX;
/** Windows overlap by more than a note, so each note is whole in one of them. */
const OVERLAP_BYTES = 2 * NOTE_LENGTH_MAX;

/**
 * Keeps the log's newest checkpoints outside the store, so that replacing the store with an older copy is detected. Throws OperatorError if
 * there is a {@link Doubt}, or if the file cannot be written.
 */
export async function openLastCheckpoint(options: LastCheckpointOptions): Promise<LastCheckpoint> {
  const { file, store, intervalMs, logger, onFatal } = options;
  await assertNewest(store, file);
  const found = readLastCheckpoint(file);
  // The mark of an empty log distinguishes a file without checkpoints so far from one that was lost or emptied.
  await append(file, found === undefined ? emptyLog(store.identity.logOrigin) : undefined);
  let newest = found?.checkpoint;
  let currentAt: number | undefined;
  const update = async () => {
    const lookedAt = Date.now();
    newest = await noteHead(store, file, newest);
    currentAt = lookedAt;
  };
  // The log is safe without this file; only the protection against a later rollback is reduced.
  const onError = (err: unknown) => {
    if (err instanceof Contradicted) return onFatal(err);
    if (isRefusedAs('database_away', err)) return; // The cause is the database; the file is brought up to date afterwards.
    const fields = { event: 'witness_not_written', err, file };
    logger.error(fields, 'the last-checkpoint file could not be written');
  };
  const rounds = new Rounds(update, intervalMs, onError);
  await rounds.now();
  return {
    get noted() {
      return { treeSize: newest?.treeSize ?? 0, currentAt };
    },
    close: async () => {
      await rounds.now();
      await rounds.close();
    },
  };
}

/**
 * Writes the newest checkpoint of a log that another process writes. Throws OperatorError if there is a {@link Doubt}, or if the file
 * cannot be written.
 */
export async function noteNewestCheckpoint(file: string, store: LogStore): Promise<void> {
  await assertNewest(store, file);
  await noteHead(store, file, readLastCheckpoint(file)?.checkpoint);
}

/** The log does not contain the noted checkpoint. */
class Contradicted extends Error {}

/**
 * Writes the head of the log if it is larger than the newest checkpoint of the file; returns the newest after that. Throws Contradicted.
 */
async function noteHead(
  store: LogStore,
  file: string,
  noted: Checkpoint | undefined,
): Promise<Checkpoint | undefined> {
  const head = await store.log.head();
  const found = noted && noted.treeSize > 0 ? await contradiction(store, noted, head) : undefined;
  if (found !== undefined)
    throw new Contradicted(
      `the log is not the one that this machine noted: ${found}; see "Forked log" in the manual`,
    );
  const checkpoint = head && openCheckpoint(head.checkpoint)?.checkpoint;
  if (checkpoint === undefined || checkpoint.treeSize <= (noted?.treeSize ?? 0)) return noted;
  await append(file, head?.checkpoint);
  return checkpoint;
}

async function assertNewest(store: LogStore, file: string): Promise<void> {
  const doubt = await doubtOf(store, file);
  if (doubt !== undefined) throw new OperatorError(`${doubt.reason}. ${doubt.remedy}`);
}

/** Why the log of a store must not be continued, according to its last-checkpoint file; undefined if the log has only grown since. */
export async function doubtOf(store: LogStore, file: string): Promise<Doubt | undefined> {
  const last = readLastCheckpoint(file, await signedBy(store));
  const head = await store.log.head();
  const leaves = head?.treeSize ?? 0;
  const remedy = `Compare the log with the newest receipt that anybody has: pdfseal check --against FILE. If the log contains that receipt, run \`pdfseal last-checkpoint --accept-rollback ${leaves}\``;
  if (last === undefined) {
    if (leaves === 0) return undefined;
    const what = existsSync(file) ? 'has no checkpoint in it' : 'is missing';
    const reason = `${file} ${what}, and the log has ${leaves} leaves: the store can be an older copy`;
    return { kind: 'unknown', reason, remedy };
  }
  const { checkpoint, fault } = last;
  if (fault !== undefined) {
    const reason = `the last checkpoint in ${file}, of ${checkpoint.treeSize} leaves, proves nothing about this log: ${fault}`;
    return { kind: 'forged', reason, remedy };
  }
  // Every log extends the empty one.
  if (checkpoint.treeSize === 0) return undefined;
  const found = await contradiction(store, checkpoint, head);
  if (found === undefined) return undefined;
  return {
    kind: 'rollback',
    reason: `${file} noted a later checkpoint: ${found}`,
    remedy: 'Restore the newest state; "Forked log" in the manual says how, and what else there is',
  };
}

/**
 * Begins the file again, with the newest checkpoint of a log, or with the mark of an empty one. The former file is kept next to it; returns
 * its path. The daemon must not be running.
 */
export async function restartLastCheckpoint(
  file: string,
  { identity, log }: Pick<Store, 'identity' | 'log'>,
  suffix: string,
): Promise<string | undefined> {
  const aside = existsSync(file) ? `${file}.${suffix}` : undefined;
  try {
    // If we stop after this, the file is missing, and the daemon reports the doubt again.
    if (aside !== undefined) renameSync(file, aside);
  } catch (cause) {
    const remedy = 'if it is append-only, run `chattr -a` on it';
    throw new OperatorError(`cannot rename ${file} (${systemReason(cause)}); ${remedy}`, { cause });
  }
  await append(file, (await log.head())?.checkpoint ?? emptyLog(identity.logOrigin));
  return aside;
}

/** Replaces a signed checkpoint, which an empty log does not have. */
function emptyLog(origin: string): string {
  return `${encodeCheckpoint({ origin, treeSize: 0, root: emptyRoot })}\n`;
}

/** Durable when this resolves, including the file's name. Without a checkpoint, only checks that the file can be written. */
async function append(path: string, checkpoint: string | undefined): Promise<void> {
  try {
    const isNew = !existsSync(path);
    await using file = await open(path, 'a', 0o600);
    if (checkpoint === undefined) return;
    // The empty line ends a checkpoint that a crash or a full disk truncated.
    await file.appendFile(`\n${checkpoint}\n`);
    await file.datasync();
    if (isNew) await syncFolder(dirname(path));
  } catch (cause) {
    throw new OperatorError(`cannot write ${path} (${systemReason(cause)}); see log.last_checkpoint_file`, {
      cause,
    });
  }
}

/** A checkpoint as found in the file. */
interface Noted {
  text: string;
  checkpoint: Checkpoint;
  /** Why it does not prove anything about the log. */
  fault?: string;
}

/** Returns a function that finds what is wrong with a checkpoint for the log of a store. The mark of an empty log has no signature. */
async function signedBy({ identity: { logOrigin: origin }, epochs }: Pick<Store, 'identity' | 'epochs'>) {
  const { list } = await epochs.newest();
  return ({ text, checkpoint }: Noted): string | undefined => {
    if (checkpoint.origin !== origin) return 'it is of another log';
    if (checkpoint.treeSize === 0) return undefined;
    const signed = signedCheckpoint(text, [{ origin, epochs: list }]);
    return typeof signed === 'string' ? signed : undefined;
  };
}

/**
 * The largest checkpoint of the file; undefined if there is none, or no file. The size decides, not the position: anyone who can append to
 * the file can append an old checkpoint. `faultOf` must not find a fault in the newest checkpoint, nor in any that is larger than all after
 * it; otherwise the faulty one is returned. A checkpoint truncated by a crash is smaller than those appended after it. Throws OperatorError
 * if the file cannot be read.
 */
export function readLastCheckpoint(
  path: string,
  faultOf: (noted: Noted) => string | undefined = () => undefined,
): Noted | undefined {
  let largest: Noted | undefined;
  for (const noted of fromEnd(path)) {
    if (largest !== undefined && noted.checkpoint.treeSize <= largest.checkpoint.treeSize) continue;
    const fault = faultOf(noted);
    if (fault !== undefined) return { ...noted, fault };
    largest = noted;
  }
  return largest;
}

/** The state that a check compares the log with; undefined if there is no file, or only the mark of an empty log. */
export async function evidenceOf(store: LogStore, file: string): Promise<EarlierState | undefined> {
  const last = readLastCheckpoint(file, await signedBy(store));
  const isEvidence = last !== undefined && (last.checkpoint.treeSize > 0 || last.fault !== undefined);
  return isEvidence ? { text: last.text, from: file } : undefined;
}

/** All complete checkpoints of the file, newest first; some appear twice. None if there is no file. */
function* fromEnd(path: string): Iterable<Noted> {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return;
    throw new OperatorError(`cannot read ${path} (${systemReason(cause)}); see log.last_checkpoint_file`, {
      cause,
    });
  }
  try {
    const buffer = Buffer.alloc(WINDOW_BYTES + OVERLAP_BYTES);
    for (let end = fstatSync(file).size; end > 0; end -= WINDOW_BYTES) {
      const start = Math.max(0, end - buffer.length);
      const bytes = readSync(file, buffer, 0, end - start, start);
      const window = buffer.toString('utf8', 0, bytes);
      // The window may begin in the middle of a line.
      yield* notesIn(start === 0 ? window : window.slice(window.indexOf('\n') + 1)).reverse();
    }
  } finally {
    closeSync(file);
  }
}

/** A note consists of its text, an empty line, and lines that begin with a dash; the mark of an empty log lacks such lines. */
function notesIn(window: string): Noted[] {
  const notes = window.matchAll(/(?<=^|\n)([^\n]+\n\d+\n[^\n]+\n)\n(?:— [^\n]+\n)*(?=\n)/g);
  return [...notes].flatMap(([text, body = '']) => {
    const checkpoint = parseCheckpoint(body);
    const isSigned = text.length > body.length + 1;
    return checkpoint !== undefined && (isSigned || checkpoint.treeSize === 0) ? [{ text, checkpoint }] : [];
  });
}
