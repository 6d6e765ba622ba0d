/** `pdfseal init` where time is stamped: keys, root and certificates of the built-in authority. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { describeSubject } from '../../src/asn1/certificate.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { initKey, useKey } from '../../src/kms/keyOperations.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { certificateFile, readInstalled } from '../../src/tsa/installed.ts';
import { makePki } from '../support/authority.ts';
import { openssl } from '../support/certificates.ts';
import { item } from '../support/partitions.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';

const STAMP = { region: 'local', keyLabel: 'timestamp-2026' };
const ROOT = { region: 'local', keyLabel: 'timestamp-2026-root' };

t.test('init makes keys, a root and a certificate, and OpenSSL accepts the certificate', async (t) => {
  const sandbox = await uninitialized(t);
  const names = ['--subject-organization', 'Muster, Söhne', '--timestamp-algorithm', 'rsa-3072'];
  const { status, stdout, stderr } = await init(sandbox, ...names, '--certificate-validity', '90d');
  t.equal(status, 0, stderr);
  t.match(
    stdout,
    /stamp\s+local\/timestamp-2026\s+rsa-3072\s+made\nroot\s+local\/timestamp-2026-root\s+rsa-3072/,
  );

  const [unit, root] = [certificateFile(dirOf(sandbox), STAMP), certificateFile(dirOf(sandbox), ROOT)];
  const verified = openssl('verify', '-x509_strict', '-purpose', 'timestampsign', '-CAfile', root, unit);
  t.match(verified, { status: 0, output: /OK/ });
  const { key, chain } = readInstalled(dirOf(sandbox), STAMP);
  t.strictSame(await useKey({ ...item(sandbox.partitions, 0), ...STAMP }, async (held) => held), key);
  t.match(chain.map(describeSubject), [
    'O=Muster\\, Söhne, OU=local/timestamp-2026, CN=seal.example.com/sandbox/2026 time-stamping',
    'O=Muster\\, Söhne, CN=seal.example.com/sandbox/2026 time-stamping root',
  ]);
  t.same(
    chain.map(({ notBefore, notAfter }) => (notAfter - notBefore) / 86_400_000),
    [90, 9125],
  );
  t.match(parseTrust(readFileSync(sandbox.trustFile, 'utf8')), {
    logs: [{ epochs: [{ timestamps: 'required' }] }],
    timestampAuthorities: [{ name: 'built-in', root: { der: item(chain, 1).der } }],
  });
});

t.test('init reuses what an interrupted run made, and overwrites nothing', async (t) => {
  const sandbox = await uninitialized(t);
  const token = item(sandbox.partitions, 0);
  // As after a crash: the log key and the root are there, and the root's certificate.
  await init(sandbox);
  const [unit, root] = [certificateFile(dirOf(sandbox), STAMP), certificateFile(dirOf(sandbox), ROOT)];
  rmSync(join(sandbox.dir, 'state/store'), { recursive: true });
  rmSync(unit);
  const before = readFileSync(root, 'utf8');

  t.match(await init(sandbox), {
    status: 1,
    stderr: /a key already: .*timestamp-2026-root\. .*--use-existing-keys/,
  });
  const repeated = await init(sandbox, '--use-existing-keys');
  t.equal(repeated.status, 0, repeated.stderr);
  t.equal(readFileSync(root, 'utf8'), before, 'the root is the same');
  t.ok(readInstalled(dirOf(sandbox), STAMP));

  rmSync(join(sandbox.dir, 'state/store'), { recursive: true });
  const other = await makePki();
  const foreign = [other.certificate, other.root].map(({ der }) => encodePem('CERTIFICATE', der)).join('');
  writeFileSync(unit, foreign);
  const refused = await init(sandbox, '--use-existing-keys');
  t.match(refused, {
    status: 1,
    stderr: /timestamp-2026\.pem is the certificate of another key than local\/timestamp/,
  });
  t.equal(readFileSync(unit, 'utf8'), foreign);
  t.notOk(existsSync(join(sandbox.dir, 'state/store')));
  t.ok(await useKey(token, async () => true), 'the keys stay');
});

t.test('init makes no keys if a certificate exists without its key', async (t) => {
  const sandbox = await uninitialized(t);
  mkdirSync(dirOf(sandbox), { recursive: true });
  writeFileSync(certificateFile(dirOf(sandbox), STAMP), 'of a key that was lost');
  t.match(await init(sandbox), {
    status: 1,
    stderr: /timestamp-2026\.pem exists already.*nothing is overwritten/,
  });
  t.match((await list(sandbox)).stdout, /log\s.*missing\ntime-stamp\s.*missing/, 'and none was made');
});

t.test(
  'init refuses an unfit key and a certificate that would outlive its root, before any change',
  async (t) => {
    const sandbox = await uninitialized(t);
    await initKey({ ...item(sandbox.partitions, 0), ...STAMP }, 'ed25519');
    const unfit = await init(sandbox, '--use-existing-keys');
    t.match(unfit, { status: 1, stderr: /timestamp-2026 is an Ed25519 key, and stock tools/ });
    const outliving = await init(sandbox, '--root-validity', '89d', '--certificate-validity', '90d');
    t.match(outliving, { status: 64, stderr: /certificate cannot outlive its root/ });
    const { stdout } = await list(sandbox);
    t.match(
      stdout,
      /log\s+local\/sandbox-2026\s+missing\ntime-stamp\s+local\/timestamp-2026\s+ed25519\s+key_unsupported/,
    );
  },
);

async function uninitialized(t: Test): Promise<Sandbox> {
  const sandbox = await openSandbox({ stamped: true, init: false });
  t.teardown(() => sandbox.close());
  return sandbox;
}

function init(sandbox: Sandbox, ...args: string[]) {
  return sandbox.pdfseal(['init', '--throwaway', '--config', sandbox.configFile, ...args]);
}

function list(sandbox: Sandbox) {
  return sandbox.pdfseal(['hsm', 'list', '--config', sandbox.configFile]);
}

function dirOf(sandbox: Sandbox): string {
  return join(sandbox.dir, 'state/certificates');
}
