import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { assert } from '../base/assert.ts';
import { ServiceError } from '../base/errors.ts';
import { syncFolder } from '../base/folders.ts';
import { siblingModule } from '../base/package.ts';
import { Turns } from '../base/turns.ts';
import { Keystream } from './cipher.ts';
import { type CipheredFile, Spool } from './spool.ts';
import { requireDiskSpace, storageFull } from './storage.ts';
import type { StripResult, StripTask } from './worker.ts';

export interface CopiesOptions {
  /** Folder of the copies; made if it is missing. */
  path: string;
  /** What is left free of its disk: the store needs room too. */
  freeBytesMin: number;
  /** Documents that are stripped at the same time; two at least. */
  workers: number;
  /** How long stripping a small document may take, milliseconds; left out, half a minute. */
  stripMsMax?: number;
}

const PROBE = '1 0 obj<</Type/Metadata>>stream\nXMP\nendstream endobj';
const PROBED = `1 0 obj <<>>${' '.repeat(34)}endobj`;
const READ_BYTES = 256 * 1024;
/** Of a worker: what hostile documents may take before the worker is replaced. Ordinary ones need a tenth. */
const HEAP_MB_MAX = 512;

/** Two at least: one client is not to hold all. */
const WORKERS_MIN = 2;
/** How long stripping a document may take, and for each so many bytes of it a second more. Ordinary ones take a tenth. */
const STRIP_MS_MAX = 30_000;
const STRIP_BYTES_PER_SECOND_MIN = 4 * 2 ** 20;
/** How long a create waits for a worker. */
const WORKER_WAIT_MS = 10_000;

/** How long a create may be without an answer because a document of so many bytes is stripped. */
export function stripAnswerMsMax(bytes: number): number {
  return WORKER_WAIT_MS + stripMsMax(bytes);
}

function stripMsMax(bytes: number, ofSmallMs = STRIP_MS_MAX): number {
  return ofSmallMs + Math.ceil((1000 * bytes) / STRIP_BYTES_PER_SECOND_MIN);
}

/** For whom a document is stripped. */
export interface Owner {
  clientId: string;
  /** Aborted when nobody wants the copy any more. */
  signal?: AbortSignal | undefined;
  /** Whether a client waits for it: then it waits for a worker no longer than a client does. */
  isAwaited: boolean;
}

/** Opens the folder. Files in it that are not `known` are of documents that were never accepted: they are removed. */
export async function openCopies(options: CopiesOptions, known: ReadonlySet<string>): Promise<Copies> {
  await mkdir(options.path, { recursive: true, mode: 0o700 });
  const usage = { files: 0, bytes: 0 };
  for (const name of await readdir(options.path)) {
    if (known.has(name)) {
      usage.files += 1;
      usage.bytes += (await stat(join(options.path, name))).size;
    } else await rm(join(options.path, name), { force: true });
  }
  await syncFolder(options.path);
  return new Copies(options, usage);
}

export interface CopiesUsage {
  files: number;
  bytes: number;
}

/**
 * Copies of documents without XMP, each in a file of its own under a key of its own. The key is in memory until the job is
 * accepted, and then in the job's record: a crash before leaves noise, and once the key is gone so is the document.
 */
export class Copies {
  readonly #options: CopiesOptions;
  readonly #piscina: Piscina<StripTask, StripResult>;
  readonly #turns: Turns;
  readonly #usage: CopiesUsage;

