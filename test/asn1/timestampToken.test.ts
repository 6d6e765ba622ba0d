import t from 'tap';
import { type Certificate, parseCertificate } from '../../src/asn1/certificate.ts';
import { encodeSignedAttributes, encodeSignedData, parseSignedData } from '../../src/asn1/cms.ts';
import {
  constructed,
  contextTag,
  integer,
  MalformedDer,
  namedBits,
  octetString,
  oid,
  primitive,
  sequence,
  TAG,
} from '../../src/asn1/der.ts';
import { encodeSigned, encodeTimestampingTbs } from '../../src/asn1/issue.ts';
import { OID } from '../../src/asn1/oid.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { encodeTstInfo, parseTstInfo } from '../../src/asn1/timestampQuery.ts';
import {
  parseTimestampToken,
  type TokenVerification,
  verifyTimestampToken,
} from '../../src/asn1/timestampToken.ts';
import { toHex } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/crypto.ts';
import {
  BEGIN,
  DAY_MS,
  IMPRINT,
  makeAuthority,
  makePki,
  makeToken,
  NOON,
  type Pki,
  POLICY,
  softKey,
} from '../support/authority.ts';
import { partsOf } from '../support/der.ts';
import { fc, tries } from '../support/seed.ts';

const pki = await makePki();
const authority = makeAuthority([pki.unit]);
const NONCE = Buffer.from('7fee01', 'hex');
const token = await makeToken(authority, { nonce: NONCE });
const good: TokenVerification = { token, messageImprint: IMPRINT, trustedRoots: [pki.root] };

t.test('a good token proves time, authority and policy', async (t) => {
  const verdict = verifyTimestampToken({ ...good, nonce: NONCE, policy: POLICY });
  t.match(verdict, {
    outcome: 'good',
    timestamp: {
      genTime: NOON,
      accuracyMs: 1000,
      policy: POLICY,
      authority: 'O=Muster & Söhne, OU=Time, CN=TSU 1',
      chain: [pki.certificate.der, pki.root.der],
      notAfter: pki.certificate.notAfter,
    },
  });
});

t.test('the certificate of an authority can be pinned instead of a root', async (t) => {
  const verdict = verifyTimestampToken({ ...good, trustedRoots: [pki.certificate] });
  t.match(verdict, { outcome: 'good', timestamp: { chain: [pki.certificate.der] } });
});

t.test('a token answers a query only if it repeats its nonce', async (t) => {
  for (const [what, query] of Object.entries({ another: { nonce: Buffer.from([1]) }, none: {} })) {
    const other = await makeToken(authority, query);
    t.match(verifyTimestampToken({ ...good, token: other }), { outcome: 'good' });
    t.match(verifyTimestampToken({ ...good, token: other, nonce: NONCE }), { fault: 'nonce' }, what);
  }
});

/** The token with its TSTInfo, attributes or certificate changed, signed anew by the authority's key. */
async function forge(
  changes: {
    content?: Uint8Array;
    contentType?: string;
    certificate?: Certificate;
    named?: Certificate;
    extra?: Certificate[];
    attributes?: (der: Uint8Array) => Uint8Array;
  },
  by: Pki = pki,
): Promise<Uint8Array> {
  const certificate = changes.certificate ?? by.certificate;
  const content = changes.content ?? parseSignedData(token).content;
  const contentType = changes.contentType ?? OID.tstInfo;
  const honest = encodeSignedAttributes(contentType, content, changes.named ?? certificate, 'sha256');
  const signedAttributes = changes.attributes?.(honest) ?? honest;
  return encodeSignedData({
    contentType,
    content,
    signedAttributes,
    signature: await by.unitKey.sign(signedAttributes),
    algorithm: by.unitKey.key.algorithm,
    certificate,
    certificates: [certificate, ...(changes.extra ?? [])],
  });
}

function holds(whole: Uint8Array, part: Uint8Array): boolean {
  return toHex(whole).includes(toHex(part));
}

/** A certificate for the unit's key with exactly these extensions, issued by the root. */
async function issue(...extensions: Uint8Array[]): Promise<Certificate> {
  const list = constructed(contextTag(3), [sequence(...extensions)]);
  const [tbs = new Uint8Array(0)] = partsOf(pki.certificate.der);
  const changed = sequence(...partsOf(tbs).slice(0, 7), ...(extensions.length === 0 ? [] : [list]));
  return parseCertificate(encodeSigned(changed, pki.rootKey.key, await pki.rootKey.sign(changed)));
}

