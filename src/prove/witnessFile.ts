import { closeSync, fdatasync, fstatSync, openSync, readSync, write } from 'node:fs';
import { promisify } from 'node:util';
import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { Store } from '../store/store.ts';
import { openCheckpoint } from './checkpointCheck.ts';
import { contradiction } from './history.ts';

export interface WitnessOptions {
  /** The file: signed checkpoints one after the other, each followed by an empty line. Only ever appended to. */
  file: string;
  store: Pick<Store, 'log'>;
  /** How often a log that has grown is noted, in milliseconds. */
  intervalMs: number;
  logger: Logger;
}

export interface Witness {
  readonly noted: WitnessStatus;
  /** Notes the newest checkpoint and ends. */
  close(): Promise<void>;
}

export interface WitnessStatus {
  /** Of the log, as noted last; 0 where nothing was. */
  treeSize: number;
  /** When the newest checkpoint was last known to be noted, milliseconds since the epoch; absent until it is. */
  currentAt?: number;
}

/** A checkpoint with 16 signatures is far below it, so the newest two are in what is read. */
const TAIL_BYTES = 64 * 1024;

/**
 * Keeps what the log said of itself outside of the store, so that an older copy of the store cannot take its place unseen.
 * Throws OperatorError when the store does not hold what was noted: it was rolled back, or continued in another way.
 */
export async function openWitness(options: WitnessOptions): Promise<Witness> {
  const { file, store, intervalMs, logger } = options;
  const noted = newestCheckpoint(file);
  const problem = noted && (await contradiction(store, noted.checkpoint));
  if (problem !== undefined) {
    throw new OperatorError(
      `${file} noted a later checkpoint: ${problem}. Restore the newest backup; \`pdfseal restore --help\` says what else there is`,
    );
  }
  const appender = new Appender(file, store, noted?.checkpoint.treeSize ?? 0);
  let last = Promise.resolve();
  const catchUp = () => {
    last = last
      .then(() => appender.append())
      // The log itself is safe without it; what suffers is the proof of a later rollback.
      .catch((err) =>
        logger.error({ event: 'witness_not_written', err, file }, 'the witness file could not be written'),
      );
    return last;
  };
  const timer = setInterval(catchUp, intervalMs);
  return {
    get noted() {
      return appender.noted;
    },
    close: async () => {
      clearInterval(timer);
      await catchUp();
      appender.close();
    },
  };
}

class Appender {
  readonly #file: number;
  readonly #store: Pick<Store, 'log'>;
  #noted: WitnessStatus;

  constructor(path: string, store: Pick<Store, 'log'>, treeSize: number) {
    this.#file = openToAppend(path);
    this.#store = store;
    this.#noted = { treeSize };
  }

  get noted(): WitnessStatus {
    return this.#noted;
  }

  async append(): Promise<void> {
    const head = await this.#store.log.head();
    const currentAt = Date.now();
    const { treeSize = 0, checkpoint } = head ?? {};
    if (treeSize > this.#noted.treeSize) await this.#note(`\n${checkpoint}\n`);
    this.#noted = { treeSize, currentAt };
  }

  async #note(text: string): Promise<void> {
    // A note that was cut short by a crash or a full disk ends with the empty line before the next one.
    await writeWhole(this.#file, Buffer.from(text));
    await flush(this.#file);
  }

  close(): void {
    closeSync(this.#file);
  }
}

const flush = promisify(fdatasync);
const writeSome = promisify(write);

async function writeWhole(file: number, bytes: Buffer): Promise<void> {
  const { bytesWritten } = await writeSome(file, bytes);
  if (bytesWritten < bytes.length) throw new Error('the disk took only a part of it');
}

function openToAppend(path: string): number {
  try {
    return openSync(path, 'a', 0o600);
  } catch (cause) {
    throw new OperatorError(`cannot write ${path} (${systemReason(cause)}); see log.witness_file`, { cause });
  }
}

/**
 * The last whole checkpoint of a witness file, as text and read; undefined for an empty file or none. Throws OperatorError
 * when the file cannot be read.
 */
export function newestCheckpoint(path: string) {
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
    throw new OperatorError(`cannot read ${path} (${systemReason(cause)}); see log.witness_file`, { cause });
  }
  try {
    const tail = Buffer.alloc(TAIL_BYTES);
    const bytes = readSync(file, tail, 0, TAIL_BYTES, Math.max(0, fstatSync(file).size - TAIL_BYTES));
    return tail.toString('utf8', 0, bytes);
  } finally {
    closeSync(file);
  }
}
