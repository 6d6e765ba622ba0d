import t from 'tap';
import {
  constructed,
  contextTag,
  integer,
  octetString,
  oid,
  primitive,
  sequence,
  TAG,
} from '../../src/asn1/der.ts';
import { OID } from '../../src/asn1/oid.ts';
import { encodeQuery } from '../../src/asn1/timestampQuery.ts';
import {
  FAILURE_INFO,
  type FailureInfo,
  PKI_STATUS,
  parseResponse,
} from '../../src/asn1/timestampResponse.ts';
import { parseTimestampToken, verifyTimestampToken } from '../../src/asn1/timestampToken.ts';
import { toHex } from '../../src/base/bytes.ts';
import { OperatorError } from '../../src/base/errors.ts';
import { openAuthority, QUERY_BYTES_MAX } from '../../src/tsa/builtInAuthority.ts';
import { issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { newSerial } from '../../src/tsa/serial.ts';
import {
  BEGIN,
  DAY_MS,
  HeldClock,
  IMPRINT,
  makeAuthority,
  makePki,
  makeToken,
  NOON,
  POLICY,
  SILENT,
  softKey,
} from '../support/authority.ts';
import { partsOf } from '../support/der.ts';
import { fc, tries } from '../support/seed.ts';

const pki = await makePki();
const authority = makeAuthority([pki.unit]);
const query = encodeQuery({ imprint: IMPRINT, certReq: false });
const fields = partsOf(query);

t.test('a token states what was asked, and nothing more', async (t) => {
  const nonce = Buffer.from('00ffeeddccbbaa9988', 'hex');
  const token = await makeToken(authority, { nonce, policy: POLICY });
  const { info, signedData } = parseTimestampToken(token);
  t.match(info, { policy: POLICY, imprint: IMPRINT, genTime: NOON, accuracyMs: 1000, nonce });
  t.strictSame(signedData.certificates, [pki.certificate.der], 'its own certificate, not the root');
  // version, policy, imprint, serial, time, accuracy, nonce: neither ordering nor tsa nor extensions
  t.equal(partsOf(signedData.content).length, 7);

  const bare = parseTimestampToken(await makeToken(authority, { certReq: false }));
  t.equal(bare.info.nonce, undefined);
  t.strictSame(bare.signedData.certificates, [], 'certificates only for those who ask');
});

t.test('accuracy is stated in seconds and milliseconds', async (t) => {
  for (const accuracyMs of [1, 999, 1000, 1500, 60_000]) {
    const token = await makeToken(makeAuthority([pki.unit], new HeldClock(NOON, accuracyMs)));
    t.equal(parseTimestampToken(token).info.accuracyMs, accuracyMs);
  }
});

t.test('the imprint is returned as it was sent, including its parameters', async (t) => {
  const nullParameters = primitive(TAG.null, Buffer.alloc(0));
  for (const [name, length] of [
    ['sha256', 32],
    ['sha384', 48],
    ['sha512', 64],
  ] as const) {
    for (const parameters of [[], [nullParameters]]) {
      const imprint = sequence(sequence(oid(OID[name]), ...parameters), octetString(Buffer.alloc(length, 7)));
      const response = parseResponse(await authority.answerQuery(sequence(integer(1), imprint)));
      const { content } = parseTimestampToken(response.token ?? Buffer.alloc(0)).signedData;
      t.ok(toHex(content).includes(toHex(imprint)), name);
    }
  }
});

const SHA1 = '1.3.14.3.2.26';
const extensions = constructed(contextTag(0), [sequence(oid('1.2.3.4'), octetString(Buffer.alloc(0)))]);
const imprintOf = (algorithm: Uint8Array, length: number) =>
  sequence(algorithm, octetString(Buffer.alloc(length)));

for (const [what, bytes, failure] of [
  ['nothing', Buffer.alloc(0), 'badDataFormat'],
  ['text', Buffer.from('GET / HTTP/1.1'), 'badDataFormat'],
  ['BER', Buffer.concat([Buffer.from([0x30, 0x80]), query.subarray(2), Buffer.alloc(2)]), 'badDataFormat'],
  ['too much', Buffer.concat([query, Buffer.alloc(QUERY_BYTES_MAX)]), 'badDataFormat'],
  ['no imprint', sequence(integer(1)), 'badDataFormat'],
  ['something at the end', sequence(...fields, integer(1), integer(1)), 'badDataFormat'],
  ['version 2', sequence(...fields.with(0, integer(2))), 'badRequest'],
  ['SHA-1', sequence(integer(1), imprintOf(sequence(oid(SHA1)), 20)), 'badAlg'],
  ['a hash unheard of', sequence(integer(1), imprintOf(sequence(oid('1.2.3')), 32)), 'badAlg'],
  [
    'a hash with parameters',
    sequence(integer(1), imprintOf(sequence(oid(OID.sha256), integer(1)), 32)),
    'badAlg',
  ],
  ['a digest too short', sequence(integer(1), imprintOf(sequence(oid(OID.sha512)), 32)), 'badDataFormat'],
  [
    'a nonce of 100 bytes',
    encodeQuery({ imprint: IMPRINT, certReq: false, nonce: Buffer.alloc(100, 1) }),
    'badDataFormat',
  ],
  ['another policy', encodeQuery({ imprint: IMPRINT, certReq: false, policy: '1.2.3' }), 'unacceptedPolicy'],
  ['an extension', sequence(...fields, extensions), 'unacceptedExtension'],
] as [string, Buffer, FailureInfo][]) {
  t.test(`refused: ${what}`, async (t) => {
    const response = parseResponse(await authority.answerQuery(bytes));
    t.match(response, { status: 'rejection', failures: [failure], text: /\w/, token: undefined });
  });
}

t.test('without a trusted time, no token is given', async (t) => {
  const clock = new HeldClock();
  clock.trusted = false;
  const response = parseResponse(await makeAuthority([pki.unit], clock).answerQuery(query));
  t.match(response, { status: 'rejection', failures: ['timeNotAvailable'] });
});

t.test('the next unit signs if one cannot, and without any it is a system failure', async (t) => {
  const second = await makePki('rsa-3072');
  const dead = { ...pki.unit, signer: { ...pki.unit.signer, ready: false, sign: async () => undefined } };
  const both = makeAuthority([dead, second.unit]);
  const verdict = verifyTimestampToken({
    token: await makeToken(both),
    messageImprint: IMPRINT,
    trustedRoots: [...both.roots],
  });
  t.match(verdict, { timestamp: { chain: [second.certificate.der, second.root.der] } });
  t.match(both.status(), [
    { authority: /TSU 1/, ready: false, notAfter: pki.certificate.notAfter },
    { ready: true, notAfter: second.certificate.notAfter },
  ]);
  const response = parseResponse(await makeAuthority([dead]).answerQuery(query));
  t.match(response, { status: 'rejection', failures: ['systemFailure'] });
  const throwing = {
    ...dead,
    signer: { ...dead.signer, sign: () => Promise.reject(new Error('secret detail')) },
  };
  t.match(parseResponse(await makeAuthority([throwing]).answerQuery(query)), {
    failures: ['systemFailure'],
    text: 'the authority failed',
  });
});

t.test('a certificate that is not valid now is not used', async (t) => {
  for (const [time, status] of [
    [BEGIN - 1, 'rejection'],
    [BEGIN, 'granted'],
    [BEGIN + 365 * DAY_MS, 'granted'],
    [BEGIN + 365 * DAY_MS + 1, 'rejection'],
  ] as const) {
    const response = parseResponse(await makeAuthority([pki.unit], new HeldClock(time)).answerQuery(query));
    t.equal(response.status, status, new Date(time).toISOString());
  }
});

t.test('a new key takes over in the second in which its certificate begins', async (t) => {
  const takeover = BEGIN + 100 * DAY_MS;
  const next = softKey('ecdsa-p256');
  const certificate = await issueTimestampingCertificate(
    {
      subject: { commonName: 'TSU 2' },
      key: next.key,
      issuer: pki.root,
      notBefore: takeover,
      notAfter: takeover + 365 * DAY_MS,
    },
    pki.rootKey,
  );
  const unit = { signer: { ...next, ready: true }, chain: [certificate, pki.root] };
  for (const [time, authority] of [
    [takeover - 1, /TSU 1/],
    [takeover, /TSU 2/],
  ] as const) {
    const token = await makeToken(makeAuthority([unit, pki.unit], new HeldClock(time)));
    const verdict = verifyTimestampToken({
      token,
      messageImprint: IMPRINT,
      trustedRoots: [pki.root],
      certificates: [],
    });
    t.match(verdict, { outcome: 'good', timestamp: { authority } }, new Date(time).toISOString());
  }
});

t.test('a unit with a revoked certificate stamps nothing, and another one stands in', async (t) => {
  const revoked = { ...pki.unit, isRevoked: () => true };
  const alone = makeAuthority([revoked]);
  const refused = parseResponse(await alone.answerQuery(query));
  t.match(refused, { status: 'rejection', text: /O=Muster & Söhne, OU=Time, CN=TSU 1 was revoked/ });
  t.match(alone.status(), [{ ready: false, isRevoked: true }]);
  const other = await makePki('ecdsa-p256', 'Other');
  const token = await makeToken(makeAuthority([revoked, other.unit]));
  const input = { token, messageImprint: IMPRINT, trustedRoots: [other.root], certificates: [] };
  t.match(verifyTimestampToken(input), { outcome: 'good' });
});

t.test('an authority whose tokens could not be verified is not opened', async (t) => {
  const options = { policy: POLICY, clock: new HeldClock(), logger: SILENT };
  const stranger = { ...softKey('ecdsa-p256'), ready: true };
  for (const [units, policy, message] of [
    [[pki.unit], 'x', /not an object identifier/],
    [[], POLICY, /has no key/],
    [[{ ...pki.unit, chain: [] }], POLICY, /has no certificate/],
    [[{ ...pki.unit, signer: stranger }], POLICY, /TSU 1 is for another key/],
    [[{ signer: { ...pki.rootKey, ready: true }, chain: [pki.root] }], POLICY, /no extended key usage/],
  ] as const) {
    t.throws(() => openAuthority({ ...options, units, policy }), { constructor: OperatorError, message });
  }
});

t.test('serial numbers are positive, have at most 20 octets, and never repeat', async (t) => {
  const seen = new Set<string>();
  for (let n = 0; n < 10_000; n++) {
    const serial = newSerial(NOON);
    seen.add(toHex(serial));
    if (serial.length > 20 || (serial[0] ?? 0x80) >= 0x80 || serial[0] === 0) t.fail(toHex(serial));
  }
  t.equal(seen.size, 10_000);
  t.ok(Buffer.compare(newSerial(NOON), newSerial(NOON + 1)) < 0);
});

t.test('every status and failure survives encoding and decoding', async (t) => {
  for (const [name, bit] of Object.entries(FAILURE_INFO)) {
    for (const [status, number] of Object.entries(PKI_STATUS)) {
      if (number < PKI_STATUS.rejection) continue;
      const content = Buffer.alloc(2 + (bit >> 3));
      content.writeUInt8(7 - (bit & 7), 0);
      content.writeUInt8(0x80 >> (bit & 7), 1 + (bit >> 3));
      const der = sequence(sequence(integer(number), primitive(TAG.bitString, content)));
      t.strictSame(parseResponse(der), { status, failures: [name], text: '' });
    }
  }
  for (const inconsistent of [
    sequence(sequence(integer(0))),
    sequence(sequence(integer(2)), sequence()),
    sequence(sequence(integer(6))),
  ]) {
    t.throws(() => parseResponse(inconsistent), { name: 'MalformedDer' });
  }
});

t.test('any bytes get a response', async () => {
  const mutated = fc.tuple(fc.nat(query.length - 1), fc.integer({ min: 0, max: 255 })).map(([at, value]) => {
    const bytes = Buffer.from(query);
    bytes.writeUInt8(value, at);
    return bytes;
  });
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.uint8Array({ maxLength: 100 }), mutated), async (bytes) => {
      const { status, failures } = parseResponse(await authority.answerQuery(bytes));
      return status === 'granted' || (failures.length === 1 && failures[0] !== 'systemFailure');
    }),
    { numRuns: tries(3000) },
  );
});
