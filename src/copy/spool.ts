import { randomUUID } from 'node:crypto';
import { constants, type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../base/folders.ts';
import { free } from '../base/memory.ts';
import { keystream, newKey } from './cipher.ts';
import type { KeptFiles } from './keptFiles.ts';
import type { Segments } from './segments.ts';
import { requireDiskSpace, storageFailure, storageFull, writeChunks } from './storage.ts';
import { GIVEN_BYTES_MAX } from './stripperMessages.ts';

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

/** A small document in memory. */
export interface HeldDocument {
  bytes: number;
  /** A copy of the document, in memory of its own. */
  copy(): Buffer;
}

/** The user of a copy. */
export interface Owner {
  clientId: string;
  /** Aborted when the copy is no longer needed. */
  signal?: AbortSignal | undefined;
  /** Whether a client waits for the copy. Then the wait for a worker has a limit. */
  isAwaited: boolean;
}

/** The use that all spools make of a folder and of memory. */
export interface SpoolUse {
  files: KeptFiles;
  segments: Segments;
  freeBytesMin: number;
  /** Most bytes of files and of documents that are arriving; undefined: no limit. */
  bytesMax: number | undefined;
  /** Bytes of documents that are not complete yet. */
  arrivingBytes: number;
  /** Bytes that are in memory. */
  heldBytes: number;
}

interface OwnFile {
  name: string;
  path: string;
  opened: Promise<FileHandle>;
}

/** A larger document gets a file of its own. */
const SHARING_BYTES_MAX = 1 << 20;
/** If a document has this many bytes in memory that must be written, it waits. */
const PENDING_BYTES_MAX = 1 << 20;
/** A flush of so many bytes begins while more arrive, so that the last one is short. */
const FLUSHED_BYTES_MIN = 64 << 20;
/** If all documents together have this many bytes in memory, those that still arrive are written to files of their own, and wait. */
const HELD_BYTES_MAX = 32 << 20;

/**
 * Takes a document while it arrives. A small one stays in memory until its end, and then goes to a file that it shares; a larger one is
 * written to a file of its own. At any time, the files can only be read with the key, and memory has encrypted bytes only.
 */
export class Spool {
  readonly #use: SpoolUse;
  readonly #key = newKey();
  readonly #encrypt = keystream(this.#key);
  /** The file of a document that does not share one. */
  #file: OwnFile | undefined;
  /** The bytes as they came, if they came in one piece. */
  #only: Uint8Array | undefined;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #bytes = 0;
  #writing: Promise<void> | undefined;
  #writtenBytes = 0;
  #flushing: Promise<void> | undefined;
  #flushedBytes = 0;
  /** Whether the encrypted bytes are needed after they have been written. */
  #isHeld = false;
  #ending: Promise<CipheredFile> | undefined;
  #isOver = false;
  #failure: unknown;

  /** Throws ServiceError `storage_full`. */
  constructor(use: SpoolUse) {
    this.#use = use;
    if (this.#isTooMuch(1)) throw storageFull();
  }

  /** If this returns a promise, the caller must wait for it before writing more. It rejects if the bytes cannot be taken. */
  update(bytes: Uint8Array): Promise<void> | undefined {
    if (this.#isTooMuch(bytes.length)) this.#fail(storageFull());
    if (this.#failure === undefined) {
      this.#only = this.#bytes === 0 ? bytes : undefined;
      this.#pending.push(this.#encrypt(bytes));
      this.#hold(bytes.length);
      this.#bytes += bytes.length;
      this.#use.arrivingBytes += bytes.length;
      const isMuchHeld = this.#use.heldBytes >= HELD_BYTES_MAX;
      if (this.#file === undefined) {
        if (this.#bytes <= SHARING_BYTES_MAX && !isMuchHeld) return undefined;
        const name = randomUUID();
        const path = join(this.#use.files.folder, name);
        const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
        this.#file = { name, path, opened: open(path, flags, 0o600) };
        this.#file.opened.catch((error) => this.#fail(error));
      }
      this.#writing ??= this.#writeAll(this.#file.opened);
      if (this.#pendingBytes < PENDING_BYTES_MAX && !isMuchHeld) return undefined;
    }
    const room = this.#written();
    room.catch(() => {}); // end() reports the error too
    return room;
  }

  /** The document if it is small: before {@link end}, after its last byte. It stays in memory as long as the caller has it. */
  hold(): HeldDocument | undefined {
    if (this.#file !== undefined || this.#bytes > GIVEN_BYTES_MAX) return undefined;
    this.#isHeld = true;
    const [only, encrypted] = [this.#only, [...this.#pending]];
    const copy = () =>
      // What was not freed yet need not be decrypted.
      only !== undefined && only.length === this.#bytes
        ? Buffer.from(new Uint8Array(only).buffer)
        : Buffer.concat(encrypted.map(keystream(this.#key)));
    return { bytes: this.#bytes, copy };
  }

  /** Resolves when the whole document, and the name of its file, is on disk. Throws ServiceError `storage_full`. */
  end(): Promise<CipheredFile> {
    this.#ending = this.#file === undefined ? this.#endShared() : this.#endAlone(this.#file);
    return this.#ending;
  }

  /** Removes the document in any state. */
  async discard(): Promise<void> {
    this.#fail(new Error('the document was abandoned'));
    await this.#writing;
    await this.#flushing;
    const ended = await this.#ending?.catch(() => undefined);
    this.#over();
    if (ended !== undefined) return this.#use.files.release({ file: ended.name, at: ended.at });
    if (this.#file === undefined) return;
    await this.#file.opened.then((file) => file.close()).catch(() => {});
    await rm(this.#file.path, { force: true });
  }

  async #endShared(): Promise<CipheredFile> {
    this.#rethrow();
    const chunks = this.#pending.splice(0);
    try {
      const { file, at } = await this.#use.segments.append(chunks, this.#bytes);
      if (!this.#isHeld) chunks.forEach(free);
      return this.#ended(file, at);
    } catch (error) {
      this.#fail(error);
      throw error;
    } finally {
      this.#hold(-this.#bytes);
    }
  }

  async #endAlone({ name, opened }: OwnFile): Promise<CipheredFile> {
    await this.#written();
    const file = await opened;
    try {
      await this.#flushing;
      await file.sync();
      await syncFolder(this.#use.files.folder);
    } catch (error) {
      this.#fail(error);
    }
    await file.close();
    this.#rethrow();
    this.#use.files.grow(this.#use.files.add(name, 1), this.#bytes);
    return this.#ended(name, 0);
  }

  #ended(name: string, at: number): CipheredFile {
    this.#over();
    return { name, path: join(this.#use.files.folder, name), at, key: this.#key, bytes: this.#bytes };
  }

  async #written(): Promise<void> {
    await this.#writing;
    this.#rethrow();
  }

  async #writeAll(opened: Promise<FileHandle>): Promise<void> {
    while (this.#pending.length > 0) {
      const chunks = this.#pending.splice(0);
      const bytes = this.#pendingBytes;
      try {
        requireDiskSpace(this.#use.files.folder, bytes + this.#use.freeBytesMin);
        const file = await opened;
        await writeChunks(file, chunks, this.#writtenBytes);
        this.#writtenBytes += bytes;
        if (this.#writtenBytes - this.#flushedBytes >= FLUSHED_BYTES_MIN)
          this.#flushing ??= this.#flush(file);
      } catch (error) {
        this.#fail(error);
      }
      chunks.forEach(free);
      this.#hold(-bytes);
    }
    this.#writing = undefined;
  }

  /** Flushes what is written. An error is reported once, so it must not be lost. Never rejects. */
  async #flush(file: FileHandle): Promise<void> {
    this.#flushedBytes = this.#writtenBytes;
    try {
      await file.datasync();
    } catch (error) {
      this.#fail(error);
    }
    this.#flushing = undefined;
  }

  #isTooMuch(bytes: number): boolean {
    const { files, bytesMax = Number.POSITIVE_INFINITY, arrivingBytes } = this.#use;
    return files.usage.bytes + arrivingBytes + bytes > bytesMax;
  }

  #hold(bytes: number): void {
    this.#pendingBytes += bytes;
    this.#use.heldBytes += bytes;
  }

  /** The document is complete, or removed. */
  #over(): void {
    if (!this.#isOver) this.#use.arrivingBytes -= this.#bytes;
    this.#isOver = true;
  }

  /** Nothing more is taken, and nothing in memory is written. */
  #fail(error: unknown): void {
    this.#failure ??= storageFailure(error);
    for (const { length } of this.#pending.splice(0)) this.#hold(-length);
  }

  #rethrow(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}
