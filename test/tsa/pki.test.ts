import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { describeSubject } from '../../src/asn1/certificate.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { AUTHORITY_ALGORITHMS } from '../../src/asn1/signatureAlgorithm.ts';
import { OperatorError } from '../../src/base/errors.ts';
import {
  chainForKey,
  issueRoot,
  issueTimestampingCertificate,
  readCertificates,
  requestCertificate,
} from '../../src/tsa/pki.ts';
import { BEGIN, DAY_MS, makePki, NOON, softKey } from '../support/authority.ts';
import { openssl } from '../support/certificates.ts';

for (const algorithm of AUTHORITY_ALGORITHMS) {
  t.test(`${algorithm}: OpenSSL and we read a root and its certificates alike`, async (t) => {
    const pki = await makePki(algorithm);
    const dir = t.testdir({
      'root.pem': encodePem('CERTIFICATE', pki.root.der),
      'unit.pem': encodePem('CERTIFICATE', pki.certificate.der),
    });
    const [root, unit] = [join(dir, 'root.pem'), join(dir, 'unit.pem')];
    const at = ['-attime', String(NOON / 1000 - 0.12)];
    const verified = openssl(
      'verify',
      '-x509_strict',
      '-purpose',
      'timestampsign',
      ...at,
      '-CAfile',
      root,
      unit,
    );
    t.match(verified, { status: 0, output: /OK/ });

    const { output } = openssl('x509', '-in', unit, '-noout', '-text');
    t.match(output, /Time Stamping/);
    t.match(output, /X509v3 Extended Key Usage: critical/);
    t.match(output, /X509v3 Key Usage: critical\s+Digital Signature\n/);
    t.match(new X509Certificate(pki.root.der).subject, 'C=DE\nO=Muster & Söhne\nCN=Root');
    t.strictSame([pki.root.notBefore, pki.certificate.notAfter], [BEGIN, BEGIN + 365 * DAY_MS]);
    t.equal(pki.root.notAfter, BEGIN + 9000 * DAY_MS, 'before 2050');
  });

  t.test(`${algorithm}: OpenSSL accepts our request and certifies it`, async (t) => {
    const unit = softKey(algorithm);
    const csr = await requestCertificate({ organization: 'Muster', commonName: 'TSU 2' }, unit);
    const dir = t.testdir({ 'unit.csr': encodePem('CERTIFICATE REQUEST', csr) });
    const file = (name: string) => join(dir, name);
    const read = openssl('req', '-in', file('unit.csr'), '-verify', '-noout', '-text');
    t.match(read, { status: 0, output: /verify OK/ });
    t.match(read.output, /Subject: O = Muster, CN = TSU 2/);
    t.match(read.output, /Time Stamping/);

    const ca = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384', '-nodes', '-keyout', file('ca.key')];
    openssl('req', '-x509', ...ca, '-subj', '/CN=Site CA', '-days', '30', '-out', file('ca.pem'));
    const issuing = [
      '-CA',
      file('ca.pem'),
      '-CAkey',
      file('ca.key'),
      '-copy_extensions',
      'copyall',
      '-days',
      '20',
    ];
    t.match(openssl('x509', '-req', '-in', file('unit.csr'), ...issuing, '-out', file('unit.pem')), {
      status: 0,
    });

    const bundle = Buffer.concat([readFileSync(file('ca.pem')), readFileSync(file('unit.pem'))]);
    const chain = chainForKey(unit.key, readCertificates(bundle, 'bundle.pem'), Date.now());
    t.match(chain.map(describeSubject), ['O=Muster, CN=TSU 2', 'CN=Site CA']);
  });
}

t.test('validity beyond 2049 is written as GeneralizedTime', async (t) => {
  const key = softKey('ecdsa-p256');
  const notAfter = Date.parse('2060-06-07T08:09:10Z');
  const root = await issueRoot({ subject: { commonName: 'Long' }, notBefore: BEGIN + 999, notAfter }, key);
  t.strictSame([root.notBefore, root.notAfter], [BEGIN, notAfter], 'in whole seconds');
  const file = join(t.testdir(), 'root.pem');
  writeFileSync(file, encodePem('CERTIFICATE', root.der));
  t.match(openssl('verify', '-x509_strict', '-attime', String(BEGIN / 1000), '-CAfile', file, file), {
    status: 0,
  });
});

t.test('a certificate that would not verify is not issued', async (t) => {
  const { root, rootKey, unitKey } = await makePki();
  const options = { subject: { commonName: 'x' }, key: unitKey.key, issuer: root, notBefore: BEGIN };
  await t.rejects(issueTimestampingCertificate({ ...options, notAfter: root.notAfter + 1000 }, rootKey), {
    constructor: OperatorError,
    message: /would outlive .*CN=Root/,
  });
  await t.rejects(issueTimestampingCertificate({ ...options, notAfter: BEGIN + DAY_MS }, unitKey), {
    constructor: OperatorError,
    message: /certificate of another key/,
  });
  const early = { ...options, notBefore: BEGIN - DAY_MS, notAfter: BEGIN };
  await t.rejects(issueTimestampingCertificate(early, rootKey), { message: /not valid at 2025-12-31/ });
});

t.test('certificates that form no chain for the key are refused', async (t) => {
  const [pki, other] = [await makePki(), await makePki()];
  const { root, certificate, unitKey } = pki;
  const chain = (...certificates: (typeof root)[]) => chainForKey(unitKey.key, certificates, NOON);
  t.strictSame(chain(root, certificate), [certificate, root]);
  t.strictSame(
    chain(certificate, other.root, root, other.certificate),
    [certificate, root],
    'and what else is there',
  );
  for (const [certificates, message] of [
    [[root], /none of the certificates is for this key/],
    [[certificate], /the root is missing/],
    [[certificate, other.root], /not form a chain/],
  ] as const) {
    t.throws(() => chain(...certificates), { constructor: OperatorError, message });
  }
  t.throws(() => chainForKey(unitKey.key, [root, certificate], BEGIN - 1), { message: /not valid at/ });
  t.throws(() => chainForKey(pki.rootKey.key, [root, certificate], NOON), {
    message: /no extended key usage/,
  });
});

t.test('a file of certificates is read as PEM or DER, or refused', async (t) => {
  const { root, certificate } = await makePki();
  const pem = [root, certificate].map(({ der }) => encodePem('CERTIFICATE', der));
  t.equal(pem[0], new X509Certificate(root.der).toString(), 'as OpenSSL writes them');
  t.equal(readCertificates(Buffer.from(`some text\n${pem.join('\nand more\n')}`), 'f').length, 2);
  t.equal(readCertificates(root.der, 'f').length, 1, 'DER');
  for (const [bytes, message] of [
    [Buffer.alloc(0), /f: there is no certificate/],
    [Buffer.from('hello'), /f: certificate 1 cannot be read/],
    [Buffer.from(`${pem[0]}${pem[1]?.replace(/\n..../, '\nAAAA')}`), /f: certificate 2 cannot be read/],
  ] as const) {
    t.throws(() => readCertificates(bytes, 'f'), { constructor: OperatorError, message });
  }
});
