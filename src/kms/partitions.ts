import { EventEmitter, once } from 'node:events';
import { systemClock } from '../base/clock.ts';
import { OperatorError, ServiceError } from '../base/errors.ts';
import { encodeQuorum, meetsQuorum, type QuorumPolicy, quorumFault } from '../log/quorum.ts';
import { lineSignature } from '../log/signedCheckpoint.ts';
import { kmsKeyId, type SignatureAlgorithm } from '../log/verifierKey.ts';
import type { HeldKey, KeyAlgorithm } from './keyAlgorithm.ts';
import { checkpointOrder, type Growth } from './order.ts';
import { Partition, type PartitionSettings } from './partition.ts';
import type { PartitionStatus } from './partitionStatus.ts';
import type { TokenOptions } from './protocol.ts';
import { describeFailure, isPinTrouble, isTaken, signerRemedy } from './signerFailure.ts';

/** One entry of `kms.partitions`. */
export interface PartitionOptions extends TokenOptions {
  region: string;
  /** Algorithm of its keys. Absent: any classical one. */
  algorithm?: SignatureAlgorithm;
}

/** The log's keys are of {@link SignatureAlgorithm}; those of a time-stamp authority are not. */
export interface PartitionSignature<Algorithm extends KeyAlgorithm = SignatureAlgorithm>
  extends HeldKey<Algorithm> {
  /** Already verified with that key, in the form of a signature line. Ed25519: 64 bytes; ecdsa-p256: DER; mldsa44: time and signature. */
  signature: Uint8Array;
}

/** A single partition, for callers that need to know which key signs. */
export type PartitionSigner<Algorithm extends KeyAlgorithm = SignatureAlgorithm> = Pick<
  Partition<HeldKey<Algorithm>>,
  'key' | 'ready' | 'sign'
>;

export interface PartitionsOptions<Algorithm extends KeyAlgorithm = SignatureAlgorithm>
  extends PartitionSettings {
  partitions: PartitionOptions[];
  /** Each partition must present the key of its region and key label. */
  keys: HeldKey<Algorithm>[];
  /** Decides which partitions must sign for a signature to count. */
  quorum: QuorumPolicy;
}

/** Waiting time that is suggested to callers refused below the quorum; a partition that returns signs again sooner. */
const RETRY_AFTER_SECONDS = 5;

/**
 * Starts every partition and resolves when each is ready or has failed its first start. Throws OperatorError, and leaves nothing running,
 * for faults that only an administrator can correct: a changed or lost key, a missing module; a PIN that is refused, missing or exposed, if
 * the partitions without such trouble are below the quorum. A token that cannot be reached is reported and retried, even if all tokens are
 * unreachable.
 */
export async function openPartitions<Algorithm extends KeyAlgorithm = SignatureAlgorithm>(
  options: PartitionsOptions<Algorithm>,
): Promise<Partitions<Algorithm>> {
  const changes = new EventEmitter().setMaxListeners(0);
  checkQuorum(options);
  const members = startMembers(options, [], changes);
  const opened = new Partitions(members, options.quorum, changes);
  const failures = await Promise.all(members.map((member) => member.started));
  const lasting = members.flatMap(({ key }, index) => {
    const [token, failure] = [options.partitions[index], failures[index]];
    if (token === undefined || failure === undefined || signerRemedy(failure) === undefined) return [];
    // The other process may be about to end.
    return isTaken(failure) ? [] : [{ key, token, failure }];
  });
  const others = members.map(({ key }) => key).filter((key) => !lasting.some((one) => one.key === key));
  const canDoWithout =
    lasting.every(({ failure }) => isPinTrouble(failure)) && meetsQuorum(options.quorum, others);
  if (lasting.length > 0 && !canDoWithout) {
    await opened.close();
    const lines = lasting.map(({ token, failure }) => describeFailure(token.region, token, failure));
    throw new OperatorError(lines.join('\n'));
  }
  return opened;
}

/** Returns the running partitions that hold one of the keys, and new ones for the other keys. */
function startMembers<Algorithm extends KeyAlgorithm>(
  options: PartitionsOptions<Algorithm>,
  running: readonly Partition<HeldKey<Algorithm>>[],
  changes: EventEmitter,
): Partition<HeldKey<Algorithm>>[] {
  const pairs = options.partitions.map((token) => ({ token, key: keyOf(token, options.keys) }));
  return pairs.map(
    ({ token, key }) =>
      running.find((member) => isSameKey(member.key, key)) ??
      new Partition(key, token, options, () => changes.emit('change')),
  );
}

