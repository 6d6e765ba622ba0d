/** Revocation lists: ours as OpenSSL reads them, those of OpenSSL as we read them, and those that nobody may rely on. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { KEY_USAGE } from '../../src/asn1/certificate.ts';
import { namedBits } from '../../src/asn1/der.ts';
import { encodeSigned } from '../../src/asn1/issue.ts';
import { OID } from '../../src/asn1/oid.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import {
  isListOf,
  issuedAs,
  LIST_BYTES_MAX,
  LIST_ENTRIES_MAX,
  parseAuthorityList,
  parseRevocationList,
  type Revocation,
} from '../../src/asn1/revocationList.ts';
import { AUTHORITY_ALGORITHMS } from '../../src/asn1/signatureAlgorithm.ts';
import { fromHex, toHex } from '../../src/base/bytes.ts';
import { OperatorError } from '../../src/base/errors.ts';
import { certificatesIn, issueRevocationList } from '../../src/tsa/pki.ts';
import { BEGIN, DAY_MS, makePki, NOON } from '../support/authority.ts';
import { issueCertificate, makeAuthority, openssl, revoke } from '../support/certificates.ts';
import { partsOf } from '../support/der.ts';

const pki = await makePki();
const { root, rootKey, certificate } = pki;
const SECOND = Date.parse('2026-03-04T12:00:00Z');
const entry: Revocation = {
  serial: certificate.serial,
  revokedAt: NOON,
  reason: 'keyCompromise',
  invalidSince: NOON - DAY_MS,
};
const terms = { issuer: root, thisUpdate: NOON, nextUpdate: NOON + 30 * DAY_MS, number: 7, revoked: [entry] };
const list = await issueRevocationList(terms, rootKey);

for (const algorithm of AUTHORITY_ALGORITHMS) {
  t.test(`${algorithm}: OpenSSL verifies our list and refuses the revoked certificate`, async (t) => {
    const { root, rootKey, certificate } = await makePki(algorithm);
    const file = (name: string) => join(t.testdirName, name);
    const write = async (revoked: Revocation[]) =>
      encodePem('X509 CRL', (await issueRevocationList({ ...terms, issuer: root, revoked }, rootKey)).der);
    t.testdir({
      'root.pem': encodePem('CERTIFICATE', root.der),
      'unit.pem': encodePem('CERTIFICATE', certificate.der),
      'list.crl': await write([{ ...entry, serial: certificate.serial }]),
      'empty.crl': await write([]),
    });
    for (const name of ['list.crl', 'empty.crl'])
      t.match(openssl('crl', '-in', file(name), '-CAfile', file('root.pem'), '-noout'), {
        status: 0,
        output: /verify OK/,
      });
    const { output } = openssl('crl', '-in', file('list.crl'), '-noout', '-text');
    t.match(output, /Version 2 /);
    t.match(output, /Last Update: Mar {2}4 12:00:00 2026 GMT\s+Next Update: Apr {2}3 12:00:00 2026 GMT/);
    t.match(output, /CRL Number:\s+7\n/);
    t.match(output, /Revocation Date: Mar {2}4 12:00:00 2026 GMT/);
    t.match(output, /Key Compromise\s+Invalidity Date:\s+Mar {2}3 12:00:00 2026 GMT/);
    const at = ['-attime', String(SECOND / 1000 + 60), '-purpose', 'timestampsign', '-crl_check'];
    const check = (name: string) =>
      openssl('verify', ...at, '-CAfile', file('root.pem'), '-CRLfile', file(name), file('unit.pem'));
    t.match(check('empty.crl'), { status: 0 });
    t.match(check('list.crl'), { status: 2, output: /certificate revoked/ });
  });
}

t.test('a list reads back as it was signed', async (t) => {
  t.match(parseAuthorityList(list.der), {
    thisUpdate: SECOND,
    nextUpdate: SECOND + 30 * DAY_MS,
    number: 7n,
    fault: undefined,
  });
  t.strictSame(
    [...list.revoked],
    [
      [
        issuedAs(certificate.der),
        {
          serial: certificate.serial,
          revokedAt: SECOND,
          reason: 'keyCompromise',
          invalidSince: SECOND - DAY_MS,
        },
      ],
    ],
  );
});

t.test('a list of OpenSSL reads like one of ours', async (t) => {
  const dir = t.testdir({});
  const authority = makeAuthority(dir, 'site');
  const unit = issueCertificate(dir, 'unit', authority);
  const file = join(dir, 'site.crl');
  revoke(dir, file, authority, [unit], { validDays: 10 });
  t.match(openssl('crl', '-in', file, '-outform', 'DER', '-out', `${file}.der`), { status: 0 });
  const read = parseRevocationList(readFileSync(`${file}.der`));
  const [issuer] = certificatesIn(authority.certificateFile);
  const [revoked] = certificatesIn(unit.certificateFile);
  if (!issuer || !revoked) throw new Error('no certificate');
  t.ok(read.revoked.has(issuedAs(revoked.der)));
  t.ok(isListOf(read, issuer));
  t.notOk(isListOf(read, root));
  t.equal(read.fault, 'is not of version 2', 'openssl writes version 1 without extensions');
});

t.test('a list counts only for its issuer, and only as it was signed', async (t) => {
  t.ok(isListOf(list, root));
  t.notOk(isListOf(list, certificate), 'not for a certificate below it');
  const namesake = await makePki();
  t.notOk(isListOf(list, namesake.root), 'not for another root of the same name');
  const forged = await issueRevocationList({ ...terms, issuer: namesake.root }, namesake.rootKey);
  t.notOk(isListOf(forged, root));
  const usage = { critical: true, value: namedBits(KEY_USAGE.keyCertSign) };
  const unfit = { ...root, extensions: new Map(root.extensions).set(OID.keyUsage, usage) };
  t.notOk(isListOf(list, unfit), 'not if the root must not sign lists');
  const changed = Uint8Array.from(list.der);
  const last = changed.length - 1;
  changed[last] = (changed[last] ?? 0) ^ 1;
  t.notOk(isListOf(parseAuthorityList(changed), root));
});

/** The list with other bytes in place of some, signed again. The length stays the same. */
async function resigned(from: string, to: string): Promise<Uint8Array> {
  const [tbs] = partsOf(list.der);
  const hex = toHex(tbs ?? new Uint8Array(0));
  if (!hex.includes(from) || from.length !== to.length) throw new Error(`no ${from}`);
  const changed = fromHex(hex.replace(from, to));
  return encodeSigned(changed, rootKey.key, await rootKey.sign(changed));
}

