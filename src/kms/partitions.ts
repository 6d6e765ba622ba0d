import { EventEmitter, once } from 'node:events';
import type { Logger } from 'pino';
import { OperatorError, ServiceError } from '../base/errors.ts';
import type { LogKey, SignatureAlgorithm } from '../log/keys.ts';
import { encodeQuorum, meetsQuorum, type QuorumPolicy, quorumFault } from '../log/quorum.ts';
import { type HeldKey, type KeyAlgorithm, type PublicKey, verifierOf } from './algorithm.ts';
import { describeFailure, remedyFor, SignerFailure } from './failure.ts';
import { Partition, type PartitionStatus, type PartitionTimes } from './partition.ts';
import { probeMessage } from './probe.ts';
import type { KeyProtection, TokenAccess, TokenOptions } from './protocol.ts';
import { SignerProcess } from './signerProcess.ts';

/** One entry of `kms.partitions`. */
export interface PartitionOptions extends TokenOptions {
  region: string;
}

/** The log's keys are of {@link SignatureAlgorithm}; those of a time-stamp authority are not. */
export interface PartitionSignature<Algorithm extends KeyAlgorithm = SignatureAlgorithm>
  extends HeldKey<Algorithm> {
  /** Already verified with that key. Ed25519: 64 bytes; ecdsa-p256: DER; rsa-3072: 384 bytes. */
  signature: Uint8Array;
}

/** One partition by itself, for those to whom it matters which key signs. */
export interface PartitionSigner<Algorithm extends KeyAlgorithm = SignatureAlgorithm> {
  readonly key: HeldKey<Algorithm>;
  /** Whether it is healthy, as far as is known without asking it. */
  readonly ready: boolean;
  /** A verified signature, or undefined if the partition cannot give one. Never rejects. */
  sign(message: Uint8Array): Promise<Uint8Array | undefined>;
}

export interface PartitionsOptions<Algorithm extends KeyAlgorithm = SignatureAlgorithm>
  extends Partial<Omit<PartitionTimes, 'signTimeoutMs'>> {
  partitions: PartitionOptions[];
  /** The keys the log was made with; each partition must present the one of its region and key label. */
  keys: HeldKey<Algorithm>[];
  /** Which partitions must sign for a signature to count. */
  quorum: QuorumPolicy;
  signTimeoutMs: number;
  logger: Logger;
  /** Told of every verified signature, probes too, and how long the token took; must not throw. */
  onSigned?(key: HeldKey<Algorithm>, durationMs: number): void;
}

const START_TIMEOUT_MS = 10_000;
/** A small HSM searches for the primes of an RSA key for a while. */
const GENERATE_TIMEOUT_MS = 120_000;
const PROBE_INTERVAL_MS = 10_000;

/** What a caller refused for want of a quorum is told to wait; a partition that returns is back sooner. */
const RETRY_AFTER_SECONDS = 5;

/**
 * Starts every partition and resolves when each is ready or has failed its first start. Throws OperatorError, and leaves
 * nothing running, for what only an administrator can mend: a changed or lost key, a refused PIN, a missing module. A
 * token that cannot be reached is reported and retried, even if it is every one of them.
 */