function isSameKey(one: HeldKey, other: HeldKey): boolean {
  return one.spki === other.spki && one.region === other.region && one.keyLabel === other.keyLabel;
}

/** The partitions of one log, and the quorum over them. */
export class Partitions<Algorithm extends KeyAlgorithm = SignatureAlgorithm> {
  readonly #members: Partition<HeldKey<Algorithm>>[];
  readonly #quorum: QuorumPolicy;
  readonly #changes: EventEmitter;

  /** Use {@link openPartitions}. `changes` emits `change` whenever a member's state does. */
  constructor(members: Partition<HeldKey<Algorithm>>[], quorum: QuorumPolicy, changes: EventEmitter) {
    this.#members = members;
    this.#quorum = quorum;
    this.#changes = changes;
  }

  /**
   * Returns one verified signature of every healthy partition over the text of a checkpoint, in the order of the configuration; as slow as
   * the slowest, and never slower than twice `signTimeoutMs`. Keys that state a time state the present: their signers do not sign any
   * other. Throws ServiceError `kms_partition_unavailable` below the quorum.
   */
  async sign(text: string, growth?: Growth): Promise<PartitionSignature<Algorithm>[]> {
    if (!this.canSign()) throw belowQuorum();
    const signatures = new Map<HeldKey<Algorithm>, Uint8Array>();
    const checkpoint = { text, growth };
    await this.#collect(checkpoint, signatures);
    // One partition may have returned while another was lost: enough were healthy at all times, so the request need not fail.
    if (!this.#suffice(signatures)) await this.#collect(checkpoint, signatures);
    if (!this.#suffice(signatures)) throw belowQuorum();
    return this.#members.flatMap(({ key }) => {
      const signature = signatures.get(key);
      return signature === undefined ? [] : [{ ...key, signature }];
    });
  }

  #suffice(signatures: Map<HeldKey<Algorithm>, Uint8Array>): boolean {
    return meetsQuorum(this.#quorum, [...signatures.keys()]);
  }

