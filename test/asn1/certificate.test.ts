/** What a certificate must be to be read, and whom it may stand below. */
import { generateKeyPairSync, sign, X509Certificate } from 'node:crypto';
import t from 'tap';
import {
  type Certificate,
  describeSubject,
  isSelfIssued,
  isSignedBy,
  namesAsIssuer,
  parseCertificate,
} from '../../src/asn1/certificate.ts';
import { findChain } from '../../src/asn1/chain.ts';
import {
  bitString,
  constructed,
  contextTag,
  generalizedTime,
  integer,
  MalformedDer,
  namedBits,
  octetString,
  oid,
  primitive,
  primitiveTag,
  sequence,
  setOf,
  TAG,
} from '../../src/asn1/der.ts';
import { OID } from '../../src/asn1/oid.ts';
import { toHex } from '../../src/base/bytes.ts';
import { BEGIN, DAY_MS, makePki } from '../support/authority.ts';
import { partsOf } from '../support/der.ts';

const pki = await makePki();
const fieldsOf = ({ der }: Certificate) => partsOf(partsOf(der)[0] ?? der);
const [, algorithm, signature] = partsOf(pki.certificate.der);
if (algorithm === undefined || signature === undefined) throw new Error('no certificate');
const fields = fieldsOf(pki.certificate);

/** With some fields of the unit's TBSCertificate replaced: 0 version, 1 serial, 2 algorithm, 3 issuer, 4 validity, 5 subject, 6 key, 7 extensions. */
function changed(
  changes: Record<number, Uint8Array | undefined>,
  outer = algorithm,
  bits = signature,
): Uint8Array {
  const tbs = fields.map((field, index) => (index in changes ? changes[index] : field));
  return sequence(sequence(...tbs), outer, bits);
}

const nameOf = (type: string, value: Uint8Array) => sequence(setOf([sequence(oid(type), value)]));
const text = (tag: number, value: string) => primitive(tag, Buffer.from(value, 'latin1'));
const validity = (...times: Uint8Array[]) => sequence(...times);
const utc = (value: string) => text(TAG.utcTime, value);
const extensions = (...list: Uint8Array[]) => constructed(contextTag(3), [sequence(...list)]);
const extension = (id: string, critical: boolean, value: Uint8Array) =>
  sequence(oid(id), critical ? primitive(TAG.boolean, Uint8Array.of(0xff)) : undefined, octetString(value));

t.test('a certificate is read as OpenSSL reads it', async (t) => {
  for (const certificate of [pki.root, pki.certificate]) {
    const x509 = new X509Certificate(certificate.der);
    t.equal(describeSubject(certificate), x509.subject.replaceAll('\n', ', '));
    t.equal(certificate.notBefore, x509.validFromDate.getTime());
    t.equal(certificate.notAfter, x509.validToDate.getTime());
    t.equal(toHex(certificate.serial), x509.serialNumber.toLowerCase());
    t.strictSame(Buffer.from(certificate.spki), x509.publicKey.export({ format: 'der', type: 'spki' }));
    t.equal(isSelfIssued(certificate), x509.checkIssued(x509));
    t.ok(isSignedBy(certificate, pki.root));
    t.ok(namesAsIssuer(certificate, pki.root));
  }
  t.notOk(isSignedBy(pki.root, pki.certificate));
  t.ok(isSignedBy(pki.certificate, pki.root), 'whatever was asked before');
  t.notOk(namesAsIssuer(pki.root, pki.certificate));
});

t.test('a certificate that could be read in two ways is refused', async (t) => {
  t.strictSame(parseCertificate(changed({})), pki.certificate, 'made like those that follow');
  const other = sequence(oid(OID.ecdsaWithSHA384));
  const one = extension('1.2.3', false, integer(1));
  const seven = primitive(TAG.bitString, Buffer.from([7, 0x80]));
  for (const [what, der] of [
    ['two algorithms', changed({}, other)],
    ['two algorithms, the other way', changed({ 2: other })],
    ['extensions in version 1', changed({ 0: undefined })],
    ['extensions in version 2', changed({ 0: constructed(contextTag(0), [integer(1)]) })],
    ['an extension twice', changed({ 7: extensions(one, one) })],
    ['a signature of bits', changed({}, algorithm, seven)],
    ['one time', changed({ 4: validity(utc('260101000000Z')) })],
    ['three times', changed({ 4: validity(...['26', '27', '28'].map((year) => utc(`${year}0101000000Z`))) })],
    ['a time without seconds', changed({ 4: validity(utc('2601010000Z'), utc('270101000000Z')) })],
    ['a time with an offset', changed({ 4: validity(utc('260101000000+0100'), utc('270101000000Z')) })],
    ['the 30th of February', changed({ 4: validity(utc('260230000000Z'), utc('270101000000Z')) })],
    ['something at the end', sequence(...partsOf(pki.certificate.der), integer(1))],
    ['half a character', changed({ 5: nameOf('1.2.3', primitive(0x1e, Buffer.alloc(3))) })],
    ['more than 16 KiB', changed({ 1: primitive(TAG.integer, Buffer.alloc(17_000, 1)) })],
  ] as const) {
    t.throws(() => parseCertificate(der), MalformedDer, what);
  }
});

