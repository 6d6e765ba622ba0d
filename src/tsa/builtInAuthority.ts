import type { Logger } from 'pino';
import { type Certificate, describeSubject, isValidAt, timestampingFault } from '../asn1/certificate.ts';
import { encodeSignedAttributes, encodeSignedData } from '../asn1/cms.ts';
import { MalformedDer } from '../asn1/der.ts';
import { isOid, OID } from '../asn1/oid.ts';
import { type AuthorityAlgorithm, signingDigest } from '../asn1/signatureAlgorithm.ts';
import {
  encodeTstInfo,
  parseQuery,
  type TimestampQuery,
  UnsupportedVersion,
} from '../asn1/timestampQuery.ts';
import { encodeGranted, encodeRejection, type FailureInfo } from '../asn1/timestampResponse.ts';
import { toBase64 } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';
import { newSerial } from './serial.ts';
import type { TrustedClock } from './trustedClock.ts';
import { TimestampUnavailable } from './unavailable.ts';

/** Maximum length of a query that the authority reads. Standard clients send about 100 bytes. */
export const QUERY_BYTES_MAX = 4096;

/** A key in an HSM. */
export interface UnitSigner {
  readonly key: { algorithm: AuthorityAlgorithm; spki: string };
  readonly ready: boolean;
  /**
   * Signs the signed attributes of a TSTInfo and a certificate, in DER; the result is already verified. Undefined if the key cannot sign.
   */
  sign(
    signedAttributes: Uint8Array,
    content: Uint8Array,
    certificate: Uint8Array,
  ): Promise<Uint8Array | undefined>;
}

/** A time-stamping unit: a key and its certificate chain, the root last. */
export interface TimestampUnit {
  signer: UnitSigner;
  chain: readonly Certificate[];
  /** Whether a certificate of the chain was revoked: then the unit stamps nothing. */
  isRevoked?: () => boolean;
}

export interface AuthorityOptions {
  /** In order of preference. If a unit cannot sign, the next one does. */
  units: readonly TimestampUnit[];
  /** The policy of every token, and the only one that a query can ask for; dotted object identifier. */
  policy: string;
  clock: Pick<TrustedClock, 'now' | 'accuracyMs'>;
  logger: Logger;
}

export interface UnitStatus {
  /** Subject of the unit's certificate. */
  authority: string;
  ready: boolean;
  /** Whether a certificate of its chain was revoked, so that it is not ready. */
  isRevoked: boolean;
  /** When the first certificate of the unit's chain expires; milliseconds since the epoch. */
  notAfter: number;
}

/** Why the authority rejects a query, in the words sent to the client. */
class Refusal extends Error {
  readonly failure: FailureInfo;

  constructor(failure: FailureInfo, text: string) {
    super(text);
    this.name = 'Refusal';
    this.failure = failure;
  }
}

/** Throws OperatorError if a unit's certificate is for another key, or not for time-stamping. */
export function openAuthority(options: AuthorityOptions): BuiltInAuthority {
  if (!isOid(options.policy))
    throw new OperatorError(`timestamp policy ${options.policy}: not an object identifier`);
  if (options.units.length === 0) throw new OperatorError('the built-in time-stamp authority has no key');
  for (const { signer, chain } of options.units) {
    const [certificate] = chain;
    if (certificate === undefined)
      throw new OperatorError('a time-stamping key has no certificate: install one');
    const mistake =
      toBase64(certificate.spki) === signer.key.spki ? timestampingFault(certificate) : 'is for another key';
    if (mistake !== undefined) {
      throw new OperatorError(`the time-stamping certificate ${describeSubject(certificate)} ${mistake}`);
    }
  }
  return new BuiltInAuthority(options);
}

/** The built-in time-stamp authority (RFC 3161, RFC 5816, profile ETSI EN 319 422). Its only state is the child processes of its keys. */
export class BuiltInAuthority {
  readonly name = 'built-in';
  /** The root certificates of its tokens. */
  readonly roots: readonly Certificate[];
  readonly #options: AuthorityOptions;

  /** Use {@link openAuthority}. */
  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.roots = options.units.flatMap(({ chain }) => chain.slice(-1));
  }

  /** The policy named in all its tokens. */
  get tokenPolicy(): string {
    return this.#options.policy;
  }

  /**
   * The TimeStampResp to a TimeStampReq, both in DER: granted, or rejected with a reason in the standard's own terms. The promise never
   * rejects, whatever the query contains.
   */
  async answerQuery(query: Uint8Array): Promise<Uint8Array> {
    try {
      return encodeGranted(await this.#stamp(this.#accept(query)));
    } catch (error) {
      const refusal = toRefusal(error);
      if (refusal.failure === 'systemFailure')
        this.#options.logger.error({ err: error }, 'no time-stamp given');
      return encodeRejection(refusal.failure, refusal.message);
    }
  }

  status(): UnitStatus[] {
    return this.#options.units.map(({ signer, chain, ...unit }) => {
      const isRevoked = unit.isRevoked?.() ?? false;
      return {
        authority: chain.slice(0, 1).map(describeSubject).join(),
        ready: signer.ready && !isRevoked,
        isRevoked,
        notAfter: Math.min(...chain.map(({ notAfter }) => notAfter)),
      };
    });
  }

  #accept(bytes: Uint8Array): TimestampQuery {
    if (bytes.length > QUERY_BYTES_MAX) throw new Refusal('badDataFormat', 'the query is too long');
    const query = parseQuery(bytes);
    if (query.imprint === undefined) {
      throw new Refusal('badAlg', 'the message imprint must be SHA-256, SHA-384 or SHA-512');
    }
    if (query.policy !== undefined && query.policy !== this.#options.policy) {
      throw new Refusal('unacceptedPolicy', `the only policy is ${this.#options.policy}`);
    }
    if (query.hasExtensions) throw new Refusal('unacceptedExtension', 'no extension is supported');
    return query;
  }

  async #stamp(query: TimestampQuery): Promise<Uint8Array> {
    const { units, policy, clock } = this.#options;
    const genTime = clock.now();
    const content = encodeTstInfo({
      policy,
      imprintDer: query.imprintDer,
      serial: newSerial(genTime),
      genTime,
      accuracyMs: clock.accuracyMs,
      nonce: query.nonce,
    });
    for (const { signer, chain, isRevoked } of units) {
      const [certificate] = chain;
      if (isRevoked?.() || certificate === undefined || !chain.every((each) => isValidAt(each, genTime)))
        continue;
      const signedAttributes = encodeSignedAttributes(
        OID.tstInfo,
        content,
        certificate,
        signingDigest(signer.key.algorithm),
      );
      const signature = await signer.sign(signedAttributes, content, certificate.der);
      if (signature === undefined) continue;
      return encodeSignedData({
        contentType: OID.tstInfo,
        content,
        signedAttributes,
        signature,
        algorithm: signer.key.algorithm,
        certificate,
        // The verifier already has the root.
        certificates: query.certReq ? chain.slice(0, Math.max(1, chain.length - 1)) : [],
      });
    }
    const revoked = this.status().filter((unit) => unit.isRevoked);
    const why = revoked.map(({ authority }) => `; ${authority} was revoked`).join('');
    throw new Refusal('systemFailure', `no time-stamping key can sign at the moment${why}`);
  }
}

function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof MalformedDer) return new Refusal('badDataFormat', error.message);
  if (error instanceof UnsupportedVersion) return new Refusal('badRequest', error.message);
  if (error instanceof TimestampUnavailable) {
    return new Refusal('timeNotAvailable', 'the time source cannot be trusted at the moment');
  }
  return new Refusal('systemFailure', 'the authority failed');
}