export async function openPartitions<Algorithm extends KeyAlgorithm = SignatureAlgorithm>(
  options: PartitionsOptions<Algorithm>,
): Promise<Partitions<Algorithm>> {
  const { partitions, keys, quorum, signTimeoutMs, logger } = options;
  const times = {
    signTimeoutMs,
    startTimeoutMs: options.startTimeoutMs ?? START_TIMEOUT_MS,
    probeIntervalMs: options.probeIntervalMs ?? PROBE_INTERVAL_MS,
  };
  const pairs = partitions.map((token) => ({ token, key: keyOf(token, keys) }));
  checkQuorum(pairs, quorum);

  const changes = new EventEmitter().setMaxListeners(0);
  const members = pairs.map(
    ({ token, key }) =>
      new Partition(key, token, times, logger, {
        changed: () => changes.emit('change'),
        signed: (durationMs) => options.onSigned?.(key, durationMs),
      }),
  );
  const opened = new Partitions(members, quorum, changes);
  const failures = await Promise.all(members.map((member) => member.started));
  const errors = pairs.flatMap(({ token }, index) => {
    const failure = failures[index];
    const mendable = failure !== undefined && remedyFor(failure) !== undefined;
    return mendable ? [describeFailure(token.region, token, failure)] : [];
  });
  if (errors.length > 0) {
    await opened.close();
    throw new OperatorError(errors.join('\n'));
  }
  return opened;
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
   * One verified signature of every healthy partition, in the order of the configuration; as slow as the slowest, and
   * never slower than twice `signTimeoutMs`. Throws ServiceError `kms_partition_unavailable` below the quorum.
   */
  async sign(message: Uint8Array): Promise<PartitionSignature<Algorithm>[]> {
    if (!this.canSign()) throw belowQuorum();
    const signatures = new Map<HeldKey<Algorithm>, Uint8Array>();
    await this.#collect(message, signatures);
    // One may have returned while another was lost: at no time were too few healthy, so nobody need be refused.
    if (!this.#suffice(signatures)) await this.#collect(message, signatures);
    if (!this.#suffice(signatures)) throw belowQuorum();
    return this.#members.flatMap(({ key }) => {
      const signature = signatures.get(key);
      return signature === undefined ? [] : [{ ...key, signature }];
    });
  }

  #suffice(signatures: Map<HeldKey<Algorithm>, Uint8Array>): boolean {
    return meetsQuorum(this.#quorum, [...signatures.keys()]);
  }

  /** Asks every partition that is healthy now and has not signed yet. */
  async #collect(message: Uint8Array, signatures: Map<HeldKey<Algorithm>, Uint8Array>): Promise<void> {
    const asked = this.#members.filter((member) => member.ready && !signatures.has(member.key));
    await Promise.all(
      asked.map(async (member) => {
        const signature = await member.sign(message);
        if (signature !== undefined) signatures.set(member.key, signature);
      }),
    );
  }

  /** Each partition by itself, in the order of the configuration. */
  get signers(): readonly PartitionSigner<Algorithm>[] {
    return this.#members;
  }

  /** Whether enough partitions are healthy, as far as is known without asking them. */
  canSign(): boolean {
    const ready = this.#members.filter((member) => member.ready);
    return meetsQuorum(
      this.#quorum,
      ready.map(({ key }) => key),
    );
  }

  /** Resolves as soon as {@link canSign}, or when the signal aborts. Never rejects. */
  async recovered(signal: AbortSignal): Promise<void> {
    while (!this.canSign() && !signal.aborted) {
      await once(this.#changes, 'change', { signal }).catch(() => {});
    }
  }

  /** In the order of the configuration. */
  status(): PartitionStatus[] {
    return this.#members.map((member) => member.status());
  }

  /**
   * Takes a partition out of service on purpose, as a loss of its token would, until {@link restore}. Throws ServiceError
   * `not_found`, `partition_not_ready` where it signs nothing anyway, and `below_quorum` where too few would be left.
   */
  async withdraw(name: string, { belowQuorum = false } = {}): Promise<void> {
    const member = this.#named(name);
    const keepQuorum = () => {
      const left = this.#members.filter((other) => other.ready && other !== member).map(({ key }) => key);
      if (!meetsQuorum(this.#quorum, left) && !belowQuorum) throw wouldBreakQuorum(left, this.#quorum);
    };
    if (await member.withdraw(keepQuorum)) return;
    const { state } = member.status();
    throw new ServiceError(
      'partition_not_ready',
      `${name} is ${state}: only a partition that signs is withdrawn.`,
    );
  }

  /** Puts it back into service; nothing happens to one that was not withdrawn. Throws ServiceError `not_found`. */
  async restore(name: string): Promise<void> {
    await this.#named(name).restore();
  }

  /** `<region>/<key label>` of a partition that is named so, or by its region alone. Throws ServiceError `not_found`. */
  nameOf(name: string): string {
    const { region, keyLabel } = this.#named(name).key;
    return `${region}/${keyLabel}`;
  }

  #named(name: string): Partition<HeldKey<Algorithm>> {
    const [member, ...others] = this.#members.filter(
      ({ key }) => name === key.region || name === `${key.region}/${key.keyLabel}`,
    );
    if (member !== undefined && others.length === 0) return member;
    const known = this.#members.map(({ key }) => `${key.region}/${key.keyLabel}`).join(', ');
    throw new ServiceError(
      'not_found',
      `There is not exactly one partition of that name; there are ${known}.`,
    );
  }

  /** Logs out everywhere; no child is left when it resolves. */
  async close(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.close()));
  }
}

/** A key as it is found on a token. */
export type KeyInspection = HeldKey & KeyProtection;

/** Signs with the partition's key; verified. Throws SignerFailure. */
export type Sign = (message: Uint8Array) => Promise<Uint8Array>;

