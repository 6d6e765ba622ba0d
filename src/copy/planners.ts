import { open } from 'node:fs/promises';
import { SlotQueue } from '../base/slotQueue.ts';
import { NotStrippable } from '../pdf/notStrippable.ts';
import type { AttachmentPlan } from '../pdf/update/suffix.ts';
import { keystream } from './cipher.ts';
import type { CipheredFile, HeldDocument, Owner } from './spool.ts';
import { StripperLost, StripperProcess } from './stripperProcess.ts';

export interface PlannersOptions {
  /** Maximum number of documents planned at the same time; at least two, so that one client cannot occupy all. */
  max: number;
  /** Longest wait of an awaited document for its turn, in milliseconds. */
  waitMs: number;
  /** Socket of the strippers' unit; if undefined, strippers are children of this process. */
  socket: string | undefined;
}

/** Small documents that are planned at the same time. Each takes a fraction of a millisecond. */
const TOGETHER_MAX = 64;
/** Enough that clients that take turns do not wait for a new stripper each time. */
const SHARED_MAX = 8;
/** If small documents take longer, one of them is the cause, and each is planned alone. */
const TOGETHER_MS_MAX = 5_000;

type Source = CipheredFile | HeldDocument;

interface Planner {
  /** The only client whose documents it sees. */
  clientId: string;
  stripper: StripperProcess;
}

/**
 * Has attachments planned by strippers. A plan needs few bytes of a document, so this process passes them on itself: the threads that make
 * copies would cost a small document more than its plan.
 */
export class Planners {
  readonly #options: PlannersOptions;
  readonly #alone: SlotQueue;
  readonly #together: SlotQueue;
  /** The planners of small documents, by client; the most recently used is last. */
  readonly #shared = new Map<string, StripperProcess>();
  /** The planners without a document; the most recently used is last. */
  #idle: Planner[] = [];
  #isClosed = false;

  constructor(options: PlannersOptions) {
    this.#options = options;
    this.#alone = new SlotQueue({ of: 'documents to plan', max: options.max });
    this.#together = new SlotQueue({ of: 'documents to plan', max: TOGETHER_MAX });
  }

  /**
   * Throws NotStrippable, with the reason, for a document to which no receipt can be attached, or that takes longer than `msMax`; the
   * signal's reason; or ServiceError if no planner becomes free in time.
   */
  async plan(source: Source, owner: Owner, msMax: number): Promise<AttachmentPlan> {
    if (!('encrypted' in source)) return this.#planAlone(source, owner, msMax);
    try {
      return await this.#planTogether(source, owner, Math.min(TOGETHER_MS_MAX, msMax));
    } catch (error) {
      if (!(error instanceof StripperLost)) throw error;
      // Another document can be the cause.
      return this.#planAlone(source, owner, msMax);
    }
  }

  /** Has a small document planned behind others of its client, so that none waits for a process to wake up. */
  async #planTogether(
    source: Source,
    { clientId, signal, isAwaited }: Owner,
    msMax: number,
  ): Promise<AttachmentPlan> {
    const waitMs = isAwaited ? this.#options.waitMs : undefined;
    using held = new DisposableStack();
    held.defer(await this.#together.take(clientId, { signal, waitMs }));
    const stripper = this.#sharedBy(clientId);
    using _timer = setTimeout(() => stripper.kill(), msMax);
    const left = Promise.withResolvers<never>();
    const leave = () => left.reject(signal?.reason);
    signal?.addEventListener('abort', leave);
    held.defer(() => signal?.removeEventListener('abort', leave));
    return await Promise.race([reading(source, (document) => stripper.plan(document)), left.promise]);
  }

  #sharedBy(clientId: string): StripperProcess {
    const known = this.#shared.get(clientId);
    this.#shared.delete(clientId);
    const stripper = known === undefined || known.isLost ? new StripperProcess(this.#options.socket) : known;
    this.#shared.set(clientId, stripper);
    if (this.#shared.size > SHARED_MAX) {
      const others = [...this.#shared].filter(([, one]) => one !== stripper);
      const [client = '', unneeded] = others.find(([, one]) => !one.isBusy) ?? others[0] ?? [];
      this.#shared.delete(client);
      // Documents that it still has are planned alone.
      unneeded?.kill();
    }
    return stripper;
  }

  async #planAlone(
    source: Source,
    { clientId, signal, isAwaited }: Owner,
    msMax: number,
  ): Promise<AttachmentPlan> {
    const waitMs = isAwaited ? this.#options.waitMs : undefined;
    using held = new DisposableStack();
    held.defer(await this.#alone.take(clientId, { signal, waitMs }));
    // A stripper can be lost for unrelated reasons, such as a restart of its unit. If two are lost, the document is the cause.
    for (let lost = 0; lost < 2; lost += 1) {
      const planner = this.#take(clientId);
      try {
        const plan = await this.#planWith(planner, source, { signal, msMax });
        this.#giveBack(planner);
        return plan;
      } catch (error) {
        if (error instanceof NotStrippable && !planner.stripper.isLost) this.#giveBack(planner);
        else planner.stripper.kill();
        signal?.throwIfAborted();
        if (!(error instanceof StripperLost)) throw error;
      }
    }
    throw new NotStrippable('the search in it fails, or needs too much memory');
  }

  close(): void {
    this.#isClosed = true;
    for (const { stripper } of this.#idle.splice(0)) stripper.kill();
    for (const stripper of this.#shared.values()) stripper.kill();
  }

  async #planWith(
    { stripper }: Planner,
    source: Source,
    { signal, msMax }: { signal: AbortSignal | undefined; msMax: number },
  ): Promise<AttachmentPlan> {
    const leave = () => stripper.kill();
    const tooLong = new NotStrippable(`the search in it takes more than ${msMax / 1000} s`);
    let isLate = false;
    using _timer = setTimeout(() => {
      isLate = true;
      stripper.kill();
    }, msMax);
    signal?.addEventListener('abort', leave);
    try {
      return await reading(source, (document) => stripper.plan(document));
    } catch (error) {
      throw isLate ? tooLong : error;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  #take(clientId: string): Planner {
    const place = this.#idle.findLastIndex((planner) => planner.clientId === clientId);
    const [known] = place < 0 ? [] : this.#idle.splice(place, 1);
    return known ?? { clientId, stripper: new StripperProcess(this.#options.socket) };
  }

  #giveBack(planner: Planner): void {
    this.#idle.push(planner);
    const unneeded = this.#isClosed || this.#idle.length > this.#options.max ? this.#idle.shift() : undefined;
    unneeded?.stripper.kill();
  }
}

type Read = (position: number, length: number) => Buffer | Promise<Buffer>;

/** Lets `use` read the document: from memory, if it is still there. */
async function reading<T>(
  source: Source,
  use: (document: { bytes: number; read: Read }) => Promise<T>,
): Promise<T> {
  const { key, bytes } = source;
  if ('encrypted' in source) {
    const document = keystream(key)(source.encrypted);
    return use({ bytes, read: (position, length) => document.subarray(position, position + length) });
  }
  const { path, at } = source;
  await using file = await open(path, 'r');
  return await use({
    bytes,
    async read(position, length) {
      const data = Buffer.allocUnsafe(Math.max(0, Math.min(length, bytes - position)));
      for (let filled = 0; filled < data.length; ) {
        const { bytesRead } = await file.read(data, filled, data.length - filled, at + position + filled);
        if (bytesRead === 0) throw new Error('a document is shorter than when it was written');
        filled += bytesRead;
      }
      return keystream(key, position)(data);
    },
  });
}
