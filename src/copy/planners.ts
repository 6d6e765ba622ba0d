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
const PLANNERS_MAX = 8;
/** Within this time, nobody looks whether the client is still there. */
const PROMPT_MS = 50;
/** If small documents take longer, one of them is the cause, and each is planned alone. */
const TOGETHER_MS_MAX = 5_000;

type Source = CipheredFile | HeldDocument;

interface Planner {
  /** The only client whose documents it sees. */
  clientId: string;
  stripper: StripperProcess;
  /** Whether it has one document, and takes no other. */
  isAlone: boolean;
}

class TakesTooLong extends NotStrippable {}

/**
 * Has attachments planned by strippers. A plan needs few bytes of a document, so this process passes them on itself: the threads that make
 * copies would cost a small document more than its plan.
 */
export class Planners {
  readonly #options: PlannersOptions;
  readonly #alone: SlotQueue;
  readonly #together: SlotQueue;
  /** The most recently used is last. */
  #planners: Planner[] = [];

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
    if (!('copy' in source)) return this.#planAlone(source, owner, msMax);
    try {
      return await this.#planTogether(source, owner, Math.min(TOGETHER_MS_MAX, msMax));
    } catch (error) {
      if (!(error instanceof StripperLost || error instanceof TakesTooLong)) throw error;
      // Another document can be the cause.
      return this.#planAlone(source, owner, msMax);
    }
  }

  close(): void {
    for (const { stripper } of this.#planners) stripper.kill();
  }

  /** Has a small document planned behind others of its client, so that none waits for a process to wake up. */
  async #planTogether(source: Source, owner: Owner, msMax: number): Promise<AttachmentPlan> {
    const leave = await this.#turn(this.#together, owner);
    const { stripper } = this.#plannerOf(owner.clientId, false);
    const plan = reading(source, (document) => stripper.plan(document));
    // Not before: the document of a client that has left is still in the stripper's queue.
    plan.then(leave, leave);
    return inTime(plan, stripper, owner, msMax);
  }

  async #planAlone(source: Source, owner: Owner, msMax: number): Promise<AttachmentPlan> {
    using held = new DisposableStack();
    held.defer(await this.#turn(this.#alone, owner));
    // A stripper can be lost for unrelated reasons, such as a restart of its unit. If two are lost, the document is the cause.
    for (let lost = 0; lost < 2; lost += 1) {
      const planner = this.#plannerOf(owner.clientId, true);
      const { stripper } = planner;
      try {
        const plan = reading(source, (document) => stripper.plan(document));
        return await inTime(plan, stripper, owner, msMax);
      } catch (error) {
        if (!(error instanceof NotStrippable)) stripper.kill();
        if (!(error instanceof StripperLost)) throw error;
      } finally {
        planner.isAlone = false;
      }
    }
    throw new NotStrippable('the search in it fails, or needs too much memory');
  }

  /** Asks for the owner's signal only if there is something to wait for: it is made when it is asked for. */
  #turn(slots: SlotQueue, owner: Owner): (() => void) | Promise<() => void> {
    const { clientId, isAwaited } = owner;
    const waitMs = isAwaited ? this.#options.waitMs : undefined;
    return slots.tryTake(clientId) ?? slots.take(clientId, { signal: owner.signal, waitMs });
  }

  #plannerOf(clientId: string, isAlone: boolean): Planner {
    const living = this.#planners.filter(({ stripper }) => !stripper.isLost);
    const isFit = (one: Planner) =>
      one.clientId === clientId && !one.isAlone && !(isAlone && one.stripper.isBusy);
    const planner = living.find(isFit) ?? {
      clientId,
      stripper: new StripperProcess(this.#options.socket),
      isAlone,
    };
    planner.isAlone = isAlone;
    const others = living.filter((one) => one !== planner);
    if (others.length >= PLANNERS_MAX) {
      const idle = others.findIndex(({ stripper }) => !stripper.isBusy);
      // Documents that it still has are planned elsewhere.
      for (const { stripper } of others.splice(Math.max(idle, 0), 1)) stripper.kill();
    }
    this.#planners = [...others, planner];
    return planner;
  }
}

/** The plan, unless the client leaves first, or the time is over: then the stripper is ended. */
async function inTime(
  plan: Promise<AttachmentPlan>,
  stripper: StripperProcess,
  owner: Owner,
  msMax: number,
): Promise<AttachmentPlan> {
  const { promise, resolve, reject } = Promise.withResolvers<AttachmentPlan>();
  plan.then(resolve, reject);
  let signal: AbortSignal | undefined;
  const leave = () => reject(signal?.reason);
  const expire = () => {
    reject(new TakesTooLong(`the search in it takes more than ${msMax / 1000} s`));
    stripper.kill();
  };
  // Nearly every plan is made before it is worth while to see whether the client is still there.
  let timer = setTimeout(() => {
    timer = setTimeout(expire, msMax - PROMPT_MS);
    signal = owner.signal;
    signal?.addEventListener('abort', leave);
    if (signal?.aborted) leave();
  }, PROMPT_MS);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', leave);
  }
}

type Read = (position: number, length: number) => Buffer | Promise<Buffer>;

/** Lets `use` read the document: from memory, if it is still there. */
async function reading<T>(
  source: Source,
  use: (document: { bytes: number; read: Read }) => Promise<T>,
): Promise<T> {
  const { bytes } = source;
  if ('copy' in source) return use({ bytes, read: () => source.copy() });
  const { key, path, at } = source;
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