/**
 * Makes a key pair in the token: private, sensitive, not extractable, and checked to be so. Throws OperatorError, also when
 * a key of that label exists.
 */
export function initKey<Algorithm extends KeyAlgorithm>(
  options: PartitionOptions,
  algorithm: Algorithm,
): Promise<HeldKey<Algorithm>> {
  return withSigner(options, 'write', async (signer) => {
    const { spki } = await signer.generateKey(algorithm, GENERATE_TIMEOUT_MS);
    return (await provenKey(options, signer, { algorithm, spki })).key;
  });
}

/** The log key a partition holds, proven by a signature. Throws OperatorError when there is none. */
export function readKey(options: PartitionOptions): Promise<LogKey> {
  return useKey(options, async ({ algorithm, ...key }) => {
    if (algorithm !== 'rsa-3072') return { ...key, algorithm };
    throw new SignerFailure('key_unsupported', 'the key is RSA, which signs no log');
  });
}

/**
 * Opens a partition just for `use`, which gets its key, proven by a signature, and may sign with it. Throws
 * OperatorError when the partition fails; what else `use` throws passes as it is.
 */
export function useKey<Result>(
  options: PartitionOptions,
  use: (key: HeldKey, sign: Sign) => Promise<Result>,
): Promise<Result> {
  return withSigner(options, 'read', async (signer) => {
    const { key, sign } = await provenKey(options, signer, await signer.findKey(START_TIMEOUT_MS));
    return use(key, sign);
  });
}

/** A key, proven by a signature, and how its token keeps it. Throws OperatorError when there is none. */
export function inspectKey(options: PartitionOptions): Promise<KeyInspection> {
  return withSigner(options, 'read', async (signer) => {
    const { key } = await provenKey(options, signer, await signer.findKey(START_TIMEOUT_MS));
    return { ...key, ...(await signer.inspectKey(START_TIMEOUT_MS)) };
  });
}

async function withSigner<Result>(
  options: PartitionOptions,
  access: TokenAccess,
  use: (signer: SignerProcess) => Promise<Result>,
): Promise<Result> {
  const signer = new SignerProcess(options, options.region, () => {});
  try {
    await signer.connect(options, access, START_TIMEOUT_MS);
    await signer.logIn(START_TIMEOUT_MS);
    return await use(signer);
  } catch (cause) {
    if (!(cause instanceof SignerFailure)) throw cause;
    throw new OperatorError(describeFailure(options.region, options, cause), { cause });
  } finally {
    await signer.close();
  }
}

async function provenKey<Algorithm extends KeyAlgorithm>(
  { region, keyLabel }: PartitionOptions,
  signer: SignerProcess,
  found: PublicKey<Algorithm>,
): Promise<{ key: HeldKey<Algorithm>; sign: Sign }> {
  const key = { region, keyLabel, ...found };
  const verify = verifierOf(key);
  const sign = async (message: Uint8Array) => {
    const signature = await signer.sign(message, START_TIMEOUT_MS);
    if (await verify(message, signature)) return signature;
    throw new SignerFailure('key_unpaired', 'private and public key of that label are no pair');
  };
  await sign(probeMessage());
  return { key, sign };
}

function keyOf<Algorithm extends KeyAlgorithm>(
  { region, keyLabel }: PartitionOptions,
  keys: HeldKey<Algorithm>[],
): HeldKey<Algorithm> {
  const key = keys.find((candidate) => candidate.region === region && candidate.keyLabel === keyLabel);
  if (key !== undefined) return key;
  throw new OperatorError(
    `kms.partitions: this log has no key "${keyLabel}" of region ${region}; partitions are fixed when the log is made`,
  );
}

/** A quorum counts independent signatures, so a key may stand behind one partition only. */
function checkQuorum(pairs: { key: HeldKey }[], quorum: QuorumPolicy): void {
  if (new Set(pairs.map(({ key }) => key.spki)).size !== pairs.length) {
    throw new OperatorError('kms.partitions: two partitions name the same key; each needs its own');
  }
  const fault = quorumFault(
    quorum,
    pairs.map(({ key }) => key),
  );
  if (fault !== undefined) throw new OperatorError(`kms.quorum: ${fault}`);
}

/** What a caller is told while nothing can be signed. */
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
    `Without it ${left.length} partitions would sign, and ${encodeQuorum(quorum)} must: nothing could be sealed. Allow that, or mend the others first.`,
  );
}
