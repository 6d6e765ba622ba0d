import assert from 'node:assert';
import { createHash } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { once } from 'node:events';
import { toBase64 } from '../../src/base/bytes.ts';
import { carryOut, type Order } from '../../src/kms/order.ts';
import type { Partition } from '../../src/kms/partition.ts';
import type { Signature, SigningRequest } from '../../src/kms/protocol.ts';
import { CREDIT_MAX, follow, NOTHING_SIGNED } from '../../src/kms/signedTrees.ts';
import { parseCheckpoint } from '../../src/log/checkpoint.ts';
import type { ReadTile } from '../../src/log/tiles.ts';
import { loadEdge, rootOf } from '../../src/log/tree.ts';
import type { LogKey } from '../../src/log/verifierKey.ts';
import type { Cosigners } from '../../src/seal/cosigners.ts';
import type { Timestamping } from '../../src/seal/timestamping.ts';
import { TimestampUnavailable } from '../../src/tsa/unavailable.ts';
import type { End, World } from './world.ts';

/** Stands for the signature of the key: as long as one of Ed25519, and of this key and message only. */
export function signatureOf({ region }: Pick<LogKey, 'region'>, message: Uint8Array): Buffer {
  return createHash('sha512').update(region).update(message).digest();
}

/** Stands for the token over a signed checkpoint. */
export function tokenOf(note: string): string {
  return createHash('sha256').update(note).digest('base64');
}

/** What the schedule takes away and gives back. */
export class Device {
  isUp = true;
  readonly name: string;
  readonly world: World;
  #back = Promise.withResolvers<void>();

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
  }

  set(isUp: boolean): void {
    if (isUp === this.isUp) return;
    this.isUp = isUp;
    this.world.note(`${this.name} ${isUp ? 'is back' : 'is lost'}`);
    if (isUp) this.#back.resolve();
    else this.#back = Promise.withResolvers<void>();
  }

  /** The process ends: whoever waits in it waits for ever. */
  forget(): void {
    this.#back = Promise.withResolvers<void>();
  }

  /** Resolves when it is up, or when the signal aborts. */
  async recovered(signal: AbortSignal): Promise<void> {
    if (this.isUp || signal.aborted) return;
    await Promise.race([this.#back.promise, once(signal, 'abort')]);
  }
}

/** A partition of the key-management system: it signs, or is lost while it signs. */
export class PartitionModel extends Device {
  readonly key: LogKey & { partition: string };
  readonly sessions = 2;
  changes: EventEmitter | undefined;
  #held = NOTHING_SIGNED;

  constructor(world: World, key: LogKey & { partition: string }) {
    super(world, `partition ${key.region}`);
    this.key = key;
  }

  get ready(): boolean {
    return this.isUp;
  }

  override set(isUp: boolean): void {
    super.set(isUp);
    this.changes?.emit('change');
  }

  override forget(): void {
    this.changes = undefined;
  }

  /** Refuses what the real one does; no schedule is to make it. */
  async sign(order: Order): Promise<Uint8Array | undefined> {
    const { message } = order;
    this.world.progress.reached(Buffer.from(message).toString(), 'drafted');
    await carryOut(order, { ask: async (asked) => this.#follow(asked) }, 0);
    const ends: End<Uint8Array | undefined>[] = [
      ['signed', () => (this.isUp ? signatureOf(this.key, message) : undefined)],
      ['lost while signing', () => void this.set(false)],
    ];
    return this.world.begin(this.name, 'signature', ends);
  }

  #follow(request: SigningRequest): Signature {
    assert(request.kind === 'signCheckpoint' && request.step, 'a partition signs the next checkpoint');
    const { treeSize, root } = parseCheckpoint(request.text) ?? assert.fail('no checkpoint');
    const limits = { depth: this.sessions, now: 0 };
    const { held } = follow(this.#held, { size: treeSize, root: toBase64(root) }, request.step, limits);
    // How many may be given up in what time is not what schedules are for.
    this.#held = { ...held, credit: CREDIT_MAX };
    return { signature: '' };
  }

  async close(): Promise<void> {}

  /** As the real partitions are made of. */
  asMember(): Partition<LogKey> {
    return this as unknown as Partition<LogKey>;
  }
}

/** Gives time-stamps with the given clock. */
export class AuthorityModel extends Device {
  readonly #date: () => number;

  constructor(world: World, date: () => number) {
    super(world, 'time-stamp authority');
    this.#date = date;
  }

  open(): Pick<Timestamping, 'stamp' | 'sealed' | 'canStamp' | 'recovered'> {
    const unavailable = () => new TimestampUnavailable('authority_unreachable', 'no answer');
    return {
      stamp: async (note, _sealedAt, { epoch, end }, signal) => {
        const { progress } = this.world;
        progress.reached(note, 'signed');
        if (!this.isUp) throw unavailable();
        const stamp = () => {
          const genTime = this.#date();
          if (genTime < epoch.from || genTime >= end) return undefined;
          progress.reached(note, 'stamped');
          return { token: tokenOf(note), certificates: [] };
        };
        const lose = () => {
          this.set(false);
          throw unavailable();
        };
        const ends: End<ReturnType<typeof stamp>>[] = [
          ['stamped', stamp],
          ['lost while stamping', lose],
        ];
        return this.world.begin(this.name, 'time-stamp', ends, { ...(signal && { signal }) }).catch(() => {
          throw unavailable();
        });
      },
      sealed: () => {},
      canStamp: () => this.isUp,
      recovered: (signal) => this.recovered(signal),
    };
  }
}

/** A witness outside of the process. It remembers the newest tree that it has seen, and calls anything else a fork. */
export class WitnessModel extends Device {
  size = 0;
  root = '';
  /** Why it would raise the alarm. */
  fork: string | undefined;

  open(): Cosigners {
    return {
      accept: () => true,
      cosign: async (checkpoint, readTile, signal) => {
        // It can have seen the checkpoint from now on, whatever becomes of its answer.
        await this.#see(checkpoint, readTile);
        const cosigned = () => {
          this.world.progress.reached(checkpoint, 'cosigned');
          return true;
        };
        const ends: End<boolean>[] = [['cosigned', cosigned]];
        return this.world.begin(this.name, 'cosignature', ends, { signal }).catch(() => false);
      },
      released: () => {},
      canCosign: () => this.isUp,
      recovered: (signal) => this.recovered(signal),
    };
  }

  async #see(note: string, readTile: ReadTile): Promise<void> {
    const checkpoint = parseCheckpoint(note.slice(0, note.indexOf('\n\n') + 1));
    const size = checkpoint?.treeSize ?? 0;
    const rootAt = async (at: number) => Buffer.from(rootOf(await loadEdge(at, readTile))).toString('base64');
    if (size < this.size) this.fork = `it holds ${this.size} leaves, and was shown ${size}`;
    else if (this.size > 0 && (await rootAt(this.size)) !== this.root)
      this.fork = `the tree of ${size} leaves does not continue the one of ${this.size} that it holds`;
    this.size = size;
    this.root = await rootAt(size);
  }
}
