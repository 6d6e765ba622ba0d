import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { oneAtATime, type Serially } from '../base/serially.ts';
import type { Actor } from '../manifest/auditRecord.ts';
import type { Signing } from '../seal/signing.ts';
import { actBy, actorOfProcess, onRecord } from '../store/acts.ts';
import type { TrailStore } from '../store/trail.ts';

interface DrillsOptions {
  /** The partitions of the epoch in force. */
  partitions(): Pick<Signing['partitions'], 'withdraw' | 'restore' | 'nameOf' | 'spare'>;
  /** The audit trail: it records who took a partition out, and who put it back. */
  trail: Pick<TrailStore, 'append'>;
  clock: Clock;
  logger: Logger;
  /** Called when the end of a drill cannot be recorded: the process must end. */
  onFatal(error: unknown): void;
}

interface Withdrawal {
  /** Milliseconds since the epoch. */
  returnsAt: number;
  timer: NodeJS.Timeout;
}

/** Partitions that are out of service on purpose. Each partition returns by itself, even if the administrator disconnects. */
export class Drills {
  readonly #options: DrillsOptions;
  readonly #withdrawn = new Map<string, Withdrawal>();
  /** By partition: the end of the queue. */
  readonly #queues = new Map<string, Serially>();

  constructor(options: DrillsOptions) {
    this.#options = options;
  }

  /** Takes a partition out for at most `forMs`; returns its full name. Throws the errors of {@link Partitions.withdraw}. */
  async takeOut(
    partition: string,
    options: { forMs: number; belowQuorum: boolean },
    actor: Actor,
  ): Promise<string> {
    const { partitions, trail, logger } = this.#options;
    const name = partitions().nameOf(partition);
    const object = { partition: name, for_ms: options.forMs, below_quorum: options.belowQuorum };
    const act = actBy(actor, 'drill.begin', object);
    return this.#serially(name, async () => {
      await onRecord(trail, act, async () => {
        await partitions().withdraw(name, options);
        this.#begin(name, options.forMs);
      });
      logger.warn(
        { event: 'partition_withdrawn', partition: name, for_ms: options.forMs },
        'a partition was taken out of service on purpose',
      );
      return name;
    });
  }

  /** The end is set before the record is concluded: the partition returns even if the store fails meanwhile. */
  #begin(name: string, forMs: number): void {
    const { clock, onFatal } = this.#options;
    const expire = async () => {
      // Another drill may have begun while this waited.
      if (this.#withdrawn.get(name) === withdrawal) await this.#end(name);
    };
    const timer = setTimeout(() => this.#serially(name, expire).catch(onFatal), forMs).unref();
    const withdrawal = { returnsAt: clock() + forMs, timer };
    this.#withdrawn.set(name, withdrawal);
  }

  /** Puts a partition back before its time; a partition in service stays in service. Returns its full name. */
  async putBack(partition: string, actor?: Actor): Promise<string> {
    const name = this.#options.partitions().nameOf(partition);
    await this.#serially(name, () => this.#end(name, actor));
    return name;
  }

  /** After all that was begun before on that partition: what ends a drill waits until it has begun. */
  #serially<Result>(name: string, act: () => Promise<Result>): Promise<Result> {
    const serially = this.#queues.get(name) ?? oneAtATime();
    this.#queues.set(name, serially);
    return serially(act);
  }

  async #end(name: string, actor?: Actor): Promise<void> {
    const { trail, logger } = this.#options;
    const withdrawal = this.#withdrawn.get(name);
    this.#withdrawn.delete(name);
    clearTimeout(withdrawal?.timer);
    await this.#restore(name);
    if (withdrawal === undefined) return;
    logger.info({ event: 'partition_restored', partition: name }, 'a partition was put back into service');
    await trail.append(actBy(actor ?? actorOfProcess('daemon'), 'drill.end', { partition: name }));
  }

  /** Does nothing if a new epoch has retired the partition's key: the withdrawal ended with that key. */
  async #restore(name: string): Promise<void> {
    try {
      await this.#options.partitions().restore(name);
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === 'not_found')) throw error;
    }
  }

  /** Full names of the partitions that can be taken out without stopping the log. */
  get spare(): readonly string[] {
    return this.#options.partitions().spare;
  }

  /** When the partition with this full name returns by itself, milliseconds since the epoch; undefined for one in service. */
  returnsAt(name: string): number | undefined {
    return this.#withdrawn.get(name)?.returnsAt;
  }

  /** Stops the timers only: withdrawals end when the partitions close. */
  close(): void {
    for (const { timer } of this.#withdrawn.values()) clearTimeout(timer);
  }
}
