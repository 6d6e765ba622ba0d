/** A site with a certificate authority of its own: requests out, certificates in. OpenSSL is that authority. */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { describeSubject } from '../../src/asn1/certificate.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { certificateFile, readInstalled } from '../../src/tsa/installed.ts';
import { openssl } from '../support/certificates.ts';
import { openSandbox } from '../support/sandbox.ts';

const STAMP = { region: 'local', keyLabel: 'timestamp-2026' };

t.test('from the request to the trust file', async (t) => {
  const sandbox = await openSandbox({ stamped: true, init: false });
  t.teardown(() => sandbox.close());
  const dir = mkdtempSync(join(sandbox.dir, 'ca-'));
  const file = (name: string) => join(dir, name);
  const pdfseal = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  const install = (...names: string[]) => pdfseal('hsm', 'install-certificate', ...names.map(file));
  const certificates = join(sandbox.dir, 'state/certificates');

  await t.test('init makes keys, and says what is left to do', async (t) => {
    const { status, stdout, stderr } = await pdfseal('init', '--throwaway', '--external-ca');
    t.equal(status, 0, stderr);
    t.notMatch(stdout, /root|trust/);
    t.match(stderr, /hsm csr [\s\S]*hsm install-certificate [\s\S]*trust export/);
    t.match(await pdfseal('trust', 'export'), { status: 1, stderr: /no certificate: .*install-certificate/ });
    t.match(await pdfseal('hsm', 'certificates'), {
      status: 1,
      stdout: /missing/,
      stderr: /install-certificate/,
    });
    t.match(await pdfseal('hsm', 'certify'), {
      status: 1,
      stderr: /no key of timestamp.keys has a root in the HSM: .*hsm csr/,
    });
  });

  await t.test('csr writes a request that OpenSSL verifies', async (t) => {
    const { stdout } = await pdfseal('hsm', 'csr', '--subject', 'CN=Time-stamping 1,O=Muster\\, Söhne,C=DE');
    writeFileSync(file('tsa.csr'), stdout);
    const utf8 = ['-nameopt', 'utf8,sep_comma_plus_space'];
    const read = openssl('req', '-in', file('tsa.csr'), '-verify', '-noout', '-text', ...utf8);
    t.match(read, { status: 0, output: /verify OK/ });
    t.match(read.output, /Subject: C=DE, O=Muster, Söhne, CN=Time-stamping 1\n/);
    t.match(read.output, /Extended Key Usage: critical\s+Time Stamping\n/);
    const json = JSON.parse((await pdfseal('hsm', 'csr', '--subject', 'CN=x', '--json')).stdout);
    t.match(json, { region: 'local', key_label: 'timestamp-2026', csr: /^-----BEGIN CERTIFICATE REQUEST/ });
  });

  const issue = (name: string, ca: string, days: number, ...how: string[]) => {
    const authority = ['-CA', file(`${ca}.pem`), '-CAkey', file(`${ca}.key`), '-days', String(days)];
    const request = ['x509', '-req', '-in', file('tsa.csr'), '-out', file(name)];
    t.match(openssl(...request, ...authority, ...how), { status: 0 });
  };
  for (const ca of ['ca', 'ca2']) {
    const key = [
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-384',
      '-nodes',
      '-keyout',
      file(`${ca}.key`),
    ];
    const root = ['-subj', `/CN=Site ${ca}`, '-days', '30', '-out', file(`${ca}.pem`)];
    t.match(openssl('req', '-x509', ...key, ...root), { status: 0 });
  }
  issue('tsa.pem', 'ca', 20, '-copy_extensions', 'copyall');

  await t.test('an unfit certificate is refused, and nothing is installed', async (t) => {
    issue('plain.pem', 'ca', 20);
    issue('ended.pem', 'ca', -1, '-copy_extensions', 'copyall');
    writeFileSync(file('garbage.pem'), 'garbage');
    for (const [names, message] of [
      [['plain.pem', 'ca.pem'], /has no extended key usage/],
      [['ended.pem', 'ca.pem'], /is not valid at/],
      [['garbage.pem'], /garbage\.pem: certificate 1 cannot be read/],
    ] as const) {
      t.match(await install(...names), { status: 1, stdout: '', stderr: message }, names.join(' '));
    }
    t.throws(() => readdirSync(certificates), { code: 'ENOENT' });
  });

  await t.test('a fitting chain is installed, and the trust file can be made', async (t) => {
    const { status, stdout, stderr } = await install('ca.pem', 'tsa.pem');
    t.equal(status, 0, stderr);
    t.match(stdout, /^local\/timestamp-2026 {2}C=DE, .*CN=Time-stamping 1 {2}valid until /);
    const { chain } = readInstalled(certificates, STAMP);
    t.match(chain.map(describeSubject), ['Time-stamping 1', 'Site ca']);
    t.equal((await pdfseal('hsm', 'certificates')).status, 0);
    t.equal((await pdfseal('trust', 'export', '--output', sandbox.trustFile)).status, 0);
    t.equal(parseTrust(readFileSync(sandbox.trustFile, 'utf8')).timestampAuthorities.length, 1);
  });

  await t.test('a replaced chain is kept, and its root stays in the trust file', async (t) => {
    const before = readFileSync(certificateFile(certificates, STAMP), 'utf8');
    issue('next.pem', 'ca2', 20, '-copy_extensions', 'copyall');
    const installed = await pdfseal(
      'hsm',
      'install-certificate',
      file('next.pem'),
      file('ca2.pem'),
      '--json',
    );
    t.match(JSON.parse(installed.stdout), {
      key_label: 'timestamp-2026',
      chain: [/CN=Time-stamping 1/, 'CN=Site ca2'],
    });
    const retired = readdirSync(join(certificates, 'retired'));
    t.match(retired, [/^local_timestamp-2026-[0-9a-f]{16}\.pem$/]);
    t.equal(readFileSync(join(certificates, 'retired', retired[0] ?? ''), 'utf8'), before);
    const { stdout } = await pdfseal('trust', 'export');
    t.match(
      parseTrust(stdout).timestampAuthorities.map(({ root }) => describeSubject(root)),
      ['CN=Site ca2', 'CN=Site ca'],
    );
  });

  await t.test('a root that somebody put into the folder is named, and is not exported', async (t) => {
    const exported = async () => parseTrust((await pdfseal('trust', 'export')).stdout).timestampAuthorities;
    t.equal((await exported()).length, 2);
    const key = ['-newkey', 'rsa:2048', '-nodes', '-keyout', file('stranger.key'), '-subj', '/CN=Stranger'];
    t.match(openssl('req', '-x509', ...key, '-out', join(certificates, 'retired', 'x.pem')), { status: 0 });
    t.equal((await exported()).length, 2);
    const named =
      /has the root CN=Stranger \(SHA-256 [0-9a-f]{64}\), which no epoch and no audit record names/;
    t.match(await pdfseal('trust', 'export'), { status: 0, stderr: named });
    t.match(await pdfseal('check'), { status: 1, stderr: named });
    t.match(await pdfseal('audit', 'verify'), { status: 1, stderr: named });
    t.match(await pdfseal('doctor'), { status: 1, stdout: named });
  });
});
