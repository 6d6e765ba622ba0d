/** Tokens signed by a real token's keys, judged by OpenSSL and pkijs. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as pkijs from 'pkijs';
import t from 'tap';
import { encodePem } from '../../src/asn1/pem.ts';
import { AUTHORITY_ALGORITHMS } from '../../src/asn1/signatureAlgorithm.ts';
import { parseResponse } from '../../src/asn1/timestampResponse.ts';
import { parseTimestampToken, verifyTimestampToken } from '../../src/asn1/timestampToken.ts';
import { sha512 } from '../../src/base/crypto.ts';
import { DOCUMENT, POLICY } from '../support/authority.ts';
import { openssl } from '../support/certificates.ts';
import { openHsmAuthority } from './hsmAuthority.ts';

for (const algorithm of AUTHORITY_ALGORITHMS) {
  t.test(algorithm, async (t) => {
    const dir = t.testdir({ document: DOCUMENT });
    const file = (name: string) => join(dir, name);

    const { authority, root, certificate } = await openHsmAuthority(t, algorithm);
    writeFileSync(file('root.pem'), encodePem('CERTIFICATE', root.der));
    writeFileSync(file('unit.pem'), encodePem('CERTIFICATE', certificate.der));

    const stamp = async (...options: string[]): Promise<Uint8Array> => {
      openssl('ts', '-query', '-data', file('document'), ...options, '-out', file('query'));
      const response = await authority.answerQuery(readFileSync(file('query')));
      writeFileSync(file('response'), response);
      const { token = Buffer.alloc(0) } = parseResponse(response);
      writeFileSync(file('token'), token);
      return token;
    };
    const trusting = ['-CAfile', file('root.pem')];

    await t.test('openssl ts -verify accepts a token', async (t) => {
      for (const digest of ['-sha256', '-sha384', '-sha512']) {
        for (const nonce of [[], ['-no_nonce']]) {
          await stamp(digest, '-cert', ...nonce);
          const verify = ['ts', '-verify', '-in', file('response'), ...trusting];
          t.match(openssl(...verify, '-queryfile', file('query')), { status: 0, output: /Verification: OK/ });
          t.match(openssl(...verify, '-data', file('document')), { status: 0, output: /Verification: OK/ });
        }
      }
      await stamp('-sha512');
      const verify = [
        'ts',
        '-verify',
        '-in',
        file('token'),
        '-token_in',
        ...trusting,
        '-data',
        file('document'),
      ];
      t.match(openssl(...verify, '-untrusted', file('unit.pem')), { status: 0 }, 'certificate beside it');
      t.match(openssl(...verify), { status: 1 }, 'or else not');
    });

    await t.test('openssl ts -reply -text reads a response', async (t) => {
      await stamp('-sha512', '-cert', '-tspolicy', POLICY);
      const { output } = openssl('ts', '-reply', '-in', file('response'), '-text');
      t.match(output, /Status: Granted/);
      t.match(output, `Policy OID: ${POLICY}`);
      t.match(output, /Accuracy: 0x01 seconds/);
      t.match(output, /Ordering: no\n/);
      t.match(output, /Time stamp: .*:\d\d(\.\d{1,3})? \d{4} GMT/);
      await stamp('-sha512', '-tspolicy', '1.2.3');
      t.match(
        openssl('ts', '-reply', '-in', file('response'), '-text').output,
        /requested TSA policy is not supported/,
      );
      await stamp('-sha1');
      t.match(
        openssl('ts', '-reply', '-in', file('response'), '-text').output,
        /unrecognized or unsupported alg/,
      );
    });

    await t.test('openssl cms -verify accepts a token', async (t) => {
      const token = await stamp('-sha512', '-cert');
      const verify = [
        'cms',
        '-verify',
        '-inform',
        'DER',
        '-in',
        file('token'),
        '-binary',
        '-out',
        file('content'),
      ];
      const purpose = ['-purpose', 'timestampsign'];
      t.match(openssl(...verify, ...trusting, ...purpose), { status: 0, output: /successful/i });
      t.strictSame(readFileSync(file('content')), parseTimestampToken(token).signedData.content);
      t.not(openssl(...verify, ...trusting, '-purpose', 'smimesign').status, 0, 'for nothing else');
    });

    await t.test('pkijs accepts a token', async (t) => {
      const token = await stamp('-sha512', '-cert');
      const contentInfo = pkijs.ContentInfo.fromBER(Uint8Array.from(token).buffer);
      const signedData = new pkijs.SignedData({ schema: contentInfo.content });
      const trustedCerts = [pkijs.Certificate.fromBER(Uint8Array.from(root.der).buffer)];
      const verify = (data: Uint8Array) =>
        signedData.verify({ signer: 0, checkChain: true, trustedCerts, data: Uint8Array.from(data).buffer });
      t.equal(await verify(DOCUMENT), true);
      t.not(await verify(Buffer.from('something else')).catch(() => false), true);
    });

    await t.test('we accept a token ourselves', async (t) => {
      const token = await stamp('-sha512', '-cert');
      const messageImprint = { algorithm: 'sha512', digest: sha512(DOCUMENT) } as const;
      const verdict = verifyTimestampToken({ token, messageImprint, trustedRoots: [root] });
      t.match(verdict, { outcome: 'good', timestamp: { policy: POLICY, authority: 'CN=TSU' } });
    });
  });
}
