/** Tokens that others made (test/vectors/timestamp). */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { parseCertificate } from '../../src/asn1/certificate.ts';
import { readCertificateFile } from '../../src/asn1/pem.ts';
import { DIGESTS } from '../../src/asn1/signatureAlgorithm.ts';
import { parseQuery } from '../../src/asn1/timestampQuery.ts';
import { parseResponse } from '../../src/asn1/timestampResponse.ts';
import { type TokenVerification, verifyTimestampToken } from '../../src/asn1/timestampToken.ts';
import { digestOf } from '../../src/base/crypto.ts';

const FOLDER = new URL('../vectors/timestamp/', import.meta.url);
const HELLO = Buffer.from('hello');

const read = (name: string) => readFileSync(new URL(name, FOLDER));
const certificatesOf = (name: string) => readCertificateFile(read(`${name}.pem`)).map(parseCertificate);

function verification(name: string, digest: (typeof DIGESTS)[number] = 'sha512'): TokenVerification {
  const { token } = parseResponse(read(`${name}.tsr`));
  if (token === undefined) throw new Error(`${name}: no token`);
  const certificates = certificatesOf(name.replace(/-.*/, ''));
  return {
    token,
    messageImprint: { algorithm: digest, digest: digestOf(digest, HELLO) },
    trustedRoots: certificates.slice(-1),
    certificates: certificates.slice(0, -1).map(({ der }) => der),
  };
}

const SIGSTORE = {
  authority: 'O=sigstore.dev, CN=sigstore-tsa',
  accuracyMs: 1000,
  policy: '1.3.6.1.4.1.57264.2',
};

for (const { name, digest, expected } of [
  {
    name: 'sigstage-sha256',
    digest: 'sha256',
    expected: { ...SIGSTORE, genTime: Date.parse('2025-05-09T11:58:55Z') },
  },
  { name: 'sigstage-sha384', digest: 'sha384', expected: SIGSTORE },
  { name: 'sigstage-sha512', digest: 'sha512', expected: SIGSTORE },
  { name: 'local', digest: 'sha512', expected: { genTime: Date.parse('2024-10-08T15:40:32Z') } },
  {
    name: 'local-injected-certificates',
    digest: 'sha512',
    expected: { authority: 'O=local, CN=Test TSA Timestamping' },
  },
  {
    name: 'identrust',
    digest: 'sha512',
    expected: { authority: /TrustID Timestamp Authority/, genTime: Date.parse('2025-03-11T08:52:08Z') },
  },
] as const) {
  t.test(name, async (t) => {
    const input = verification(name, digest);
    const verdict = verifyTimestampToken(input);
    t.match(verdict, { outcome: 'good', timestamp: expected });
    for (const other of DIGESTS.filter((one) => one !== digest)) {
      const messageImprint = { algorithm: other, digest: digestOf(other, HELLO) };
      t.match(verifyTimestampToken({ ...input, messageImprint }), { fault: 'imprint' }, other);
    }
    t.match(verifyTimestampToken({ ...input, trustedRoots: [] }), {
      fault: 'untrusted',
      detail: /no trusted root/,
    });
    t.match(verifyTimestampToken({ ...input, trustedRoots: certificatesOf('mock') }), {
      fault: 'untrusted',
    });
  });
}

t.test('a token without certificates needs them to be given', async (t) => {
  const { certificates, ...input } = verification('sigstage-no-certificate', 'sha256');
  t.match(verifyTimestampToken(input), {
    fault: 'certificate',
    detail: /neither in the token nor beside it/,
  });
  t.match(verifyTimestampToken({ ...input, certificates: certificates ?? [] }), {
    outcome: 'good',
    timestamp: SIGSTORE,
  });
});

t.test('a negative serial number of another authority is accepted', async (t) => {
  const messageImprint = {
    algorithm: 'sha256',
    digest: digestOf('sha256', read('mock-expired.payload')),
  } as const;
  const verdict = verifyTimestampToken({ ...verification('mock-expired'), messageImprint });
  t.match(verdict, {
    outcome: 'good',
    timestamp: { authority: /sigstore\.mock/, genTime: Date.parse('2023-02-01T00:00:00Z') },
  });
});

t.test('a wrong signature of another authority is detected', async (t) => {
  t.match(verifyTimestampToken(verification('sigstage-invalid-signature', 'sha256')), { fault: 'signature' });
});

t.test('certificates are judged at the time of the stamp, or at a given one', async (t) => {
  const input = verification('local');
  const [, , root] = certificatesOf('local');
  const at = (root?.notAfter ?? 0) + 1;
  t.match(verifyTimestampToken({ ...input, at }), { fault: 'chain', detail: /is not valid at/ });
  t.match(verifyTimestampToken({ ...input, at: 0 }), { fault: 'chain' });
  t.match(verifyTimestampToken({ ...input, at: Number.NaN }), { fault: 'chain' });
});

t.test('the query and the token have the same nonce', async (t) => {
  const { nonce, imprint, policy, certReq, hasExtensions } = parseQuery(Uint8Array.from(read('local.tsq')));
  t.same(imprint, { algorithm: 'sha512', digest: digestOf('sha512', HELLO) });
  t.strictSame(
    { policy, certReq, hasExtensions },
    { policy: undefined, certReq: true, hasExtensions: false },
  );
  if (nonce === undefined) throw new Error('no nonce');
  t.match(verifyTimestampToken({ ...verification('local'), nonce }), { outcome: 'good' });
  t.match(verifyTimestampToken({ ...verification('local'), nonce: Buffer.from([1]) }), { fault: 'nonce' });
  t.match(verifyTimestampToken({ ...verification('local'), policy: '1.2.3' }), { fault: 'policy' });
});
