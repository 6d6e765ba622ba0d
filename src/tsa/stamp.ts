import { randomBytes } from 'node:crypto';
import type { Certificate } from '../asn1/certificate.ts';
import { MalformedDer, unsignedContent } from '../asn1/der.ts';
import { encodeQuery } from '../asn1/timestampQuery.ts';
import { parseResponse, type TimestampResponse } from '../asn1/timestampResponse.ts';
import { type VerifiedTimestamp, verifyTimestampToken } from '../asn1/timestampToken.ts';
import { toRfc3339 } from '../base/clock.ts';
import type { TrustedClock } from './trustedClock.ts';
import { TimestampUnavailable } from './unavailable.ts';

/** Whoever answers time-stamp queries: the built-in authority, or one elsewhere. */
export interface TimestampAuthority {
  readonly name: string;
  /** The only certificates its tokens may chain up to. */
  readonly roots: readonly Certificate[];
  /** DER of certificates that it may leave out of its tokens. */
  readonly intermediates: readonly Uint8Array[];
  /** The policy to ask for; its own where it is left out. */
  readonly policy?: string | undefined;
  /** A TimeStampResp in DER, as yet unverified. May throw TimestampUnavailable, as it does soon when the signal aborts. */
  answerQuery(query: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>;
}

/** A token that was verified as any verifier would. */
export interface Stamp {
  /** DER, with the certificates it needs inside, as far as the authority sends them. */
  token: Uint8Array;
  /** Name of the authority in the configuration. */
  authorityName: string;
  timestamp: VerifiedTimestamp;
}

const NONCE_BYTES = 8;
/** Many authorities give whole seconds, and some no accuracy at all. */
const GRANULARITY_MS = 1000;

/**
 * One token over a SHA-512 digest (64 bytes) from one authority, wholly verified: imprint, nonce, policy, signature,
 * certificates up to a root configured for it, and its time against our own. Throws TimestampUnavailable.
 */
export async function requestStamp(
  authority: TimestampAuthority,
  digest: Uint8Array,
  clock: Pick<TrustedClock, 'now' | 'accuracyMs'>,
  signal?: AbortSignal,
): Promise<Stamp> {
  const nonce = unsignedContent(randomBytes(NONCE_BYTES));
  const { policy } = authority;
  const imprint = { algorithm: 'sha512', digest } as const;
  const askedAt = clock.now();
  const query = encodeQuery({ imprint, policy, nonce, certReq: true });
  const response = await authority.answerQuery(query, signal);
  const token = tokenOf(response);
  const verdict = verifyTimestampToken({
    token,
    messageImprint: imprint,
    trustedRoots: authority.roots,
    certificates: authority.intermediates,
    nonce,
    ...(policy !== undefined && { policy }),
  });
  if (verdict.outcome === 'bad') {
    throw new TimestampUnavailable('token_invalid', `its token: ${verdict.detail} (${verdict.fault})`);
  }
  checkWindow(verdict.timestamp, askedAt, clock.now(), clock.accuracyMs);
  return { token, authorityName: authority.name, timestamp: verdict.timestamp };
}

function tokenOf(response: Uint8Array): Uint8Array {
  let parsed: TimestampResponse;
  try {
    parsed = parseResponse(response);
  } catch (cause) {
    if (!(cause instanceof MalformedDer)) throw cause;
    throw new TimestampUnavailable('token_invalid', `its response: ${cause.message}`, { cause });
  }
  if (parsed.token !== undefined) return parsed.token;
  const reasons = [parsed.status, ...parsed.failures, parsed.text].filter((text) => text !== '').join(', ');
  throw new TimestampUnavailable('authority_refused', `refused: ${reasons}`);
}

/** The token's time must be between question and answer, as far as both clocks promise. */
function checkWindow(
  { genTime, accuracyMs }: VerifiedTimestamp,
  askedAt: number,
  answeredAt: number,
  ownAccuracyMs: number,
): void {
  const slackMs = ownAccuracyMs + (accuracyMs ?? GRANULARITY_MS);
  if (genTime >= askedAt - slackMs - GRANULARITY_MS && genTime <= answeredAt + slackMs) return;
  const detail = `its token is of ${toRfc3339(genTime)}, but here it is ${toRfc3339(answeredAt)}`;
  throw new TimestampUnavailable('token_invalid', detail);
}
