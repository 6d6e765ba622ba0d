import { constants } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { keystream, newKey } from './cipher.ts';
import { requireDiskSpace, storageFailure } from './storage.ts';

/** An encrypted document, in a file that it can share with others. Without the key, it is unreadable. */
export interface CipheredFile {
  /** File name in the folder. */
  name: string;
  path: string;
  /** Where the document begins in the file. */
  at: number;
  key: Buffer;
  bytes: number;
}

/** If this many bytes are unwritten, the document waits. */
const PENDING_BYTES_MAX = 1 << 20;

/** Writes a document to a file while it arrives. At any time, the file can only be read with the key. */
export class Spool {
  readonly #name: string;
  readonly #path: string;
  readonly #key = newKey();
  readonly #encrypt = keystream(this.#key);
  readonly #freeBytesMin: number;
  readonly #file: Promise<FileHandle>;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #bytes = 0;
  #writing: Promise<void> | undefined;
  #failure: unknown;

  /** Creates the file, which must not exist. Leaves `freeBytesMin` bytes of the disk free. */
  constructor(folder: string, name: string, freeBytesMin: number) {
    this.#name = name;
    this.#path = join(folder, name);
    this.#freeBytesMin = freeBytesMin;
    this.#file = open(this.#path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    this.#file.catch((error) => this.#fail(error));
  }

  /** If this returns a promise, the caller must wait for it before writing more. It rejects if the bytes cannot be written. */
  update(bytes: Uint8Array): Promise<void> | undefined {
    this.#pending.push(this.#encrypt(bytes));
    this.#pendingBytes += bytes.length;
    this.#bytes += bytes.length;
    this.#writing ??= this.#writeAll();
    if (this.#pendingBytes < PENDING_BYTES_MAX && this.#failure === undefined) return undefined;
    const room = this.#written();
    room.catch(() => {}); // end() reports the error too
    return room;
  }

  /** Resolves when the whole document is on disk. Throws ServiceError `storage_full`. */
  async end(): Promise<CipheredFile> {
    await this.#written();
    const file = await this.#file;
    try {
      await file.sync();
    } catch (error) {
      this.#fail(error);
    }
    await file.close();
    this.#rethrow();
    return { name: this.#name, path: this.#path, at: 0, key: this.#key, bytes: this.#bytes };
  }

  /** Removes the file in any state. */
  async discard(): Promise<void> {
    this.#failure ??= new Error('the document was abandoned');
    await this.#writing;
    await this.#file.then((file) => file.close()).catch(() => {});
    await rm(this.#path, { force: true });
  }

  async #written(): Promise<void> {
    await this.#writing;
    this.#rethrow();
  }

  async #writeAll(): Promise<void> {
    while (this.#pending.length > 0 && this.#failure === undefined) {
      const data = Buffer.concat(this.#pending.splice(0));
      try {
        await requireDiskSpace(this.#path, data.length + this.#freeBytesMin);
        await (await this.#file).appendFile(data);
      } catch (error) {
        this.#fail(error);
      }
      this.#pendingBytes = Math.max(0, this.#pendingBytes - data.length);
    }
    this.#writing = undefined;
  }

  #fail(error: unknown): void {
    this.#failure ??= storageFailure(error);
    this.#pending = [];
    this.#pendingBytes = 0;
  }

  #rethrow(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}