  /** Requests a signature from every partition that is healthy now and has not signed yet. */
  async #collect(
    { text, growth }: { text: string; growth: Growth | undefined },
    signatures: Map<HeldKey<Algorithm>, Uint8Array>,
  ): Promise<void> {
    const asked = this.#members.filter((member) => member.ready && !signatures.has(member.key));
    const time = Math.floor(systemClock() / 1000);
    await Promise.all(
      asked.map(async (member) => {
        const algorithm: KeyAlgorithm = member.key.algorithm;
        const signature = await member.sign(checkpointOrder(algorithm, text, time, growth));
        if (signature !== undefined)
          signatures.set(member.key, lineSignature(algorithm as SignatureAlgorithm, time, signature));
      }),
    );
  }

  /** The single partitions, in the order of the configuration. */
  get signers(): readonly PartitionSigner<Algorithm>[] {
    return this.#members;
  }

  /** Whether enough partitions are healthy, as far as is known without querying them. */
  canSign(): boolean {
    return meetsQuorum(this.#quorum, this.#readyKeys);
  }

  /** Whether signing is impossible while another process signs with keys of this log. */
  areTaken(): boolean {
    return !this.canSign() && this.#members.some((member) => member.isTaken);
  }

  get #readyKeys(): HeldKey<Algorithm>[] {
    return this.#members.filter((member) => member.ready).map(({ key }) => key);
  }

  /** Number of messages that every ready partition signs at the same time: the lowest number of them all; 1 while none is ready. */
  get sessions(): number {
    const ready = this.#members.filter((member) => member.ready);
    return ready.length === 0 ? 1 : Math.min(...ready.map(({ sessions }) => sessions));
  }

  /** Resolves as soon as {@link canSign}, or when the signal aborts. Never rejects. */
  async recovered(signal: AbortSignal): Promise<void> {
    while (!this.canSign() && !signal.aborted) {
      await once(this.#changes, 'change', { signal }).catch(() => {});
    }
  }

  /** Status of every partition, in the order of the configuration. */
  status(): PartitionStatus[] {
    return this.#members.map((member) => member.status());
  }

  /**
   * Takes a partition out of service on purpose, as a loss of its token would, until {@link restore}. Throws ServiceError `not_found`,
   * `partition_not_ready` if it does not sign anyway, and `below_quorum` if too few would be left.
   */
  async withdraw(name: string, { belowQuorum = false } = {}): Promise<void> {
    const member = this.#named(name);
    const keepQuorum = () => {
      const left = this.#readyKeys.filter((key) => key !== member.key);
      if (!meetsQuorum(this.#quorum, left) && !belowQuorum) throw wouldBreakQuorum(left, this.#quorum);
    };
    if (await member.withdraw(keepQuorum)) return;
    const { state } = member.status();
    throw new ServiceError(
      'partition_not_ready',
      `${name} is ${state}: only a partition that signs is withdrawn.`,
    );
  }

  /** Full names of the partitions without which the others would meet the quorum now. */
  get spare(): string[] {
    const ready = this.#readyKeys;
    const without = (key: HeldKey<Algorithm>) => ready.filter((other) => other !== key);
    return ready.filter((key) => meetsQuorum(this.#quorum, without(key))).map(kmsKeyId);
  }

  /** Puts it back into service, if it was withdrawn. Throws ServiceError `not_found`. */
  async restore(name: string): Promise<void> {
    await this.#named(name).restore();
  }

  /** Returns `<region>/<key label>` of a partition, given that name or its region alone. Throws ServiceError `not_found`. */
  nameOf(name: string): string {
    return kmsKeyId(this.#named(name).key);
  }

  #named(name: string): Partition<HeldKey<Algorithm>> {
    const [member, ...others] = this.#members.filter(
      ({ key }) => name === key.region || name === kmsKeyId(key),
    );
    if (member !== undefined && others.length === 0) return member;
    const known = this.#members.map(({ key }) => kmsKeyId(key)).join(', ');
    throw new ServiceError(
      'not_found',
      `There is not exactly one partition of that name; there are ${known}.`,
    );
  }

  /** Returns the partitions that sign next: partitions whose key stays are shared; the others are started, without waiting for them. */
  succeed(options: PartitionsOptions<Algorithm>): Partitions<Algorithm> {
    const members = startMembers(options, this.#members, this.#changes);
    return new Partitions(members, options.quorum, this.#changes);
  }

  /** Logs out everywhere. When it resolves, no child is left except those shared with `others`. */
  async close(others?: Partitions<Algorithm>): Promise<void> {
    const shared = others === undefined ? [] : others.#members;
    const own = this.#members.filter((member) => !shared.includes(member));
    await Promise.all(own.map((member) => member.close()));
  }
}

function keyOf<Algorithm extends KeyAlgorithm>(
  { region, keyLabel }: PartitionOptions,
  keys: HeldKey<Algorithm>[],
): HeldKey<Algorithm> {
  const key = keys.find((candidate) => candidate.region === region && candidate.keyLabel === keyLabel);
  if (key !== undefined) return key;
  throw new OperatorError(`there is no key "${keyLabel}" of region ${region} that may sign`);
}

/** A quorum counts independent signatures, so a key may stand behind one partition only. */
function checkQuorum<Algorithm extends KeyAlgorithm>(options: PartitionsOptions<Algorithm>): void {
  const { partitions, keys, quorum } = options;
  const held = partitions.map((token) => keyOf(token, keys));
  if (new Set(held.map(({ spki }) => spki)).size !== held.length) {
    throw new OperatorError('kms.partitions: two partitions name the same key; each needs its own');
  }
  const fault = quorumFault(quorum, held);
  if (fault !== undefined) throw new OperatorError(`kms.quorum: ${fault}`);
}

/** The answer to callers while signing is impossible. */
export function belowQuorum(): ServiceError {
  return new ServiceError(
    'kms_partition_unavailable',
    'Too few key-management partitions can sign at the moment, and nothing was sealed. Repeat the request later.',
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  );
}

function wouldBreakQuorum(left: readonly HeldKey[], quorum: QuorumPolicy): ServiceError {
  return new ServiceError(
    'below_quorum',
    `Without it ${left.length} partitions would sign, and ${encodeQuorum(quorum)} must: nothing could be sealed. Repair the other partitions first, or allow a drill below the quorum.`,
  );
}
