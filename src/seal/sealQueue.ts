import { Presence } from '../base/presence.ts';
import { parseAuditReference } from '../manifest/auditRecord.ts';
import type { Sealable } from './pending.ts';

/** Maximum jobs of one client in a batch while others seal too, because the others wait for the whole batch. */
const SHARED_MAX = 64;

interface Waiting {
  one: Sealable;
  /** Position in the order in which jobs are sealed. */
  number: number;
}

/**
 * Jobs for the next batch. If more wait than fit, it takes equally many of each client, so a client never waits for a batch that contains
 * only jobs of others. While several clients seal, it takes few of each, so that a batch is finished soon. Audit records come before all
 * others, in order, and all of them go into the next batch: the record of a new epoch is then in the log before anything is sealed in that
 * epoch, and the newest record in the log proves those before it.
 */
export class SealQueue {
  /** Ordered by number. */
  #records: Sealable[] = [];
  /** The other jobs of each client, in order: the cost of a batch depends on the jobs it takes, not on the number of waiting ones. */
  readonly #others = new Map<string, Waiting[]>();
  #first = 0;
  #last = 0;
  readonly #presence: Presence;

  constructor(presence = new Presence()) {
    this.#presence = presence;
  }

  get length(): number {
    let length = this.#records.length;
    for (const queue of this.#others.values()) length += queue.length;
    return length;
  }

  /** All jobs except audit records, in the order in which they are sealed. Audit records are sealed however late. */
  get perishable(): readonly Sealable[] {
    return inOrder([...this.#others.values()].flat());
  }

  set perishable(jobs: readonly Sealable[]) {
    this.#others.clear();
    for (const job of jobs) this.#append(job);
  }

  add(job: Sealable): void {
    if (isRecord(job)) {
      this.#keep([job]);
    } else {
      this.#append(job);
      this.#presence.note(job.job.clientId);
    }
  }

  /** Returns taken jobs to the front of the queue. */
  putBack(jobs: readonly Sealable[]): void {
    this.#keep(jobs.filter(isRecord));
    for (const one of jobs.filter((job) => !isRecord(job)).toReversed())
      this.#queueOf(one).unshift({ one, number: --this.#first });
  }

  /** The next batch, with at most that many jobs. Audit records may be more. */
  take(max: number): Sealable[] {
    const records = this.#records.splice(0);
    return [...records, ...this.#takeOthers(Math.max(max - records.length, 0))];
  }

  /** In order of arrival. */
  #takeOthers(max: number): Sealable[] {
    const taken: Waiting[] = [];
    const isShared = this.#others.size > 1;
    const shares = Array.from(this.#others, ([clientId, queue]) => {
      const isFew = isShared || this.#presence.isBesideOthers(clientId);
      return { clientId, queue, left: isFew ? SHARED_MAX : max, seen: 0 };
    });
    for (let open = shares; taken.length < max && open.length > 0; )
      open = open.filter((share) => {
        if (taken.length === max) return false;
        // Some may have ended in the queue because they conflicted with jobs of another node.
        while (share.queue[share.seen]?.one.isOver) share.seen += 1;
        const next = share.queue[share.seen];
        if (next === undefined) return false;
        taken.push(next);
        share.seen += 1;
        share.left -= 1;
        return share.left > 0;
      });
    for (const { clientId, queue, seen } of shares) {
      queue.splice(0, seen);
      if (queue.length === 0) this.#others.delete(clientId);
    }
    return inOrder(taken);
  }

  #append(one: Sealable): void {
    this.#queueOf(one).push({ one, number: ++this.#last });
  }

  #queueOf({ job }: Sealable): Waiting[] {
    const queue = this.#others.get(job.clientId) ?? [];
    this.#others.set(job.clientId, queue);
    return queue;
  }

  #keep(records: readonly Sealable[]): void {
    this.#records.push(...records);
    this.#records.sort((a, b) => numberOf(a) - numberOf(b));
  }
}

function inOrder(waiting: Waiting[]): Sealable[] {
  return waiting.sort((a, b) => a.number - b.number).map(({ one }) => one);
}

function isRecord({ job }: Sealable): boolean {
  return job.source === 'audit';
}

function numberOf({ job }: Sealable): number {
  return parseAuditReference(job.customerReference) ?? 0;
}
