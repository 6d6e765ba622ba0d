import { randomUUID } from 'node:crypto';
import { constants, type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../base/folders.ts';
import type { KeptFile, KeptFiles, Place } from './keptFiles.ts';
import { requireDiskSpace, storageFailure, writeChunks } from './storage.ts';

export interface SegmentsOptions {
  /** Bytes to leave free on the disk of the folder, for the store. */
  freeBytesMin: number;
  /** Longest time that documents are appended to one file, in milliseconds; default: an hour. */
  segmentMsMax?: number | undefined;
}

/** A file that documents share. */
interface Segment {
  file: KeptFile;
  handle: FileHandle;
  sinceMs: number;
}

/** An encrypted document that is not on disk yet. */
interface Waiting {
  chunks: Buffer[];
  bytes: number;
  resolve(place: Required<Place>): void;
  reject(error: unknown): void;
}

/** A write ends when its bytes are on disk, so write and flush take one turn in the thread pool. */
const NEW_AND_DURABLE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_DSYNC;

const SEGMENT_BYTES_MAX = 64 * 2 ** 20;
/** An expired document, which has no key any more, stays on disk until those that arrived up to an hour later have expired, too. */
const SEGMENT_MS_MAX = 3_600_000;
/** Only bounds the memory that a write takes. */
const GROUP_BYTES_MAX = 8 * 2 ** 20;

/** Appends documents to files that they share: one write and one flush for all that wait. Those that come meanwhile are the next group. */
export class Segments {
  readonly #files: KeptFiles;
  readonly #options: SegmentsOptions;
  readonly #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #current: Segment | undefined;

  constructor(files: KeptFiles, options: SegmentsOptions) {
    this.#files = files;
    this.#options = options;
  }

  /** Resolves when the document is on disk. Throws ServiceError `storage_full`. */
  append(chunks: Buffer[], bytes: number): Promise<Required<Place>> {
    const { promise, resolve, reject } = Promise.withResolvers<Required<Place>>();
    this.#waiting.push({ chunks, bytes, resolve, reject });
    this.#writing ??= this.#writeAll();
    return promise;
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#current?.handle.close();
    this.#current = undefined;
  }

  async #writeAll(): Promise<void> {
    // What ends in the same turn of the event loop shares the first write.
    await new Promise(setImmediate);
    while (this.#waiting.length > 0) {
      const group = this.#nextGroup();
      try {
        const { name, bytes } = await this.#write(group);
        let at = bytes;
        for (const one of group) {
          one.resolve({ file: name, at });
          at += one.bytes;
        }
      } catch (error) {
        for (const { reject } of group) reject(storageFailure(error));
      }
    }
    this.#writing = undefined;
  }

  #nextGroup(): Waiting[] {
    let bytes = 0;
    const after = this.#waiting.findIndex((one) => {
      bytes += one.bytes;
      return bytes > GROUP_BYTES_MAX;
    });
    return this.#waiting.splice(0, after === -1 ? this.#waiting.length : Math.max(1, after));
  }

  /** The name of the file, and where the first document begins in it. */
  async #write(group: Waiting[]): Promise<{ name: string; bytes: number }> {
    const added = group.reduce((sum, one) => sum + one.bytes, 0);
    requireDiskSpace(this.#files.folder, added + this.#options.freeBytesMin);
    const { file, handle } = await this.#segmentFor(added, group.length);
    const { name, bytes } = file;
    try {
      // A crash before the end of a write loses documents that nobody was told of. What is left of them has no key.
      const chunks = group.flatMap((one) => one.chunks);
      await writeChunks(handle, chunks, bytes);
    } catch (error) {
      // Nothing is ever appended after what is left of a failed write. What cannot be removed now is removed at the next start.
      this.#current = undefined;
      await handle.truncate(bytes).catch(() => {});
      await this.#files.removeFrom(file, group.length).catch(() => {});
      await handle.close().catch(() => {});
      throw error;
    }
    this.#files.grow(file, added);
    return { name, bytes };
  }

  /** The file for the next documents, which already keep it. */
  async #segmentFor(bytes: number, documents: number): Promise<Segment> {
    const current = this.#current;
    // The file of the last group is already removed if none of its documents is kept.
    if (current !== undefined && current.file.documents > 0) {
      const { file, handle, sinceMs } = current;
      const isYoung = performance.now() - sinceMs < (this.#options.segmentMsMax ?? SEGMENT_MS_MAX);
      if (isYoung && file.bytes + bytes <= SEGMENT_BYTES_MAX) {
        this.#files.addTo(file, documents);
        return current;
      }
      this.#current = undefined;
      await handle.close();
    }
    const name = randomUUID();
    const handle = await open(join(this.#files.folder, name), NEW_AND_DURABLE, 0o600);
    const file = this.#files.add(name, documents);
    file.handle = handle;
    try {
      await syncFolder(this.#files.folder);
    } catch (error) {
      await this.#files.removeFrom(file, documents).catch(() => {});
      throw error;
    }
    this.#current = { file, handle, sinceMs: performance.now() };
    return this.#current;
  }
}
