import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fsyncSync,
  lchownSync,
  mkdirSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { syncName } from '../base/atomicFile.ts';
import { fromUtf8 } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { lockInTime } from '../base/flock.ts';
import { codeOf, systemReason } from '../base/systemReason.ts';
import { type TokenOptions, tokenName } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** Maximum number of remembered PINs; the oldest is forgotten for one more. */
const REFUSED_MAX = 16;
/** The file has its size from the beginning, so that a full disk does not keep a refusal from being remembered. */
const FILE_BYTES = 4096;
const SALT_BYTES = 16;

/**
 * The errors of C_Login that say nothing about the PIN, each with the reason. Every other error counts as a refusal: devices differ in their
 * code for a wrong PIN, and some of them are locked after three.
 */
export const PIN_NOT_JUDGED: Readonly<Record<string, string>> = {
  CKR_DEVICE_ERROR: 'the token failed, or the connection to it',
  CKR_DEVICE_REMOVED: 'the token was removed during the call',
  CKR_TOKEN_NOT_PRESENT: 'the slot was empty when the call began',
  CKR_SESSION_HANDLE_INVALID:
    'the session had ended before the call, for example because the token restarted',
  CKR_FUNCTION_FAILED:
    'the call failed before the PIN was compared, as the unchanged flags of the token show',
  CKR_CRYPTOKI_NOT_INITIALIZED: 'the module refuses every call',
  CKR_USER_PIN_NOT_INITIALIZED: 'the token has no PIN to compare with',
};

/** A PIN that the token refused: its digest, in Base64, and the return value of PKCS#11. */
interface Refused {
  digest: string;
  code: string;
}

interface Remembered {
  /** Base64. */
  salt: string;
  refused: readonly Refused[];
}

/**
 * The PINs that one token refused, on disk: a token locks itself after a few wrong PINs, and its signers may be restarted without end. Only
 * salted digests are stored, which are slow to compute. While this is open, no other process logs in to the token with this record.
 */
export class RefusedPins implements Disposable {
  readonly #file: number;
  readonly #path: string;
  readonly #remembered: Remembered;

  private constructor(file: number, path: string) {
    this.#file = file;
    this.#path = path;
    this.#remembered = read(file) ?? { salt: randomBytes(SALT_BYTES).toString('base64'), refused: [] };
  }

  /**
   * Makes folder and file if they are missing. Throws SignerFailure `pin_record_unusable`, or `timed_out` while another process logs in.
   */
  static async open(token: TokenOptions, timeoutMs: number): Promise<RefusedPins> {
    const path = join(token.refusedPins, nameOf(token));
    const file = whereUsable(path, () => openRecord(path));
    try {
      if (!(await lockInTime(file, 'exclusive', timeoutMs / 1000)))
        throw new SignerFailure(
          'timed_out',
          'another process has been logging in to this token for too long',
        );
      return whereUsable(path, () => new RefusedPins(file, path));
    } catch (error) {
      closeSync(file);
      throw error;
    }
  }

  get salt(): Buffer {
    return Buffer.from(this.#remembered.salt, 'base64');
  }

  /** The digests, concatenated. */
  get digests(): Buffer {
    return Buffer.concat(this.#remembered.refused.map(({ digest }) => Buffer.from(digest, 'base64')));
  }

  /** The return value with which the token refused this PIN. */
  codeOf(digest: Buffer): string | undefined {
    return this.#remembered.refused.find((one) => one.digest === digest.toString('base64'))?.code;
  }

  /** Records a refused PIN; on disk when it returns. Throws SignerFailure `pin_record_unusable`. */
  add(digest: Buffer, code: string): void {
    const { salt, refused } = this.#remembered;
    this.#write({
      salt,
      refused: [{ digest: digest.toString('base64'), code }, ...refused].slice(0, REFUSED_MAX),
    });
  }

  /** Forgets all of them; false if there are none. Throws SignerFailure `pin_record_unusable`. */
  forget(): boolean {
    if (this.#remembered.refused.length === 0) return false;
    this.#write(undefined);
    return true;
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }

  #write(remembered: Remembered | undefined): void {
    whereUsable(this.#path, () => write(this.#file, remembered));
  }
}

/** The name of the record, the same for all keys on the token. */
function nameOf(token: TokenOptions): string {
  const name = JSON.stringify(tokenName(token));
  return Buffer.from(sha256(fromUtf8(name))).toString('hex', 0, 16);
}

/**
 * Opens the record for both parts of an installation: a signer, and commands that root runs, whose files must belong to the daemon.
 * Commands that log in while a signer has its own unit get its folder and are in its group.
 */
function openRecord(path: string): number {
  const folder = dirname(path);
  if (mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined && isRoot()) {
    const { uid, gid } = statSync(dirname(folder));
    lchownSync(folder, uid, gid);
  }
  return makeRecord(path) ?? openSync(path, constants.O_RDWR | constants.O_NOFOLLOW);
}

/** Makes the record; undefined if it exists. */
function makeRecord(path: string): number | undefined {
  try {
    const file = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
    const { uid, gid } = statSync(dirname(path));
    if (isRoot()) fchownSync(file, uid, gid);
    fchmodSync(file, 0o660);
    write(file, undefined);
    syncName(path);
    return file;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return undefined;
    throw error;
  }
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** Writes the record in one piece. */
function write(file: number, remembered: Remembered | undefined): void {
  const bytes = Buffer.alloc(FILE_BYTES, ' ');
  if (remembered !== undefined) bytes.write(JSON.stringify(remembered));
  writeSync(file, bytes, 0, FILE_BYTES, 0);
  fsyncSync(file);
}

/** Undefined if nothing was written; a damaged record is begun anew. */
function read(file: number): Remembered | undefined {
  const bytes = Buffer.alloc(FILE_BYTES);
  const length = readSync(file, bytes, 0, FILE_BYTES, 0);
  try {
    const { salt, refused } = JSON.parse(bytes.toString('utf8', 0, length)) as Partial<Remembered>;
    return typeof salt === 'string' && Array.isArray(refused) ? { salt, refused } : undefined;
  } catch {
    return undefined;
  }
}

function whereUsable<T>(path: string, use: () => T): T {
  try {
    return use();
  } catch (error) {
    const detail = `cannot remember in ${path} that a PIN is refused (${systemReason(error)}), so none is presented`;
    throw new SignerFailure('pin_record_unusable', detail);
  }
}
