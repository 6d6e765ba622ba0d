import { type FileHandle, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../base/folders.ts';

/** Where a document is: the name of its file in the folder, and where it begins in it if that is not 0. */
export interface Place {
  file: string;
  at?: number | undefined;
}

export interface CopiesUsage {
  /** Documents that are kept. */
  documents: number;
  /** Files with such documents. */
  files: number;
  /** Bytes of these files. Until a file is removed, it also has documents that are not kept any more. */
  bytes: number;
}

/** A file with documents that are kept. */
export interface KeptFile {
  name: string;
  documents: number;
  bytes: number;
  /** Where those of its documents began that are not kept any more, so that none is counted twice. */
  released: Set<number>;
  /** Closed with the file, if documents are still appended to it. */
  handle?: FileHandle;
}

/** The files of the folder, each of which is removed when none of its documents is kept any more. */
export class KeptFiles {
  readonly folder: string;
  readonly #files = new Map<string, KeptFile>();
  #documents = 0;
  #bytes = 0;

  constructor(folder: string) {
    this.folder = folder;
  }

  /** Finds the files of these documents, and removes all others. Called once, before anything is added. */
  async open(documents: AsyncIterable<Place> | Iterable<Place>): Promise<void> {
    const counts = new Map<string, number>();
    for await (const { file } of documents) counts.set(file, (counts.get(file) ?? 0) + 1);
    for (const name of await readdir(this.folder)) {
      const path = join(this.folder, name);
      const count = counts.get(name);
      if (count === undefined) await rm(path, { force: true });
      else this.grow(this.add(name, count), (await stat(path)).size);
    }
    await syncFolder(this.folder);
  }

  get usage(): Readonly<CopiesUsage> {
    return { documents: this.#documents, files: this.#files.size, bytes: this.#bytes };
  }

  /** A file that has, or is about to have, so many documents. */
  add(name: string, documents: number): KeptFile {
    const file = { name, documents: 0, bytes: 0, released: new Set<number>() };
    this.#files.set(name, file);
    this.addTo(file, documents);
    return file;
  }

  /** While documents are written to a file, they keep it. If they cannot be written, {@link removeFrom} must be called. */
  addTo(file: KeptFile, documents: number): void {
    file.documents += documents;
    this.#documents += documents;
  }

  /** The file has so many bytes more. */
  grow(file: KeptFile, bytes: number): void {
    file.bytes += bytes;
    this.#bytes += bytes;
  }

  /** A document that is not there was released before. Rejects if its file must be removed but cannot be. */
  async release({ file: name, at = 0 }: Place): Promise<void> {
    const file = this.#files.get(name);
    if (file === undefined || file.released.has(at)) return;
    file.released.add(at);
    await this.removeFrom(file, 1);
  }

  /** The file has so many documents less. If that was the last one, nothing may be appended any more. */
  async removeFrom(file: KeptFile, documents: number): Promise<void> {
    this.addTo(file, -documents);
    if (file.documents > 0) return;
    await file.handle?.close();
    await rm(join(this.folder, file.name), { force: true });
    this.grow(file, -file.bytes);
    this.#files.delete(file.name);
  }
}
