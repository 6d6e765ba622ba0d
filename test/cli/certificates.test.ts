import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Certificate, describeSubject } from '../../src/asn1/certificate.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { certificateFile, readInstalled } from '../../src/tsa/installed.ts';
import { issueRoot, issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { DAY_MS, softKey } from '../support/authority.ts';
import { item } from '../support/partitions.ts';
import { openSandbox } from '../support/sandbox.ts';

const NAME = { region: 'local', keyLabel: 'timestamp-2026' };

t.test('the list shows validity and days left, and exits with 1 if a certificate is not valid', async (t) => {
  const sandbox = await openSandbox({
    stamped: true,
    init: false,
    tail: '[timestamp.remotes.acme]\nurl = "https://tsa.example.com"\nroots_file = "acme.pem"',
  });
  t.teardown(() => sandbox.close());
  const dir = join(sandbox.dir, 'state/certificates');
  mkdirSync(dir, { recursive: true });
  const install = (file: string, ...certificates: Certificate[]) =>
    writeFileSync(file, certificates.map(({ der }) => encodePem('CERTIFICATE', der)).join(''));
  const list = async () => {
    const args = ['hsm', 'certificates', '--config', sandbox.configFile];
    const { status, stdout } = await sandbox.pdfseal([...args, '--json']);
    return {
      status,
      rows: stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    };
  };

  const [rootKey, unitKey] = [softKey('ecdsa-p256'), softKey('ecdsa-p256')];
  const now = Date.now();
  const root = await issueRoot(
    { subject: { commonName: 'Root' }, notBefore: now - 10 * DAY_MS, notAfter: now + 100.5 * DAY_MS },
    rootKey,
  );
  const unit = (fromDays: number, toDays: number) => {
    const validity = { notBefore: now + fromDays * DAY_MS, notAfter: now + toDays * DAY_MS };
    const options = { subject: { commonName: 'Unit' }, key: unitKey.key, issuer: root, ...validity };
    return issueTimestampingCertificate(options, rootKey);
  };
  const acmeRoot = { authority: 'acme', role: 'root', state: 'valid', subject: 'CN=Root', days_left: 100 };
  const builtInRoot = { ...acmeRoot, authority: 'built-in local/timestamp-2026' };
  const builtIn = { authority: 'built-in local/timestamp-2026', role: 'time-stamping', subject: 'CN=Unit' };

  t.match(await list(), {
    status: 1,
    rows: [
      { state: 'missing', detail: /hsm install-certificate/ },
      { authority: 'acme', state: 'missing', detail: /acme\.pem/ },
    ],
  });
  install(join(sandbox.dir, 'acme.pem'), root, root);
  for (const [fromDays, toDays, state, days_left] of [
    [-1, 30.5, 'valid', 30],
    [-9, -1.5, 'expired', -2],
    [5, 30.5, 'not_yet_valid', 30],
  ] as const) {
    install(certificateFile(dir, NAME), await unit(fromDays, toDays), root);
    t.match(
      await list(),
      {
        status: state === 'valid' ? 0 : 1,
        rows: [{ ...builtIn, state, days_left }, builtInRoot, acmeRoot, acmeRoot],
      },
      state,
    );
  }
  const { stdout } = await sandbox.pdfseal(['hsm', 'certificates', '--config', sandbox.configFile]);
  t.match(
    stdout,
    /^AUTHORITY .*DAYS LEFT .*\nbuilt-in local\/timestamp-2026 +time-stamping +not_yet_valid .* 30 +CN=Unit\n/,
  );
});

t.test('certify: issues a new certificate from the same root', async (t) => {
  const sandbox = await openSandbox({ stamped: true, init: false });
  t.teardown(() => sandbox.close());
  const certify = (validity: string) =>
    sandbox.pdfseal(['hsm', 'certify', '--config', sandbox.configFile, '--validity', validity]);
  await sandbox.init('--subject-organization', 'Example Corp');
  const chain = () => readInstalled(join(sandbox.dir, 'state/certificates'), NAME).chain;
  const before = chain();
  const { status, stderr } = await certify('30d');
  t.equal(status, 0, stderr);
  const [leaf, root] = [item(chain(), 0), item(chain(), 1)];
  t.notSame(leaf.der, item(before, 0).der);
  t.same(root.der, item(before, 1).der);
  t.match(describeSubject(leaf), /^O=Example Corp, /, 'of the root’s organization');
  t.equal(leaf.notAfter - leaf.notBefore, 30 * DAY_MS);
  const dir = join(sandbox.dir, 'state/certificates');
  t.match(readdirSync(join(dir, 'retired')), [/^local_timestamp-2026-[0-9a-f]{16}\.pem$/]);
  const outliving = await certify('36525d');
  t.match(outliving, { status: 1, stderr: /would outlive O=Example Corp, .*time-stamping root/ });
  t.same(item(chain(), 0).der, leaf.der);

  const later = await sandbox.pdfseal([
    ...[
      'hsm',
      'certify',
      '--config',
      sandbox.configFile,
      '--from',
      new Date(Date.now() + 2 * DAY_MS).toISOString().slice(0, 10),
      '--validity',
      '1d',
    ],
  ]);
  t.match(later, { status: 1, stderr: /would replace it at once .*: create another key/ });
  t.same(item(chain(), 0).der, leaf.der);

  writeFileSync(certificateFile(dir, NAME), 'damaged');
  t.equal((await certify('30d')).status, 0, 'what cannot be read is mended');
  const exported = await sandbox.pdfseal(['trust', 'export', '--config', sandbox.configFile]);
  t.equal(exported.status, 0, 'and stands in nobody’s way');
});

t.test('certify: makes a new root if the first one is lost', async (t) => {
  const sandbox = await openSandbox({ stamped: true });
  t.teardown(() => sandbox.close());
  const pdfseal = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  const taken = await pdfseal('hsm', 'certify', '--new-root');
  t.match(taken, { status: 1, stderr: /local\/timestamp-2026-root is already a root/ });

  // The key and its root are gone; another key takes their place.
  const config = readFileSync(sandbox.configFile, 'utf8').replaceAll('timestamp-2026', 'timestamp-2027');
  writeFileSync(sandbox.configFile, config);
  t.equal((await pdfseal('hsm', 'init-key', '--key-label', 'timestamp-2027')).status, 0);
  t.match(await pdfseal('hsm', 'certify'), {
    status: 1,
    stderr: /no key of timestamp.keys has a root in the HSM: .* --new-root/,
  });
  const made = await pdfseal('hsm', 'certify', '--new-root', '--subject-organization', 'Example Corp');
  t.equal(made.status, 0, made.stderr);
  const { chain } = readInstalled(join(sandbox.dir, 'state/certificates'), {
    ...NAME,
    keyLabel: 'timestamp-2027',
  });
  t.match(chain.map(describeSubject), [/^O=Example Corp, .*time-stamping$/, /time-stamping root$/]);
  t.match(await pdfseal('hsm', 'list'), { status: 0, stdout: /root +local\/timestamp-2027-root .* ready/ });
  t.equal((await pdfseal('hsm', 'certify')).status, 0, 'from now on it is the root');

  const trust = join(sandbox.dir, 'trust.json');
  t.equal((await pdfseal('trust', 'export', '--output', trust)).status, 0);
  await sandbox.start();
  const document = join(sandbox.dir, 'a.pdf');
  writeFileSync(document, '%PDF-1.7\n%%EOF\n');
  const client = ['--url', sandbox.url, '--visibility', 'private'];
  const env = { PDFSEAL_API_KEY: await sandbox.issueKey() };
  t.equal((await sandbox.pdfseal(['submit', document, ...client], { env })).status, 0);
  const verified = await sandbox.pdfseal(['verify', document, `${document}.receipt.json`, '--trust', trust]);
  t.match(verified, { status: 0, stdout: /passed +time-stamp .*local\/timestamp-2027/ });
});