function extension(id: string, critical: boolean, value: Uint8Array): Uint8Array {
  const flag = critical ? primitive(TAG.boolean, Buffer.from([0xff])) : undefined;
  return sequence(oid(id), flag, octetString(value));
}

const TIME_STAMPING = extension(OID.extKeyUsage, true, sequence(oid(OID.timeStamping)));
const CODE_SIGNING = oid('1.3.6.1.5.5.7.3.3');

t.test('the forger makes a good token, so that the following forgeries can fail', async (t) => {
  t.match(verifyTimestampToken({ ...good, token: await forge({}) }), { outcome: 'good' });
  const certificate = await issue(TIME_STAMPING);
  t.match(verifyTimestampToken({ ...good, token: await forge({ certificate }) }), { outcome: 'good' });
});

for (const [what, extensions, detail] of [
  ['no extensions', [], /no extended key usage/],
  [
    'key usage not critical',
    [extension(OID.extKeyUsage, false, sequence(oid(OID.timeStamping)))],
    /not critical/,
  ],
  ['another purpose', [extension(OID.extKeyUsage, true, sequence(CODE_SIGNING))], /other than timeStamping/],
  [
    'a purpose beside it',
    [extension(OID.extKeyUsage, true, sequence(oid(OID.timeStamping), CODE_SIGNING))],
    /other than timeStamping/,
  ],
  ['encipherment', [TIME_STAMPING, extension(OID.keyUsage, true, namedBits(0, 2))], /other than digital sig/],
  ['an unknown critical extension', [TIME_STAMPING, extension('1.2.3.4', true, integer(1))], /1\.2\.3\.4/],
] as const) {
  t.test(`a certificate with ${what}`, async (t) => {
    const certificate = await issue(...extensions);
    const verdict = verifyTimestampToken({ ...good, token: await forge({ certificate }) });
    t.match(verdict, { outcome: 'bad', fault: 'certificate', detail });
  });
}

t.test('a signature by another key or over something else is refused', async (t) => {
  const other = await makePki();
  const stranger = await forge({}, other);
  t.match(verifyTimestampToken({ ...good, token: stranger }), { fault: 'untrusted' });
  const impostor = await forge({ certificate: pki.certificate }, { ...other, certificate: pki.certificate });
  t.match(verifyTimestampToken({ ...good, token: impostor }), { fault: 'signature' });

  const moved = Buffer.from(token);
  const at = moved.indexOf('20260304120000.12Z');
  moved.write('20260304110000.12Z', at);
  t.match(verifyTimestampToken({ ...good, token: moved }), { fault: 'signature', detail: /other content/ });
});

t.test('a signature counts only for the certificate it names, not for another of the same key', async (t) => {
  const twin = await issue(TIME_STAMPING);
  const swapped = await forge({ certificate: twin, named: pki.certificate });
  t.match(verifyTimestampToken({ ...good, token: swapped }), {
    fault: 'certificate',
    detail: /neither in the token/,
  });
  const both = await forge({ certificate: twin, named: pki.certificate, extra: [pki.certificate] });
  const serials = await forge({ named: twin, certificate: pki.certificate, extra: [twin] });
  // Twins share issuer and serial number here, so only the digest tells them apart.
  for (const one of [both, serials])
    t.match(verifyTimestampToken({ ...good, token: one }), { outcome: 'good' });
  const byOther = await forge({ certificate: pki.root, named: pki.certificate, extra: [pki.certificate] });
  t.match(verifyTimestampToken({ ...good, token: byOther }), {
    fault: 'certificate',
    detail: /two different/,
  });
});

t.test('each signed attribute that matters must occur once and be true', async (t) => {
  const without = (type: string) => (der: Uint8Array) =>
    constructed(
      TAG.set,
      partsOf(der).filter((one) => !holds(one, oid(type))),
    );
  const twice = (type: string) => (der: Uint8Array) =>
    constructed(
      TAG.set,
      partsOf(der).flatMap((one) => (holds(one, oid(type)) ? [one, one] : [one])),
    );
  for (const type of [OID.contentType, OID.messageDigest, OID.signingCertificateV2]) {
    for (const attributes of [without(type), twice(type)]) {
      t.match(
        verifyTimestampToken({ ...good, token: await forge({ attributes }) }),
        { fault: 'malformed' },
        type,
      );
    }
  }
  const attributes = (der: Uint8Array) => {
    const digest = sha256(parseSignedData(token).content);
    const changed = Buffer.from(der);
    changed.writeUInt8(changed.readUInt8(changed.indexOf(digest)) ^ 1, changed.indexOf(digest));
    return changed;
  };
  t.match(verifyTimestampToken({ ...good, token: await forge({ attributes }) }), { fault: 'signature' });
  const contentType = '1.2.840.113549.1.7.1';
  t.match(verifyTimestampToken({ ...good, token: await forge({ contentType }) }), { fault: 'malformed' });
});

