import { closeSync, fdatasync, fstatSync, openSync, readSync, write } from 'node:fs';
import { promisify } from 'node:util';
import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { Store } from '../store/store.ts';
import { openCheckpoint } from './checkpointCheck.ts';
import { contradiction } from './history.ts';

export interface LastCheckpointOptions {
  /** The file of signed checkpoints, each followed by an empty line. It is only appended to. */
  file: string;
  store: Pick<Store, 'log'>;
  /** How often a new checkpoint is written if the log has grown, in milliseconds. */
  intervalMs: number;
  logger: Logger;
}

export interface LastCheckpoint {
  readonly noted: LastCheckpointStatus;
  /** Writes the newest checkpoint and closes the file. */
  close(): Promise<void>;
}

export interface LastCheckpointStatus {
  /** The tree size in the newest checkpoint of the file; 0 if there is none. */
  treeSize: number;
  /** When the file was last known to be up to date, milliseconds since the Unix epoch; absent until then. */
  currentAt?: number;
}

/** A checkpoint with 16 signatures is far smaller, so this holds the newest two. */
const TAIL_BYTES = 64 * 1024;

/**
 * Keeps the log's newest checkpoints outside the store, so that nobody can replace the store with an older copy
 * unnoticed. Throws OperatorError if the store contradicts the file: it was rolled back, or continued differently.
 */
export async function openLastCheckpoint({
  file,
  store,
  intervalMs,
  logger,
}: LastCheckpointOptions): Promise<LastCheckpoint> {
  const newest = readLastCheckpoint(file);
  const problem = newest && (await contradiction(store, newest.checkpoint));
  if (problem !== undefined) {
    throw new OperatorError(
      `${file} noted a later checkpoint: ${problem}. Restore the newest backup; \`pdfseal restore --help\` says what else there is`,
    );
  }
  const output = openToAppend(file);
  let noted: LastCheckpointStatus = { treeSize: newest?.checkpoint.treeSize ?? 0 };
  const append = async () => {
    const head = await store.log.head();
    const currentAt = Date.now();
    const { treeSize = 0, checkpoint } = head ?? {};
    if (treeSize > noted.treeSize) {
      // The empty line ends a checkpoint that a crash or a full disk cut short.
      const text = Buffer.from(`\n${checkpoint}\n`);
      const { bytesWritten } = await writeSome(output, text);
      if (bytesWritten < text.length) throw new Error('the disk took only a part of it');
      await flush(output);
    }
    noted = { treeSize, currentAt };
  };
  let last = Promise.resolve();
  const catchUp = () => {
    // The log is safe without this file; only the protection against a later rollback suffers.
    last = last.then(append).catch((err) => {
      const fields = { event: 'witness_not_written', err, file };
      logger.error(fields, 'the last-checkpoint file could not be written');
    });
    return last;
  };
  const timer = setInterval(catchUp, intervalMs);
  return {
    get noted() {
      return noted;
    },
    close: async () => {
      clearInterval(timer);
      await catchUp();
      closeSync(output);
    },
  };
}

const flush = promisify(fdatasync);
const writeSome = promisify(write);

function openToAppend(path: string): number {
  try {
    return openSync(path, 'a', 0o600);
  } catch (cause) {
    throw new OperatorError(`cannot write ${path} (${systemReason(cause)}); see log.last_checkpoint_file`, {
      cause,
    });
  }
}

/**
 * The last whole checkpoint of the file, as text and parsed; undefined if the file is empty or missing. Throws
 * OperatorError if the file cannot be read.
 */
export function readLastCheckpoint(path: string) {
  // A note is its text, an empty line, and lines that begin with a dash.
  const notes = readTail(path).matchAll(/(?<=^|\n)[^\n]+\n\d+\n[^\n]+\n\n(?:— [^\n]+\n)+(?=\n)/g);
  for (const [text] of [...notes].reverse()) {
    const checkpoint = openCheckpoint(text)?.checkpoint;
    if (checkpoint !== undefined) return { text, checkpoint };
  }
  return undefined;
}

function readTail(path: string): string {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw new OperatorError(`cannot read ${path} (${systemReason(cause)}); see log.last_checkpoint_file`, {
      cause,
    });
  }
  try {
    const tail = Buffer.alloc(TAIL_BYTES);
    const bytes = readSync(file, tail, 0, TAIL_BYTES, Math.max(0, fstatSync(file).size - TAIL_BYTES));
    return tail.toString('utf8', 0, bytes);
  } finally {
    closeSync(file);
  }
}
