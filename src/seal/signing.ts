import { type Clock, toRfc3339 } from '../base/clock.ts';
import type { Growth } from '../kms/order.ts';
import type { PartitionStatus } from '../kms/partitionStatus.ts';
import {
  openPartitions,
  type PartitionOptions,
  type PartitionSignature,
  type Partitions,
  type PartitionsOptions,
} from '../kms/partitions.ts';
import { comingAt, type Epoch, type EpochKey, type Epochs, type Term, termAt } from '../log/epochs.ts';
import { encodeQuorum } from '../log/quorum.ts';
import { kmsKeyId } from '../log/verifierKey.ts';
import type { EpochStore, LogStore } from '../store/store.ts';

export interface SigningOptions extends Omit<PartitionsOptions, 'partitions' | 'keys' | 'quorum'> {
  store: { epochs: Pick<EpochStore, 'newest'>; log: Pick<LogStore, 'head'> };
  /** The configured tokens. The epoch determines which key of a token signs. */
  partitions: readonly PartitionOptions[];
  clock: Clock;
  /** Called after a change of the epochs, before anything is signed under it: the record of the change must be sealed first. */
  onChange?(): Promise<void>;
  /** Called when an epoch begins while the daemon is running. */
  onBegin?(epoch: Epoch): void;
  /** Called if the store can no longer be read: the process must end. */
  onFatal(error: unknown): void;
  /** How often the store is checked for a planned epoch. */
  watchIntervalMs?: number;
}

/** An epoch, and the partitions that sign in it. */
interface Shift {
  epoch: Epoch;
  partitions: Partitions;
}

const WATCH_INTERVAL_MS = 1000;

/** Opens the keys of the epoch in force, as {@link openPartitions} does, and the keys of the planned epoch, if any. */
export async function openSigning(options: SigningOptions): Promise<Signing> {
  const epochs = await options.store.epochs.newest();
  const now = Math.max(options.clock(), (await options.store.log.head())?.sealedAt ?? 0);
  const { epoch } = termAt(epochs, now);
  const partitions = await openPartitions({ ...partitionsFor(epoch, options), claims: true });
  return new Signing(options, epochs, { epoch, partitions });
}

/**
 * Signs checkpoints with the keys of the epoch in force, and with no others. Watches the store for the next planned epoch, opens its keys
 * ahead of time, and switches over at the moment when the epoch begins.
 */
export class Signing {
  readonly #options: SigningOptions;
  readonly #timer: NodeJS.Timeout;
  #epochs: Epochs;
  #current: Shift;
  #next: Shift | undefined;
  /** Partitions of past epochs, until their child processes have ended. */
  #closing: Promise<unknown> = Promise.resolve();
  readonly #onChangeOver = new Set<() => void>();

  /** Use {@link openSigning}. */
  constructor(options: SigningOptions, epochs: Epochs, current: Shift) {
    this.#options = options;
    this.#epochs = epochs;
    this.#current = current;
    this.#prepare();
    const watch = () => this.#look(options.clock()).catch(options.onFatal);
    this.#timer = setInterval(watch, options.watchIntervalMs ?? WATCH_INTERVAL_MS).unref();
  }

  /** As read from the store, at most a second ago. */
  get epochs(): Epochs {
    return this.#epochs;
  }

  /** The epoch in force. */
  get epoch(): Epoch {
    return this.#current.epoch;
  }

