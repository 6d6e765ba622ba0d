import { mkdirSync, writeFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import type { Certificate } from '../../src/asn1/certificate.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { AUTHORITY_ALGORITHMS } from '../../src/asn1/signatureAlgorithm.ts';
import { OperatorError } from '../../src/base/errors.ts';
import { certificateFile, readInstalled } from '../../src/tsa/installed.ts';
import { makePki } from '../support/authority.ts';

const NAME = { region: 'eu-west', keyLabel: 'tsa-2026' };

function install(t: Test, ...certificates: Certificate[]): string {
  const dir = t.testdir();
  const text = certificates.map(({ der }) => encodePem('CERTIFICATE', der)).join('');
  writeFileSync(certificateFile(dir, NAME), text);
  return dir;
}

for (const algorithm of AUTHORITY_ALGORITHMS) {
  t.test(`${algorithm}: the key and its chain are read from one file`, async (t) => {
    const { certificate, root, unitKey } = await makePki(algorithm);
    const dir = install(t, certificate, root);
    const { key, chain } = readInstalled(dir, NAME);
    t.strictSame(key, { ...NAME, ...unitKey.key }, 'as the HSM would describe it');
    t.strictSame(
      chain.map(({ der }) => der),
      [certificate.der, root.der],
    );
  });
}

t.test('an unusable file is refused with a remedy', async (t) => {
  const { certificate, root } = await makePki();
  const other = await makePki();
  for (const [what, certificates, message] of [
    ['nothing', [], /eu-west_tsa-2026\.pem: there is no certificate/],
    ['no root', [certificate], /eu-west_tsa-2026\.pem: the root is missing.*install-certificate/],
    ['another root', [certificate, other.root], /not form a chain: .*install-certificate/],
    ['the root first', [root, certificate], /extended key usage.*install-certificate/],
  ] as const) {
    await t.test(what, async (t) => {
      const dir = install(t, ...certificates);
      t.throws(() => readInstalled(dir, NAME), { constructor: OperatorError, message });
    });
  }
});

t.test('a file that is missing or cannot be read is named', async (t) => {
  const dir = t.testdir();
  t.throws(() => readInstalled(dir, NAME), {
    constructor: OperatorError,
    message:
      /key eu-west\/tsa-2026 has no certificate: there is no .*eu-west_tsa-2026\.pem; .*install-certificate/,
  });
  mkdirSync(certificateFile(dir, NAME));
  t.throws(() => readInstalled(dir, NAME), { constructor: OperatorError, message: /cannot read .*EISDIR/ });
});