t.test('years before 2050 and after are read in the right century', async (t) => {
  const times = (from: Uint8Array, to: Uint8Array) => {
    const { notBefore, notAfter } = parseCertificate(changed({ 4: validity(from, to) }));
    return [notBefore, notAfter].map((time) => new Date(time).toISOString().slice(0, 10));
  };
  t.strictSame(times(utc('500101000000Z'), utc('491231235959Z')), ['1950-01-01', '2049-12-31']);
  t.strictSame(times(utc('991231000000Z'), generalizedTime(Date.parse('9999-12-31T23:59:59Z'))), [
    '1999-12-31',
    '9999-12-31',
  ]);
});

t.test('names are described for people', async (t) => {
  const described = (name: Uint8Array) => describeSubject(parseCertificate(changed({ 5: name })));
  const utf8 = primitive(TAG.utf8String, Buffer.from('Müster, AG'));
  t.equal(described(nameOf(OID.commonName, utf8)), 'CN=Müster\\, AG');
  t.equal(described(nameOf(OID.commonName, text(TAG.teletexString, 'M\xfcster'))), 'CN=Müster');
  t.equal(described(nameOf('1.2.3', primitive(0x1e, Buffer.from('004604e4', 'hex')))), '1.2.3=F\u04e4');
  t.equal(described(nameOf(OID.commonName, text(TAG.utf8String, 'a\nb\x1b[2J'))), 'CN=a\\u{a}b\\u{1b}[2J');
  t.equal(described(nameOf(OID.commonName, integer(5))), 'CN=#05');
  t.equal(described(sequence()), '(no name)');
});

/** A certificate of this key, issued by the root. */
async function issued(key: Uint8Array, ...list: Uint8Array[]): Promise<Certificate> {
  const tbs = sequence(...fields.slice(0, 5), subject, key, extensions(...list));
  return parseCertificate(sequence(tbs, algorithm, bitString(await pki.rootKey.sign(tbs))));
}

const subject = nameOf(OID.commonName, text(TAG.utf8String, 'between'));
const CA = extension(OID.basicConstraints, true, sequence(primitive(TAG.boolean, Uint8Array.of(0xff))));
const CERT_SIGN = extension(OID.keyUsage, true, namedBits(5));
const purposes = (...ids: string[]) => extension(OID.extKeyUsage, false, sequence(...ids.map(oid)));
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

t.test('only a suitable authority can issue a time-stamping certificate', async (t) => {
  const strong = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const weak = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const rsa = sequence(oid(OID.sha256WithRSAEncryption), primitive(TAG.null, Buffer.alloc(0)));
  const keyIdentifier = (octets: string) =>
    extension(OID.subjectKeyIdentifier, false, octetString(Buffer.from(octets)));
  for (const [what, pair, list, detail] of [
    ['as it should be', strong, [CA, CERT_SIGN], undefined],
    [
      'for time-stamping among others',
      strong,
      [CA, CERT_SIGN, purposes(SERVER_AUTH, OID.timeStamping)],
      undefined,
    ],
    ['for any purpose', strong, [CA, CERT_SIGN, purposes(OID.anyExtendedKeyUsage)], undefined],
    ['for another purpose', strong, [CA, CERT_SIGN, purposes(SERVER_AUTH)], /is for other purposes/],
    ['with a key of 1024 bits', weak, [CA, CERT_SIGN], /too weak/],
    [
      'with another key identifier',
      strong,
      [CA, CERT_SIGN, keyIdentifier('other')],
      /no trusted root issued it/,
    ],
    ['with the key identifier', strong, [CA, CERT_SIGN, keyIdentifier('this')], undefined],
    [
      'with a usage that is no BIT STRING',
      strong,
      [CA, extension(OID.keyUsage, true, octetString(Buffer.from([2, 4])))],
      /tag 0x04/,
    ],
    [
      'with rubbish in its constraints',
      strong,
      [
        extension(
          OID.basicConstraints,
          true,
          sequence(primitive(TAG.boolean, Uint8Array.of(0xff)), integer(1), integer(1)),
        ),
      ],
      /more elements/,
    ],
  ] as const) {
    const issuer = await issued(pair.publicKey.export({ format: 'der', type: 'spki' }), ...list);
    const authorityKeyIdentifier = extension(
      OID.authorityKeyIdentifier,
      false,
      sequence(primitive(primitiveTag(0), Buffer.from('this'))),
    );
    const tbs = sequence(
      ...fields.slice(0, 2),
      rsa,
      subject,
      ...fields.slice(4, 7),
      extensions(authorityKeyIdentifier),
    );
    const leaf = parseCertificate(sequence(tbs, rsa, bitString(sign('sha256', tbs, pair.privateKey))));
    const found = findChain(leaf, [], [issuer], BEGIN + DAY_MS);
    if (detail === undefined) t.match(found, { chain: [leaf, issuer] }, what);
    else t.match(found, { fault: detail }, what);
  }
});
