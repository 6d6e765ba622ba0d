import { revocationsIn } from '../asn1/revocationList.ts';
import type { AuthorityAlgorithm } from '../asn1/signatureAlgorithm.ts';
import { bearsOut, checkpointImprint, predates } from '../asn1/stamping.ts';
import type { MessageImprint } from '../asn1/timestampQuery.ts';
import { parseTimestampToken } from '../asn1/timestampToken.ts';
import { toBase64 } from '../base/bytes.ts';
import { tokenOrder } from '../kms/order.ts';
import {
  openPartitions,
  type PartitionOptions,
  type PartitionSigner,
  type PartitionsOptions,
} from '../kms/partitions.ts';
import type { Term } from '../log/epochs.ts';
import type { RenewalToken } from '../store/renewalStore.ts';
import type { Batch, BatchTimestamp } from '../store/store.ts';
import {
  type BuiltInAuthority,
  openAuthority,
  type UnitSigner,
  type UnitStatus,
} from '../tsa/builtInAuthority.ts';
import { readInstalled } from '../tsa/installed.ts';
import { certificatesIn } from '../tsa/pki.ts';
import { remoteAuthority } from '../tsa/remoteAuthority.ts';
import { followRevocationLists } from '../tsa/revocationFiles.ts';
import { GRANULARITY_MS, type TimestampAuthority } from '../tsa/stamp.ts';
import { type AuthorityStatus, Timestamps } from '../tsa/timestamps.ts';
import type { ClockStatus, TrustedClock } from '../tsa/trustedClock.ts';
import { TimestampUnavailable } from '../tsa/unavailable.ts';
import type { HttpExchange } from '../web/httpClient.ts';

export interface RemoteOptions {
  /** Undefined if it is reached only by file. */
  url?: string;
  timeoutMs: number;
  /** PEM files. */
  rootsFile: string;
  policy?: string;
}

export interface TimestampingOptions
  extends Pick<PartitionsOptions, 'sessions' | 'signTimeoutMs' | 'onRefused' | 'logger'> {
  /** Names in order of preference: `built-in`, or one of `remotes`. */
  authorities: readonly string[];
  remotes: Readonly<Record<string, RemoteOptions>>;
  /** Returns the HTTP client for the authority of that name. */
  clientOf(name: string): HttpExchange;
  /** The keys of the built-in authority, and where their certificates are installed. */
  keys: readonly PartitionOptions[];
  certificatesDir: string;
  policy: string;
  clock: TrustedClock;
}

export interface TimestampingStatus {
  clock: ClockStatus;
  authorities: AuthorityStatus[];
  /** The keys of the built-in authority; empty if it is not in use. */
  units: UnitStatus[];
}

/** A token over the root of a renewal. */
export interface RenewalStamp extends RenewalToken {
  /** The time in the token, and when the first of its certificates expires; milliseconds since the epoch. */
  genTime: number;
  notAfter: number;
}

/** Time-stamps checkpoints, with a trusted clock and with the authorities in order of preference. */
export class Timestamping {
  /** Absent if the built-in authority is not configured. */
  readonly authority: BuiltInAuthority | undefined;
  readonly #clock: TrustedClock;
  readonly #timestamps: Timestamps;

  constructor(clock: TrustedClock, timestamps: Timestamps, authority: BuiltInAuthority | undefined) {
    this.authority = authority;
    this.#clock = clock;
    this.#timestamps = timestamps;
  }

  /**
   * A verified token over the signed checkpoint; undefined if its time is outside the epoch of `sealedAt`, because verifiers would reject
   * it. Throws TimestampUnavailable if no authority answers, if the signal aborts, or if verifiers would reject the token because too much
   * time has passed since `sealedAt` (the process was suspended) or because the token is too much older.
   */
  async stamp(
    note: string,
    sealedAt: number,
    { epoch, end }: Term,
    signal?: AbortSignal,
  ): Promise<BatchTimestamp | undefined> {
    const { token, timestamp } = await this.#timestamps.stamp(checkpointImprint(note).digest, signal);
    if (!bearsOut(timestamp, sealedAt) || predates(timestamp, sealedAt)) {
      throw new TimestampUnavailable(
        'token_invalid',
        'the time of the time-stamp does not fit the time of the batch',
      );
    }
    if (timestamp.genTime < epoch.from || timestamp.genTime >= end) return undefined;
    // The verifier already has the root; a copy from us would not prove anything.
    return { token: toBase64(token), certificates: timestamp.chain.slice(0, -1).map(toBase64) };
  }

