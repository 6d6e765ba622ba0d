import { constants, readFileSync } from 'node:fs';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { fromUtf8 } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { replaceFile } from '../base/folders.ts';
import { NOTHING_SIGNED, type SignedTrees } from './signedTrees.ts';
import { SignerFailure } from './signerFailure.ts';

/** A write that a power cut tears spoils only one slot, and the other holds what was on disk before. */
const SLOTS = 2;
/** Room for the trees of 64 batches on their way. */
const SLOT_BYTES = 8192;
const COPY_TRIES = 5;

/** Each write is on disk when it returns: one call, and one turn of a thread, instead of a write and a flush. */
const DURABLE = constants.O_RDWR | constants.O_DSYNC;

/** A line of JSON, and its SHA-256. */
interface Slot {
  turn: number;
  held: SignedTrees;
}

/**
 * A signer's memory on disk: two slots that are written in turn, each with its checksum. If we stop between the write and the signature,
 * the signer remembers a tree that it never signed, like one that was given up.
 */
export class TreeFile {
  readonly #file: FileHandle;
  #turn: number;
  #held: SignedTrees;
  /** The end of the queue of writes. */
  #written: Promise<void> = Promise.resolve();

  private constructor(file: FileHandle, { turn, held }: Slot) {
    this.#file = file;
    this.#turn = turn;
    this.#held = held;
  }

  /** Makes the file if it is missing. Throws SignerFailure `tree_file_damaged`, or the error of the file system. */
  static async open(path: string): Promise<TreeFile> {
    const file = await open(path, DURABLE).catch(async (error) => {
      if (error.code !== 'ENOENT') throw error;
      const slot = encodeSlot({ turn: 0, held: NOTHING_SIGNED });
      await replaceFile(path, Buffer.concat([slot, slot]), 0o600);
      return open(path, DURABLE);
    });
    try {
      return new TreeFile(file, newestSlot(await file.readFile(), path));
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  get held(): SignedTrees {
    return this.#held;
  }

  /** Resolves when all held trees are on disk. Rejects as {@link write} does. */
  get written(): Promise<void> {
    return this.#written;
  }

  /** Holds the trees at once. Resolves when they are on disk, and rejects with the error of the file system. */
  write(held: SignedTrees): Promise<void> {
    this.#held = held;
    this.#turn += 1;
    const turn = this.#turn;
    this.#written = this.#written.then(() => this.#put({ turn, held }));
    // The caller that requests the signature waits for this write too.
    this.#written.catch(() => {});
    return this.#written;
  }

  async #put(slot: Slot): Promise<void> {
    await this.#file.write(encodeSlot(slot), 0, SLOT_BYTES, (slot.turn % SLOTS) * SLOT_BYTES);
  }
}

/**
 * The trees that a signer remembers, read while it may write: each write leaves one slot alone. Undefined if there is no file. Throws
 * SignerFailure `tree_file_damaged`, or the error of the file system.
 */
export async function readTrees(path: string): Promise<SignedTrees['trees'] | undefined> {
  const bytes = await readFile(path).catch((error) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  return bytes && newestSlot(bytes, path).held.trees;
}

/**
 * The bytes of a signer's memory, for a copy. The signer may write slot after slot while a slow reader is at them, so bytes that are not whole
 * are read again. A file that stays damaged is returned as it is. Throws the error of the file system.
 */
export function readForCopy(path: string, read: (path: string) => Buffer = readFileSync): Buffer {
  let bytes = read(path);
  for (let again = 1; again < COPY_TRIES && !isWhole(bytes, path); again += 1) bytes = read(path);
  return bytes;
}

function isWhole(bytes: Buffer, path: string): boolean {
  try {
    return newestSlot(bytes, path) !== undefined;
  } catch {
    return false;
  }
}

function newestSlot(bytes: Buffer, path: string): Slot {
  const slots = Array.from({ length: SLOTS }, (_, n) =>
    parseSlot(bytes.subarray(n * SLOT_BYTES, (n + 1) * SLOT_BYTES)),
  ).filter((slot) => slot !== undefined);
  const [newest] = slots.toSorted((one, other) => other.turn - one.turn);
  if (newest !== undefined && bytes.length === SLOTS * SLOT_BYTES) return newest;
  throw new SignerFailure('tree_file_damaged', `${path} is not whole`);
}

function encodeSlot(slot: Slot): Buffer {
  const line = JSON.stringify(slot);
  const text = `${line}\n${checksum(line)}\n`;
  const bytes = Buffer.alloc(SLOT_BYTES, ' ');
  bytes.write(text);
  return bytes;
}

/** Undefined if the slot was never written, or is incomplete. */
function parseSlot(bytes: Buffer): Slot | undefined {
  const [line = '', sum] = bytes.toString('utf8').split('\n');
  return sum === checksum(line) ? (JSON.parse(line) as Slot) : undefined;
}

function checksum(line: string): string {
  return Buffer.from(sha256(fromUtf8(line))).toString('hex');
}
