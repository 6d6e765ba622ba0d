import { createHash, randomUUID } from 'node:crypto';
import { access, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { assert } from '../base/assert.ts';
import { ServiceError } from '../base/errors.ts';
import { makeFolder, syncFolder } from '../base/folders.ts';
import { siblingModule } from '../base/package.ts';
import { SlotQueue } from '../base/slotQueue.ts';
import { codeOf } from '../base/systemReason.ts';
import { NotStrippable } from '../pdf/notStrippable.ts';
import type { AttachmentPlan } from '../pdf/update/suffix.ts';
import { keystream } from './cipher.ts';
import { type CopiesUsage, KeptFiles, type Place } from './keptFiles.ts';
import { Planners } from './planners.ts';
import { Segments, type SegmentsOptions } from './segments.ts';
import { type CipheredFile, type HeldDocument, type Owner, Spool, type SpoolUse } from './spool.ts';
import { requireDiskSpace, storageFull } from './storage.ts';
import { abandonTask, newTaskState } from './taskState.ts';
import type { StripResult, StripTask } from './worker.ts';

export interface CopiesOptions extends SegmentsOptions {
  /** Folder of the copies; created if it is missing. */
  path: string;
  /** Most bytes of copies, with those of documents that are arriving; default: no limit but the disk's. */
  bytesMax?: number | undefined;
  /** Number of documents stripped concurrently; at least two. */
  workers: number;
  /** Socket of the strippers' unit; by default, strippers are children of this process. */
  stripperSocket?: string | undefined;
  /** Longest time to strip a small document, in milliseconds; default: half a minute. */
  stripMsMax?: number;
}

const PROBE = '1 0 obj<</Type/Metadata>>stream\nXMP\nendstream endobj';
const PROBED = `1 0 obj <<>>${' '.repeat(34)}endobj`;
const READ_BYTES = 256 * 1024;

/** At least two, so that one client cannot occupy all. */
const WORKERS_MIN = 2;
/** Longest time to strip a document, plus one second for each of these blocks of bytes. Ordinary documents take a tenth. */
const STRIP_MS_MAX = 30_000;
const STRIP_BYTES_PER_SECOND_MIN = 4 * 2 ** 20;
/** Longest time that a worker takes to give up a task. After that, its thread is ended, together with its strippers for all clients. */
const GIVE_UP_MS_MAX = 3000;
/** Longest time that a create waits for a worker. */
const WORKER_WAIT_MS = 10_000;

/** Longest delay of a create's answer while a document of this size is stripped. */
export function stripAnswerMsMax(bytes: number): number {
  return WORKER_WAIT_MS + stripMsMax(bytes);
}

function stripMsMax(bytes: number, ofSmallMs = STRIP_MS_MAX): number {
  return ofSmallMs + Math.ceil((1000 * bytes) / STRIP_BYTES_PER_SECOND_MIN);
}

/** A document as it is recorded in the store; {@link Copies.find} finds it again. */
export function recordOf({ name, at, key }: CipheredFile): { file: string; at?: number; key: string } {
  return { file: name, ...(at > 0 && { at }), key: key.toString('base64') };
}

/** Opens the folder with these documents. Removes all other files: they belong to documents that were never accepted. */
export async function openCopies(
  options: CopiesOptions,
  documents: AsyncIterable<Place> | Iterable<Place>,
): Promise<Copies> {
  makeFolder(options.path, 0o700);
  const files = new KeptFiles(options.path);
  await files.open(documents);
  return new Copies(options, files);
}

/**
 * Copies of documents. Each has its own key, and small ones share files. The key is in memory until the job is accepted, and then in the
 * job's record. A crash before that leaves unreadable bytes. Deleting the key deletes the document.
 */
export class Copies {
  readonly #options: CopiesOptions;
  readonly #piscina: Piscina<StripTask, StripResult>;
  readonly #planners: Planners;
  readonly #slots: SlotQueue;
  readonly #files: KeptFiles;
  readonly #use: SpoolUse;

  /** Use {@link openCopies}. */
  constructor(options: CopiesOptions, files: KeptFiles) {
    this.#options = options;
    this.#files = files;
    const { freeBytesMin, bytesMax } = options;
    const segments = new Segments(files, options);
    this.#use = { files, segments, freeBytesMin, bytesMax, arrivingBytes: 0, heldBytes: 0 };
    const workers = Math.max(WORKERS_MIN, options.workers);
    this.#slots = new SlotQueue({ of: 'documents to strip', max: workers });
    this.#planners = new Planners({ max: workers, waitMs: WORKER_WAIT_MS, socket: options.stripperSocket });
    this.#piscina = new Piscina({
      filename: fileURLToPath(siblingModule('worker', import.meta.url)),
      name: 'strip',
      minThreads: 0,
      idleTimeout: Number.POSITIVE_INFINITY,
      maxThreads: workers,
      // The default blocks a worker's event loop between tasks.
      atomics: 'disabled',
      recordTiming: false,
    });
  }

  /** Strips a document with a known result, so that a broken stripper fails here and not with a client's document. */
  async probe(): Promise<void> {
    // A start must not fail because many documents are kept.
    const spool = new Spool({ ...this.#use, bytesMax: undefined });
    await spool.update(Buffer.from(PROBE));
    const source = await spool.end();
    const file = await this.strip(source, { clientId: '', isAwaited: false });
    let stripped = '';
    for await (const chunk of readCiphered(file)) stripped += chunk;
    await this.remove(recordOf(file));
    assert(stripped === PROBED, 'the strippers give the known result');
  }

  get usage(): Readonly<CopiesUsage> {
    return this.#files.usage;
  }

  /** Takes a document that is about to arrive. Throws ServiceError `storage_full`. */
  spool(): Spool {
    return new Spool(this.#use);
  }

  /**
   * Returns the document without XMP, on disk: the file itself if it has no XMP, otherwise a copy that replaces it. Throws the signal's
   * reason, or ServiceError: `metadata_not_strippable`, `storage_full`, and `too_many_requests` or `queue_full` if no worker becomes free
   * in time. After an error, the file still exists.
   */
  async strip(source: CipheredFile, owner: Owner): Promise<CipheredFile> {
    const name = randomUUID();
    const targetPath = join(this.#options.path, name);
    requireDiskSpace(this.#options.path, source.bytes + this.#options.freeBytesMin);
    const { stripperSocket: socket } = this.#options;
    const task = { source, targetPath, clientId: owner.clientId, socket, state: newTaskState() };
    const result = await this.#run(task, owner);
    if (result.kind === 'refused')
      throw new ServiceError(
        'metadata_not_strippable',
        `The XMP metadata of the document cannot be removed: ${result.why}. To seal it as it is, with no copy made, send preserve_metadata=true.`,
        { parameter: 'preserve_metadata' },
      );
    if (result.kind === 'full') throw storageFull();
    if (result.kind === 'nothing') return source;
    this.#files.grow(this.#files.add(name, 1), source.bytes);
    await this.remove(recordOf(source));
    await syncFolder(this.#options.path);
    return { name, path: targetPath, at: 0, key: Buffer.from(result.key), bytes: source.bytes };
  }

  /**
   * The plan of the attachment of a receipt to a document. Throws the signal's reason, or ServiceError: `pdf_not_sealable`, and
   * `too_many_requests` or `queue_full` if no stripper becomes free in time.
   */
  async plan(source: CipheredFile | HeldDocument, owner: Owner): Promise<AttachmentPlan> {
    try {
      return await this.#planners.plan(source, owner, stripMsMax(source.bytes, this.#options.stripMsMax));
    } catch (cause) {
      if (!(cause instanceof NotStrippable)) throw cause;
      throw new ServiceError(
        'pdf_not_sealable',
        `No receipt can be attached to the document: ${cause.message}. To get a receipt alone, send sealed_pdf=none.`,
        { parameter: 'sealed_pdf', cause },
      );
    }
  }

  /** A worker that does not give up in time can be ended at any point of its work, and then leaves its file behind. */
  async #run(task: StripTask, { clientId, signal, isAwaited }: Owner): Promise<StripResult> {
    const waitMs = isAwaited ? WORKER_WAIT_MS : undefined;
    using held = new DisposableStack();
    held.defer(await this.#slots.take(clientId, { signal, waitMs }));
    signal?.throwIfAborted();
    const ms = stripMsMax(task.source.bytes, this.#options.stripMsMax);
    const deadline = AbortSignal.timeout(ms);
    const unwanted = AbortSignal.any([deadline, ...(signal ? [signal] : [])]);
    const lost = new AbortController();
    const abandon = () => {
      abandonTask(task.state);
      const timer = setTimeout(() => lost.abort(), GIVE_UP_MS_MAX);
      held.defer(() => clearTimeout(timer));
    };
    unwanted.addEventListener('abort', abandon);
    held.defer(() => unwanted.removeEventListener('abort', abandon));
    try {
      const result = await this.#piscina.run(task, { signal: lost.signal });
      signal?.throwIfAborted();
      return result;
    } catch (cause) {
      await rm(task.targetPath, { force: true });
      signal?.throwIfAborted();
      if (deadline.aborted)
        return { kind: 'refused', why: `the search for metadata takes more than ${ms / 1000} s` };
      throw new Error('a document could not be stripped', { cause });
    }
  }

  /** A recorded document of this length; see {@link recordOf}. Undefined if its file is missing, as after a restore without the documents. */
  async find(
    { file: name, at = 0, key }: Place & { key: string },
    bytes: number,
  ): Promise<CipheredFile | undefined> {
    const path = join(this.#options.path, name);
    try {
      await access(path);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      return undefined;
    }
    return { name, path, at, key: Buffer.from(key, 'base64'), bytes };
  }

  /** Removes the document; its file, too, if none of its other documents is kept. A missing document was already removed. */
  remove(place: Place): Promise<void> {
    return this.#files.release(place);
  }

  async close(): Promise<void> {
    await this.#use.segments.close();
    this.#planners.close();
    await this.#piscina.destroy();
  }
}

/** The bytes of a document, from `start` to before `end`. */
export async function* readCiphered(
  { path, at, key, bytes }: CipheredFile,
  start = 0,
  end = bytes,
): AsyncGenerator<Buffer> {
  await using file = await open(path, 'r');
  const decrypt = keystream(key, start);
  for (let position = start; position < end; ) {
    const length = Math.min(READ_BYTES, end - position);
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, at + position);
    if (bytesRead === 0) throw new Error('a copy is shorter than when it was written');
    position += bytesRead;
    yield decrypt(buffer.subarray(0, bytesRead));
  }
}

/** The bytes of a document with this SHA-256. The last bytes follow only if the digest matches; otherwise throws an Error. */
export async function* readVerified(file: CipheredFile, sha256: string): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  let last: Buffer | undefined;
  for await (const chunk of readCiphered(file)) {
    hash.update(chunk);
    if (last !== undefined) yield last;
    last = chunk;
  }
  if (hash.digest('hex') !== sha256)
    throw new Error(`the copy in ${file.path} is damaged: its SHA-256 is wrong`);
  if (last !== undefined) yield last;
}
