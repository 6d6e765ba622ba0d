import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { toHex } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { OperatorError } from '../base/errors.ts';
import { replaceFile } from '../base/folders.ts';
import { codeOf, systemReason } from '../base/systemReason.ts';
import { type Cosigner, cosignaturesIn } from '../log/cosignature.ts';
import { type Opened, openCheckpoint, signersOf } from '../log/signedCheckpoint.ts';
import type { VerifierKey } from '../log/verifierKey.ts';

/**
 * The newest cosigned checkpoint of each log, each in its own file: the signed note, named by the SHA-256 of the origin in hex. These files
 * are the witness's entire memory. A witness that loses one can be made to cosign a second history of that log.
 */
export class HeldCheckpoints {
  readonly #folder: string;
  /** By file name. */
  readonly #notes = new Map<string, string>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * `cosigner`: the witness; `logs`: the keys of each log, by its origin. Throws OperatorError for a file that cannot be read, or that
   * contains anything but a checkpoint signed by the witness or the log.
   */
  static async open(
    folder: string,
    cosigner: Cosigner,
    logs: ReadonlyMap<string, readonly VerifierKey[]>,
  ): Promise<HeldCheckpoints> {
    const held = new HeldCheckpoints(folder);
    for (const [origin, keys] of logs) {
      const note = await held.#read(origin);
      if (note === undefined) continue;
      const opened = openCheckpoint(note);
      // Either may have a new key since then.
      const isGenuine =
        opened?.checkpoint.origin === origin &&
        (cosignaturesIn(opened.note, [cosigner]).length > 0 ||
          signersOf(opened.note, origin, keys).keys.length > 0);
      if (!isGenuine)
        throw new OperatorError(
          `${held.#pathOf(origin)} is damaged: it is not a signed checkpoint of ${origin}. Put the newest checkpoint with the signature of this witness in its place; the log publishes it`,
        );
      held.#notes.set(nameOf(origin), note);
    }
    return held;
  }

  /** Undefined if none was cosigned yet. */
  get(origin: string): Opened | undefined {
    const note = this.#notes.get(nameOf(origin));
    return note === undefined ? undefined : openCheckpoint(note);
  }

  /** The signed note in the file of that name. */
  noteOf(name: string): string | undefined {
    return this.#notes.get(name);
  }

  /** Once this resolves, the note survives a power failure. If it rejects, the old or the new one does. */
  async put(origin: string, note: string): Promise<void> {
    await replaceFile(this.#pathOf(origin), note, 0o644);
    this.#notes.set(nameOf(origin), note);
  }

  async #read(origin: string): Promise<string | undefined> {
    const path = this.#pathOf(origin);
    try {
      return await readFile(path, 'utf8');
    } catch (cause) {
      if (codeOf(cause) === 'ENOENT') return undefined;
      throw new OperatorError(`cannot read ${path} (${systemReason(cause)})`, { cause });
    }
  }

  #pathOf(origin: string): string {
    return join(this.#folder, nameOf(origin));
  }
}

/** The name also used by the monitoring of C2SP tlog-witness. */
function nameOf(origin: string): string {
  return toHex(sha256(Buffer.from(origin)));
}