const CRITICAL = '0101ff';
t.test('a list that does not say everything by itself is refused, with the reason', async (t) => {
  const oid = { number: '0603551d14', reason: '0603551d15', invalid: '0603551d18' };
  for (const [from, to, message] of [
    [oid.number, '0603551d1b', /is a delta list/],
    [oid.number, '0603551d1c', /part of the certificates, or an indirect list/],
    [oid.number, '0603551d77', /has no CRL number/],
    [oid.invalid, '0603551d1d', /is an indirect list, of certificates of other issuers/],
    ['020101', '020100', /is not of version 2/],
    ['0a0101', '0a0108', /an entry of a delta list/],
    ['0a0101', '0a0107', /a reason for a revocation that does not exist/],
  ] as const) {
    const der = await resigned(from, to);
    t.throws(() => parseAuthorityList(der), { name: 'MalformedDer', message }, to);
  }
});

t.test('a list with a critical extension that nobody here knows is refused', async (t) => {
  // The reason code becomes an extension of the same length that is critical: its value is an empty OCTET STRING.
  const from = '0603551d1504030a0101';
  const der = await resigned(from, `0603551d77${CRITICAL}0400`);
  t.throws(() => parseAuthorityList(der), { message: /critical extension 2\.5\.29\.119/ });
});

t.test('a list is bounded in bytes and in certificates', async (t) => {
  t.throws(() => parseAuthorityList(new Uint8Array(LIST_BYTES_MAX + 1)), {
    message: /more than 131072 bytes/,
  });
  const many = (count: number) =>
    Array.from({ length: count }, (_, index): Revocation => {
      const serial = Uint8Array.of(0x40, index >> 8, index & 0xff);
      return { ...entry, serial };
    });
  const full = await issueRevocationList({ ...terms, revoked: many(LIST_ENTRIES_MAX) }, rootKey);
  t.equal(parseAuthorityList(full.der).revoked.size, LIST_ENTRIES_MAX);
  await t.rejects(issueRevocationList({ ...terms, revoked: many(LIST_ENTRIES_MAX + 1) }, rootKey), {
    constructor: OperatorError,
    message: /1024 certificates at most/,
  });
  t.throws(() => parseAuthorityList(list.der.subarray(1)), { name: 'MalformedDer' });
  await t.rejects(issueRevocationList({ ...terms, revoked: [entry, entry] }, rootKey), { message: /twice/ });
});

t.test('only a certificate that may sign lists signs one, with its own key', async (t) => {
  const { unitKey } = pki;
  await t.rejects(issueRevocationList(terms, unitKey), { message: /a certificate of another key/ });
  await t.rejects(issueRevocationList({ ...terms, issuer: certificate }, unitKey), {
    message: /must not sign revocation lists/,
  });
});

t.test('a list of a time after 2049 has its times as GeneralizedTime', async (t) => {
  const thisUpdate = Date.parse('2050-06-07T08:09:10Z');
  const late = await issueRevocationList(
    { ...terms, thisUpdate, nextUpdate: thisUpdate + DAY_MS, revoked: [{ ...entry, revokedAt: BEGIN }] },
    rootKey,
  );
  const file = join(t.testdir(), 'late.crl');
  writeFileSync(file, encodePem('X509 CRL', late.der));
  t.match(openssl('crl', '-in', file, '-noout', '-lastupdate'), { output: /Jun {2}7 08:09:10 2050 GMT/ });
  t.equal(late.thisUpdate, thisUpdate);
});