t.test('certificates count only while they are valid', async (t) => {
  for (const [what, time, outcome] of [
    ['first second', BEGIN, 'good'],
    ['before', BEGIN - 1000, 'bad'],
    ['last second', BEGIN + 365 * DAY_MS, 'good'],
    ['after', BEGIN + 365 * DAY_MS + 1000, 'bad'],
  ] as const) {
    const { policy, serial, imprint } = parseTstInfo(parseSignedData(token).content);
    if (imprint === undefined) throw new Error('no imprint');
    const imprintDer = sequence(sequence(oid(OID.sha512)), octetString(imprint.digest));
    const content = encodeTstInfo({ policy, serial, imprintDer, genTime: time, accuracyMs: 5 });
    t.match(verifyTimestampToken({ ...good, token: await forge({ content }) }), { outcome }, what);
  }
});

t.test('a chain leads only through those that may issue', async (t) => {
  const CA = extension(OID.basicConstraints, true, sequence(primitive(TAG.boolean, Buffer.from([0xff]))));
  const NO_CA = extension(OID.basicConstraints, true, sequence());
  const CERT_SIGN = extension(OID.keyUsage, true, namedBits(5));
  const leafKey = softKey('ecdsa-p256');
  for (const [extensions, trusted, detail] of [
    [[CERT_SIGN], 'root', /has no basic constraints/],
    [[NO_CA, CERT_SIGN], 'root', /is not a certificate authority/],
    [[CA, CERT_SIGN, extension('1.2.3.4', true, integer(1))], 'root', /critical extension 1\.2\.3\.4/],
    // The root allows no authority below itself.
    [[CA, CERT_SIGN], 'root', /CN=Root has more certificates below it than its path length allows/],
    [[CA, CERT_SIGN], 'itself', undefined],
  ] as const) {
    const issuer = await issue(...extensions);
    const options = {
      subject: { commonName: 'below' },
      key: leafKey.key,
      issuer,
      notBefore: BEGIN,
      notAfter: BEGIN + 300 * DAY_MS,
    };
    const tbs = encodeTimestampingTbs({ ...options, serial: Buffer.from([1]), issuerKey: pki.unitKey.key });
    const signature = await pki.unitKey.sign(tbs);
    const certificate = parseCertificate(encodeSigned(tbs, pki.unitKey.key, signature));
    const below = await forge({ certificate, extra: [issuer] }, { ...pki, unitKey: leafKey });
    const trustedRoots = [trusted === 'root' ? pki.root : issuer];
    const verdict = verifyTimestampToken({ ...good, token: below, trustedRoots });
    if (detail === undefined) t.match(verdict, { outcome: 'good' });
    else t.match(verdict, { fault: 'chain', detail });
  }
});

t.test('a structure with one wrong part is refused', async (t) => {
  const info = partsOf(parseSignedData(token).content);
  const replaced = (index: number, element: Uint8Array) => sequence(...info.with(index, element));
  const extensions = (critical: boolean) =>
    constructed(contextTag(1), [extension('1.2.3.4', critical, integer(1))]);
  for (const [what, content] of [
    ['version 2', replaced(0, integer(2))],
    ['no policy', sequence(...info.toSpliced(1, 1))],
    ['serial of 22 octets', replaced(3, primitive(TAG.integer, Buffer.alloc(22, 1)))],
    ['a time of the day only', replaced(4, primitive(TAG.generalizedTime, Buffer.from('120000Z')))],
    ['critical extension', sequence(...info, extensions(true))],
    ['something at the end', sequence(...info, integer(1))],
  ] as const) {
    t.match(verifyTimestampToken({ ...good, token: await forge({ content }) }), { fault: 'malformed' }, what);
  }
  const content = sequence(...info, extensions(false));
  t.match(verifyTimestampToken({ ...good, token: await forge({ content }) }), { outcome: 'good' });
  t.match(verifyTimestampToken({ ...good, token: Buffer.alloc(70_000) }), {
    fault: 'malformed',
    detail: /64 KiB/,
  });
  t.throws(() => parseTimestampToken(pki.root.der), MalformedDer);
});

