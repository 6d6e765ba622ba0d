/** Files for an external time-stamp authority: the query for the root of a renewal, and the answer (RFC 3161, section 3.1). */
import { MalformedDer, unsignedContent } from '../../asn1/der.ts';
import { encodeQuery } from '../../asn1/timestampQuery.ts';
import { parseResponse } from '../../asn1/timestampResponse.ts';
import { parseTimestampToken, verifyTimestampToken } from '../../asn1/timestampToken.ts';
import { bytesEqual, fromHex, toBase64, toHex } from '../../base/bytes.ts';
import { OperatorError } from '../../base/errors.ts';
import { randomIdBytes } from '../../base/random.ts';
import { printable } from '../../manifest/received.ts';
import type { TrustedAuthority } from '../../manifest/trustFile.ts';
import type { RenewalToken } from '../../store/renewalStore.ts';
import { rootsOf } from '../verify/timestampCheck.ts';
import type { DraftedRun } from './renewalRun.ts';

const NONCE_BYTES = 8;

/** In hex, as stored in a draft. */
export function newNonce(): string {
  return toHex(unsignedContent(randomIdBytes(NONCE_BYTES)));
}

export function encodeRenewalQuery({ scope, root }: DraftedRun, nonce: string): Uint8Array {
  const imprint = { algorithm: scope.digest, digest: root };
  return encodeQuery({ imprint, nonce: fromHex(nonce), certReq: true });
}

/**
 * The token in the answer to {@link encodeRenewalQuery}, with the name of its authority. Throws OperatorError if the answer does not grant
 * a token, answers another query, or contains a token for which no root in the trust file vouches.
 */
export function readRenewalAnswer(
  answer: Uint8Array,
  { scope, root }: DraftedRun,
  nonce: string,
  authorities: readonly TrustedAuthority[],
): RenewalToken {
  const token = grantedToken(answer);
  const verdict = verifyTimestampToken({
    token,
    messageImprint: { algorithm: scope.digest, digest: root },
    trustedRoots: rootsOf(authorities),
    nonce: fromHex(nonce),
  });
  if (verdict.outcome === 'bad') {
    const remedy =
      verdict.fault === 'untrusted'
        ? 'name the authority in a [timestamp.remotes] table, with its roots_file; it needs no url'
        : 'carry the newest query to the authority: pdfseal renew request >query.tsq';
    throw new OperatorError(`the token in the answer is not a proof: ${printable(verdict.detail)}`, {
      remedy,
    });
  }
  const { chain } = verdict.timestamp;
  const last = chain.at(-1);
  const name = authorities.find(({ root }) => last && bytesEqual(root.der, last))?.name ?? '';
  return { authority: name, token: toBase64(token), certificates: chain.slice(0, -1).map(toBase64) };
}

function grantedToken(answer: Uint8Array): Uint8Array {
  try {
    const { token, status, failures, text } = parseResponse(answer);
    if (token !== undefined) {
      parseTimestampToken(token);
      return token;
    }
    const reasons = [status, ...failures, text].filter((one) => one !== '').join(', ');
    throw new OperatorError(`the authority refused: ${printable(reasons)}`);
  } catch (cause) {
    if (!(cause instanceof MalformedDer)) throw cause;
    const remedy = 'give the answer as the authority sent it, in DER (openssl ts -reply, or curl --output)';
    throw new OperatorError(`this is not the answer of a time-stamp authority: ${cause.message}`, {
      cause,
      remedy,
    });
  }
}
