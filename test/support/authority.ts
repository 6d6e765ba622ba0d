import { generateKeyPairSync, sign } from 'node:crypto';
import { pino } from 'pino';
import type { Certificate } from '../../src/asn1/certificate.ts';
import { type AuthorityAlgorithm, signingDigest } from '../../src/asn1/signatureAlgorithm.ts';
import { encodeQuery, type MessageImprint } from '../../src/asn1/timestampQuery.ts';
import { parseResponse } from '../../src/asn1/timestampResponse.ts';
import { sha512 } from '../../src/base/crypto.ts';
import { type BuiltInAuthority, openAuthority, type TimestampUnit } from '../../src/tsa/builtInAuthority.ts';
import { issueRoot, issueTimestampingCertificate, type KeyInUse } from '../../src/tsa/pki.ts';
import { TimestampUnavailable } from '../../src/tsa/unavailable.ts';

export const DAY_MS = 86_400_000;
/** When the tests' certificates begin, and a moment within them. */
export const BEGIN = Date.parse('2026-01-01T00:00:00Z');
export const NOON = Date.parse('2026-03-04T12:00:00.120Z');
export const POLICY = '1.3.6.1.4.1.99999.1.2';

export const DOCUMENT = Buffer.from('what is stamped');
export const IMPRINT: MessageImprint = { algorithm: 'sha512', digest: sha512(DOCUMENT) };
export const SILENT = pino({ level: 'silent' });

/** A key whose private half is at hand, as an HSM's never is. */
export function softKey(algorithm: AuthorityAlgorithm): KeyInUse {
  const pair = algorithm.startsWith('rsa-')
    ? generateKeyPairSync('rsa', { modulusLength: Number(algorithm.slice('rsa-'.length)) })
    : generateKeyPairSync('ec', { namedCurve: algorithm === 'ecdsa-p384' ? 'P-384' : 'P-256' });
  const spki = pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  const digest = signingDigest(algorithm);
  return { key: { algorithm, spki }, sign: async (message) => sign(digest, message, pair.privateKey) };
}

/** A clock that stands, can be set, and can be distrusted. */
export class HeldClock {
  readonly accuracyMs: number;
  time: number;
  trusted = true;

  constructor(time = NOON, accuracyMs = 1000) {
    this.time = time;
    this.accuracyMs = accuracyMs;
  }

  now(): number {
    if (!this.trusted) throw new TimestampUnavailable('clock_unsynchronized', 'held to be wrong');
    return this.time;
  }
}

export interface Pki {
  rootKey: KeyInUse;
  root: Certificate;
  unitKey: KeyInUse;
  unit: TimestampUnit;
  certificate: Certificate;
}

/** A root and one time-stamping unit below it, the latter valid for a year. */
export async function makePki(
  algorithm: AuthorityAlgorithm = 'ecdsa-p256',
  organization = 'Muster & Söhne',
): Promise<Pki> {
  const [rootKey, unitKey] = [softKey(algorithm), softKey(algorithm)];
  const root = await issueRoot(
    {
      subject: { country: 'DE', organization, commonName: 'Root' },
      notBefore: BEGIN,
      notAfter: BEGIN + 9000 * DAY_MS,
    },
    rootKey,
  );
  const certificate = await issueTimestampingCertificate(
    {
      subject: { organization, organizationalUnit: 'Time', commonName: 'TSU 1' },
      key: unitKey.key,
      issuer: root,
      notBefore: BEGIN,
      notAfter: BEGIN + 365 * DAY_MS,
    },
    rootKey,
  );
  const unit = { signer: { ...unitKey, ready: true }, chain: [certificate, root] };
  return { rootKey, root, unitKey, unit, certificate };
}

export function makeAuthority(units: readonly TimestampUnit[], clock = new HeldClock()): BuiltInAuthority {
  return openAuthority({ units, policy: POLICY, clock, logger: SILENT });
}

/** A token over {@link IMPRINT}, or over another. */
export async function makeToken(
  authority: BuiltInAuthority,
  query: Partial<Parameters<typeof encodeQuery>[0]> = {},
): Promise<Buffer> {
  const response = await authority.answerQuery(encodeQuery({ imprint: IMPRINT, certReq: true, ...query }));
  const { token, failures, text } = parseResponse(response);
  if (token === undefined) throw new Error(`no token: ${failures.join()} ${text}`);
  return Buffer.from(token);
}
