import type { Certificate } from '../asn1/certificate.ts';
import { MalformedDer, unsignedContent } from '../asn1/der.ts';
import { accuracyFault } from '../asn1/stamping.ts';
import { encodeQuery, type MessageImprint } from '../asn1/timestampQuery.ts';
import { parseResponse, type TimestampResponse } from '../asn1/timestampResponse.ts';
import { type VerifiedTimestamp, verifyTimestampToken } from '../asn1/timestampToken.ts';
import { toRfc3339 } from '../base/clock.ts';
import { randomIdBytes } from '../base/random.ts';
import type { TrustedClock } from './trustedClock.ts';
import { TimestampUnavailable } from './unavailable.ts';

/** A time-stamp authority: the built-in one, or a remote one. */
export interface TimestampAuthority {
  /** The name in logs and status. */
  readonly name: string;
  /** The only roots that the authority's tokens can chain up to. */
  readonly roots: readonly Certificate[];
  /** The policy to ask for, a dotted object identifier. Without it, the authority uses its own. */
  readonly policy?: string | undefined;
  /** A TimeStampResp in DER, not verified yet. Can throw TimestampUnavailable, and does so soon after the signal aborts. */
  answerQuery(query: Uint8Array, signal?: AbortSignal): Promise<Uint8Array>;
}

/** A token that passed the same verification as in any verifier. */
export interface Stamp {
  /** DER, including the certificates that the authority sends. */
  token: Uint8Array;
  /** Name of the authority in the configuration. */
  authorityName: string;
  timestamp: VerifiedTimestamp;
}

const NONCE_BYTES = 8;
/** Many authorities state whole seconds, and some do not state an accuracy. */
export const GRANULARITY_MS = 1000;

/**
 * Gets one token over a digest from one authority and verifies it: imprint, nonce, policy, signature, certificates up to a root configured
 * for the authority, and its time against our clock. Throws TimestampUnavailable.
 */
export async function requestStamp(
  authority: TimestampAuthority,
  imprint: MessageImprint,
  clock: Pick<TrustedClock, 'now' | 'accuracyMs'>,
  signal?: AbortSignal,
): Promise<Stamp> {
  const nonce = unsignedContent(randomIdBytes(NONCE_BYTES));
  const { policy } = authority;
  const askedAt = clock.now();
  const query = encodeQuery({ imprint, policy, nonce, certReq: true });
  const response = await authority.answerQuery(query, signal);
  const token = tokenOf(response);
  const verdict = verifyTimestampToken({
    token,
    messageImprint: imprint,
    trustedRoots: authority.roots,
    nonce,
    policy,
  });
  if (verdict.outcome === 'bad') {
    throw new TimestampUnavailable('token_invalid', `its token: ${verdict.detail} (${verdict.fault})`);
  }
  const fault = accuracyFault(verdict.timestamp);
  if (fault !== undefined) throw new TimestampUnavailable('token_invalid', `its token ${fault}`);
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

/** The token's time must be between request and answer, within the accuracy of both clocks. */
function checkWindow(
  { genTime, accuracyMs }: VerifiedTimestamp,
  askedAt: number,
  answeredAt: number,
  ownAccuracyMs: number,
): void {
  const slackMs = ownAccuracyMs + (accuracyMs ?? GRANULARITY_MS);
  if (genTime >= askedAt - slackMs - GRANULARITY_MS && genTime <= answeredAt + slackMs) return;
  const detail = `its token says ${toRfc3339(genTime)}, but our clock says ${toRfc3339(answeredAt)}`;
  throw new TimestampUnavailable('token_invalid', detail);
}