  /** A verified token over the root of a renewal, from the named authority. Throws TimestampUnavailable. */
  async renew(imprint: MessageImprint, authority: string, signal: AbortSignal): Promise<RenewalStamp> {
    const stamp = await this.#timestamps.stampBy(authority, imprint, signal);
    const { chain, genTime, notAfter } = stamp.timestamp;
    const certificates = chain.slice(0, -1).map(toBase64);
    return { authority: stamp.authorityName, token: toBase64(stamp.token), certificates, genTime, notAfter };
  }

  /** See {@link TrustedClock.acceptDate}. */
  acceptDate(): { from: number; to: number } {
    return this.#clock.acceptDate();
  }

  canStamp(): boolean {
    return this.#timestamps.canStamp();
  }

  /** Resolves as soon as {@link canStamp}, or when the signal aborts. Never rejects. */
  recovered(signal: AbortSignal): Promise<void> {
    return this.#timestamps.recovered(signal);
  }

  status(): TimestampingStatus {
    return { ...this.#timestamps.status(), units: this.authority?.status() ?? [] };
  }

  /** Passes the newest time in the log to the clock, which does not trust earlier times from then on. */
  sealed(batch: Pick<Batch, 'sealedAt' | 'timestamp'>): void {
    this.#clock.raiseFloor(newestTimeOf(batch, this.authority?.tokenPolicy));
  }
}

/**
 * When a batch was sealed or, if later, the time in its token; milliseconds since the epoch. 0 if there is no batch. The clock of an
 * authority other than the built-in one, whose policy is `builtInPolicy`, can be ahead of ours while both are correct: its time counts only
 * as far as it is certainly past.
 */
export function newestTimeOf(
  batch: Pick<Batch, 'sealedAt' | 'timestamp'> | undefined,
  builtInPolicy: string | undefined,
): number {
  const { sealedAt = 0, timestamp } = batch ?? {};
  if (timestamp === undefined) return sealedAt;
  const { info } = parseTimestampToken(Buffer.from(timestamp.token, 'base64'));
  const accuracyMs = info.policy === builtInPolicy ? 0 : (info.accuracyMs ?? GRANULARITY_MS);
  return Math.max(sealedAt, info.genTime - accuracyMs);
}

/**
 * Opens keys and authorities. The caller closes what `adopt` receives, in reverse order. Throws OperatorError for a key without a
 * certificate, an unreadable certificate file, or a changed or lost key.
 */
export async function openTimestamping(
  options: TimestampingOptions,
  adopt: (close: () => void | Promise<void>) => void,
): Promise<Timestamping> {
  const { authorities, clock, logger } = options;
  const builtIn = authorities.includes(BUILT_IN) ? await openBuiltIn(options, adopt) : undefined;
  const inOrder = authorities.flatMap((name): TimestampAuthority[] => {
    if (name === BUILT_IN) return builtIn ? [builtIn] : [];
    const remote = options.remotes[name];
    if (remote?.url === undefined) return [];
    const { timeoutMs, policy } = remote;
    const [url, roots] = [new URL(remote.url), certificatesIn(remote.rootsFile)];
    const client = options.clientOf(name);
    adopt(() => client.close());
    return [remoteAuthority({ name, url, timeoutMs, roots, policy, client })];
  });
  return new Timestamping(clock, new Timestamps({ authorities: inOrder, clock, logger }), builtIn);
}

const BUILT_IN = 'built-in';

async function openBuiltIn(
  { keys, certificatesDir, policy, sessions, signTimeoutMs, onRefused, clock, logger }: TimestampingOptions,
  adopt: (close: () => Promise<void>) => void,
): Promise<BuiltInAuthority> {
  const installed = keys.map((token) => readInstalled(certificatesDir, token));
  const partitions = await openPartitions<AuthorityAlgorithm>({
    partitions: [...keys],
    keys: installed.map(({ key }) => key),
    quorum: { needed: 1 },
    duties: { timestamps: { policy, accuracyMs: clock.accuracyMs } },
    sessions,
    signTimeoutMs,
    onRefused,
    logger,
  });
  adopt(() => partitions.close());
  const lists = followRevocationLists(certificatesDir);
  const units = partitions.signers.map((signer, index) => {
    const chain = installed[index]?.chain ?? [];
    return { signer: unitSigner(signer), chain, isRevoked: () => revocationsIn(chain, lists()).length > 0 };
  });
  return openAuthority({ units, policy, clock, logger });
}

/** A partition with a key of the built-in authority, in the form that the authority uses. */
export function unitSigner(signer: PartitionSigner<AuthorityAlgorithm>): UnitSigner {
  return {
    key: signer.key,
    get ready() {
      return signer.ready;
    },
    sign: (signedAttributes, content, certificate) =>
      signer.sign(tokenOrder(signedAttributes, content, certificate)),
  };
}