  /** Use {@link openCopies}. */
  constructor(options: CopiesOptions, usage: CopiesUsage) {
    this.#options = options;
    this.#usage = usage;
    const workers = Math.max(WORKERS_MIN, options.workers);
    this.#turns = new Turns({ of: 'documents to strip', max: workers });
    this.#piscina = new Piscina({
      filename: fileURLToPath(siblingModule('worker', import.meta.url)),
      name: 'strip',
      minThreads: 0,
      idleTimeout: Number.POSITIVE_INFINITY,
      maxThreads: workers,
      // The default freezes a worker's event loop between tasks.
      atomics: 'disabled',
      recordTiming: false,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB_MAX },
    });
  }

  /** Strips a document of which the result is known, so that a worker that cannot load fails here and not in a queue. */
  async probe(): Promise<void> {
    const spool = this.spool();
    await spool.update(Buffer.from(PROBE));
    const source = await spool.end();
    const file = await this.strip(source, { clientId: '', isAwaited: false });
    let stripped = '';
    for await (const chunk of readCiphered(file)) stripped += chunk;
    await this.remove(file.name);
    assert(stripped === PROBED, 'the strip workers know a small document');
  }

  /** Documents that arrived in full, and are not removed yet. */
  get usage(): Readonly<CopiesUsage> {
    return this.#usage;
  }

  /** A new file for a document that is about to arrive. */
  spool(): Spool {
    return new Spool(this.#options.path, newName(), this.#options.freeBytesMin);
  }

  /**
   * The document without XMP, on disk: the file itself, if it has none, or a copy that takes its place. Throws ServiceError:
   * `metadata_not_strippable`, `storage_full`, and `too_many_requests` or `queue_full` when no worker is to be had in time; and
   * the signal's reason. The file is then still there.
   */
  async strip(source: CipheredFile, owner: Owner): Promise<CipheredFile> {
    this.#usage.files += 1;
    this.#usage.bytes += source.bytes;
    const name = newName();
    const targetPath = join(this.#options.path, name);
    await requireDiskSpace(targetPath, source.bytes + this.#options.freeBytesMin);
    const result = await this.#inTurn({ source, targetPath }, owner);
    if (result.kind === 'refused') throw notStrippable(result.why);
    if (result.kind === 'full') throw storageFull();
    if (result.kind === 'copied') await rm(source.path, { force: true });
    await syncFolder(this.#options.path);
    return result.kind === 'copied'
      ? { ...source, name, path: targetPath, key: Buffer.from(result.key) }
      : source;
  }

  async #inTurn(task: StripTask, { clientId, signal, isAwaited }: Owner): Promise<StripResult> {
    const give = await this.#turns.take(clientId, { signal, waitMs: isAwaited ? WORKER_WAIT_MS : undefined });
    try {
      return await this.#run(task, signal);
    } finally {
      give();
    }
  }

  /** An aborted worker ends in the middle of whatever it does. One that was lost leaves its file behind. */
  async #run(task: StripTask, signal: AbortSignal | undefined): Promise<StripResult> {
    const ms = stripMsMax(task.source.bytes, this.#options.stripMsMax);
    const deadline = AbortSignal.timeout(ms);
    try {
      return await this.#piscina.run(task, {
        signal: AbortSignal.any([deadline, ...(signal ? [signal] : [])]),
      });
    } catch (cause) {
      await rm(task.targetPath, { force: true });
      signal?.throwIfAborted();
      if (deadline.aborted)
        return { kind: 'refused', why: `looking through it takes more than ${ms / 1000} s` };
      throw new Error('a document could not be stripped', { cause });
    }
  }

  /** The file of that name. */
  file(name: string, key: Uint8Array, bytes: number): CipheredFile {
    return { name, path: join(this.#options.path, name), key: Buffer.from(key), bytes };
  }

  /** One that is not there is removed already. */
  async remove(name: string): Promise<void> {
    const path = join(this.#options.path, name);
    const size = await stat(path).then((found) => found.size, unlessMissing);
    if (size === undefined) return;
    await rm(path, { force: true });
    this.#usage.files -= 1;
    this.#usage.bytes -= size;
  }

  async close(): Promise<void> {
    await this.#piscina.destroy();
  }
}

function unlessMissing(error: unknown): undefined {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
}

function newName(): string {
  return randomUUID();
}

/** The bytes of a document. */
export async function* readCiphered({ path, key, bytes }: CipheredFile): AsyncGenerator<Buffer> {
  const file = await open(path, 'r');
  const keystream = new Keystream(key);
  try {
    for (let position = 0; position < bytes; ) {
      const { bytesRead, buffer } = await file.read(
        Buffer.allocUnsafe(Math.min(READ_BYTES, bytes - position)),
      );
      if (bytesRead === 0) throw new Error('a copy is shorter than it was written');
      position += bytesRead;
      yield keystream.apply(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}

/** The same, if they have this SHA-256: the last of them are held back until that is known. Throws an Error otherwise. */
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

function notStrippable(why: string): ServiceError {
  const message =
    `The XMP metadata of the document cannot be removed: ${why}. To seal it as it is, with no copy made, send ` +
    'preserve_metadata=true.';
  return new ServiceError('metadata_not_strippable', message, { parameter: 'preserve_metadata' });
}