  /** The epoch of something sealed at that time, according to the store as of now. The times of successive calls must not go back. */
  async term(sealedAt: number): Promise<Term> {
    await this.#look(sealedAt);
    return termAt(this.#epochs, sealedAt);
  }

  /**
   * One verified signature over the text of a checkpoint from every healthy partition of the term's epoch; undefined once that epoch is
   * over, and later signatures are discarded. Throws ServiceError `kms_partition_unavailable` below the quorum.
   */
  async sign(term: Term, text: string, growth?: Growth): Promise<PartitionSignature[] | undefined> {
    const { partitions } = this.#current;
    const { from } = term.epoch;
    const isInForce = () => this.#current.epoch.from === from && this.#options.clock() < term.end;
    if (!isInForce()) return undefined;
    try {
      const signatures = await partitions.sign(text, growth);
      return isInForce() ? signatures : undefined;
    } catch (error) {
      if (isInForce()) throw error;
      return undefined;
    }
  }

  canSign(): boolean {
    return this.#current.partitions.canSign();
  }

  /** See {@link Partitions.areTaken}. */
  areTaken(): boolean {
    return this.#current.partitions.areTaken();
  }

  /** See {@link Partitions.sessions}. */
  get sessions(): number {
    return this.#current.partitions.sessions;
  }

  /** Resolves as soon as {@link canSign}, when another epoch begins, or when the signal aborts. Never rejects. */
  recovered(signal: AbortSignal): Promise<void> {
    const over = new AbortController();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onChangeOver.add(resolve);
    const recovered = this.#current.partitions.recovered(AbortSignal.any([signal, over.signal]));
    return Promise.race([promise, recovered]).finally(() => {
      this.#onChangeOver.delete(resolve);
      over.abort();
    });
  }

  /** The partitions of the epoch in force, in the order of the configuration. */
  status(): PartitionStatus[] {
    return this.#current.partitions.status();
  }

  /** The partitions of the epoch in force: a withdrawal ends with the key's last epoch. */
  get partitions(): Partitions {
    return this.#current.partitions;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#next?.partitions.close(this.#current.partitions);
    await this.#current.partitions.close();
    await this.#closing;
  }

  /** Reads which epochs were planned or cancelled, and switches over if the time has come. */
  async #look(at: number): Promise<void> {
    const { store, onChange } = this.#options;
    const epochs = await store.epochs.newest();
    if (epochs.revision > this.#epochs.revision) await onChange?.();
    if (epochs.revision > this.#epochs.revision) {
      this.#epochs = epochs;
      this.#prepare();
    }
    while (this.#next !== undefined && this.#next.epoch.from <= at) this.#changeOver(this.#next);
  }

  /** Opens the keys of the next epoch unless they are open; closes the keys of a cancelled one. */
  #prepare(): void {
    const { logger, partitions } = this.#options;
    const coming = comingAt(this.#epochs, this.#current.epoch.from);
    const prepared = this.#next;
    if (JSON.stringify(coming) === JSON.stringify(prepared?.epoch)) return;
    this.#next = undefined;
    if (prepared !== undefined) {
      logger.warn(
        { event: 'epoch_cancelled', ...describe(prepared.epoch) },
        'the planned epoch was cancelled',
      );
      this.#retire(prepared, this.#current);
    }
    if (coming === undefined) return;
    this.#next = {
      epoch: coming,
      partitions: this.#current.partitions.succeed(partitionsFor(coming, this.#options)),
    };
    logger.info(
      { event: 'epoch_planned', ...describe(coming) },
      'an epoch is planned; its keys are being opened',
    );
    const unserved = coming.keys.filter((key) => !partitions.some((token) => isHeldBy(key, token)));
    if (unserved.length > 0) {
      const missing = unserved.map(({ region, partition }) => kmsKeyId({ region, keyLabel: partition }));
      const fields = { event: 'epoch_unserved', ...describe(coming), partitions: missing };
      logger.error(
        fields,
        'the planned epoch has partitions that are not in this process: restart the daemon before the epoch begins',
      );
    }
  }

  #changeOver(next: Shift): void {
    const previous = this.#current;
    this.#current = next;
    this.#next = undefined;
    this.#retire(previous, next);
    const fields = { event: 'epoch_begun', ...describe(next.epoch) };
    this.#options.logger.info(fields, 'an epoch begins; the keys of the previous epoch are retired');
    this.#options.onBegin?.(next.epoch);
    for (const tell of this.#onChangeOver) tell();
    this.#prepare();
  }

  #retire({ partitions }: Shift, kept: Shift): void {
    this.#closing = Promise.all([this.#closing, partitions.close(kept.partitions)]);
  }
}

/** The configured tokens that hold a key of the epoch, each with the label of that key, in configuration order. */
function partitionsFor(
  { keys, quorum }: Epoch,
  { partitions, ...options }: SigningOptions,
): PartitionsOptions {
  const tokens = partitions.flatMap((token) => {
    const key = keys.find((each) => isHeldBy(each, token));
    return key === undefined ? [] : [{ ...token, keyLabel: key.keyLabel }];
  });
  return { ...options, partitions: tokens, keys, quorum };
}

/** Whether this configured partition holds the key. */
function isHeldBy(key: EpochKey, { region, keyLabel }: PartitionOptions): boolean {
  return key.region === region && key.partition === keyLabel;
}

function describe({ from, keys, quorum, timestamps }: Epoch): object {
  return { from: toRfc3339(from), keys: keys.map(kmsKeyId), quorum: encodeQuorum(quorum), timestamps };
}