t.test('the root is trusted by its bytes, not by its name', async (t) => {
  const namesake = await makePki();
  t.strictSame(namesake.root.subject, pki.root.subject);
  t.match(verifyTimestampToken({ ...good, trustedRoots: [namesake.root] }), {
    fault: 'untrusted',
    detail: /no trusted root issued it/,
  });
  t.match(verifyTimestampToken({ ...good, trustedRoots: [namesake.root, pki.root] }), { outcome: 'good' });
});

t.test(
  'a mutation is accepted only if it changes nothing that is signed, and none makes it throw',
  async (t) => {
    const mutation = fc.record({
      at: fc.nat(token.length - 1),
      kind: fc.constantFrom('flip', 'set', 'cut', 'insert', 'copy'),
      value: fc.integer({ min: 0, max: 255 }),
      length: fc.integer({ min: 1, max: 40 }),
    });
    const accepted = new Set<string>();
    fc.assert(
      fc.property(fc.array(mutation, { minLength: 1, maxLength: 3 }), (mutations) => {
        const mutated = mutations.reduce(mutate, token);
        const verdict = verifyTimestampToken({ ...good, token: mutated, nonce: NONCE });
        if (verdict.outcome === 'bad') return !verdict.detail.startsWith('cannot be read');
        if (!mutated.equals(token)) accepted.add(toHex(mutated));
        return parseTstInfo(parseSignedData(mutated).content).genTime === NOON;
      }),
      { numRuns: tries(20_000) },
    );
    // Versions and the digest list of SignedData are outside of what is signed.
    for (const one of accepted)
      t.strictSame(
        parseSignedData(Buffer.from(one, 'hex')).signer.signedBytes,
        parseSignedData(token).signer.signedBytes,
      );
  },
);

function mutate(
  bytes: Buffer,
  { at, kind, value, length }: { at: number; kind: string; value: number; length: number },
): Buffer {
  const changed = Buffer.from(bytes);
  const place = Math.min(at, Math.max(0, changed.length - 1));
  const [head, tail] = [changed.subarray(0, place), changed.subarray(place)];
  switch (kind) {
    case 'flip':
      return Buffer.concat([
        head,
        tail.map((byte, index) => (index === 0 ? byte ^ (1 << (value & 7)) : byte)),
      ]);
    case 'set':
      return Buffer.concat([head, tail.map((byte, index) => (index === 0 ? value : byte))]);
    case 'cut':
      return Buffer.concat([head, tail.subarray(length)]);
    case 'insert':
      return Buffer.concat([head, Buffer.alloc(length, value), tail]);
    default:
      return Buffer.concat([head, tail.subarray(0, length), tail]);
  }
}

t.test('any bytes get the verdict bad, without an unexpected error', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const verdict = verifyTimestampToken({ ...good, token: bytes, certificates: [bytes] });
      return verdict.outcome === 'bad' && !verdict.detail.startsWith('cannot be read');
    }),
    { numRuns: tries(5000) },
  );
});

t.test('a certificate that hides another one in PEM is read as itself', async (t) => {
  const pem = Buffer.from(`\n${encodePem('CERTIFICATE', pki.root.der)}`);
  const carrier = await issue(TIME_STAMPING, extension('1.2.3.4', false, octetString(pem)));
  t.strictSame(carrier.publicKey, pki.certificate.publicKey);
  t.match(verifyTimestampToken({ ...good, token: await forge({ certificate: carrier }) }), {
    outcome: 'good',
  });
});

t.test('an explicit tag must hold exactly one element', async (t) => {
  const [type = token, wrapper = token] = partsOf(token);
  const [signedData = token] = partsOf(wrapper);
  const [version = token, digests = token, encapsulated = token, ...rest] = partsOf(signedData);
  const [contentType = token, content = token] = partsOf(encapsulated);
  const wrap = (data: Uint8Array, ...more: Uint8Array[]) =>
    sequence(type, constructed(contextTag(0), [data, ...more]));
  const beside = constructed(contextTag(0), [...partsOf(content), octetString(Buffer.of(1))]);
  const doubled = sequence(version, digests, sequence(contentType, beside), ...rest);
  t.match(verifyTimestampToken({ ...good, token: wrap(signedData) }), { outcome: 'good' });
  for (const changed of [wrap(signedData, signedData), wrap(doubled)])
    t.match(verifyTimestampToken({ ...good, token: changed }), {
      fault: 'malformed',
      detail: 'more elements than allowed',
    });
});
