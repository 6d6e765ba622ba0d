/** Revocation of certificates of the built-in authority: by commands, with the root in the HSM. */
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { certificateFile, readInstalled } from '../../src/tsa/installed.ts';
import { issueRevocationList } from '../../src/tsa/pki.ts';
import { readRevocationFile, revocationFile } from '../../src/tsa/revocationFiles.ts';
import { makePki } from '../support/authority.ts';
import { openssl } from '../support/certificates.ts';
import { openSandbox } from '../support/sandbox.ts';

const STAMP = { region: 'local', keyLabel: 'timestamp-2026' };
const ROOT = { region: 'local', keyLabel: 'timestamp-2026-root' };

t.test('from the first list to the theft of the key', async (t) => {
  const sandbox = await openSandbox({ stamped: true });
  t.teardown(() => sandbox.close());
  const pdfseal = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  const certificates = join(sandbox.dir, 'state/certificates');
  const [unit, root] = [certificateFile(certificates, STAMP), certificateFile(certificates, ROOT)];
  const file = revocationFile(certificates, ROOT);
  const sign = (...args: string[]) => pdfseal('hsm', 'sign-revocation-list', ...args);
  const revoke = (...args: string[]) => pdfseal('hsm', 'revoke-certificate', ...args);
  const acts = async () => (await pdfseal('audit', 'list', '--act', 'hsm')).stdout;

  await t.test('the first list is empty, OpenSSL verifies it, and the trust file has it', async (t) => {
    t.notOk('revocationLists' in parseTrust((await pdfseal('trust', 'export')).stdout));
    const { status, stdout, stderr } = await sign('--validity', '40d');
    t.equal(status, 0, stderr);
    t.match(stdout, /^list {5}local\/timestamp-2026-root {2}number \d+ {2}0 certificates {2}next list due /);
    t.match(openssl('crl', '-in', file, '-CAfile', root, '-noout'), { status: 0, output: /verify OK/ });
    const list = readRevocationFile(file);
    t.equal((list.nextUpdate ?? 0) - list.thisUpdate, 40 * 86_400_000);
    const other = await makePki();
    const terms = { thisUpdate: Date.now(), nextUpdate: Date.now() + 86_400_000, number: 1, revoked: [] };
    const foreign = await issueRevocationList({ ...terms, issuer: other.root }, other.rootKey);
    writeFileSync(join(certificates, 'foreign.crl'), foreign.der);
    const exported = parseTrust((await pdfseal('trust', 'export')).stdout);
    t.strictSame(
      exported.revocationLists?.map(({ der }) => der),
      [list.der],
    );
    rmSync(join(certificates, 'foreign.crl'));
    t.match(await acts(), /hsm\.sign_revocation_list/);
    t.match((await pdfseal('hsm', 'certificates')).stdout, /revocation-list +valid/);
  });

  await t.test('the next list has a higher number', async (t) => {
    const before = readRevocationFile(file).number ?? 0n;
    const { lists } = JSON.parse((await sign('--json')).stdout);
    t.match(lists, [{ root: 'local/timestamp-2026-root', entries: 0, file }]);
    t.ok(BigInt(lists[0].number) > before);
  });

  await t.test('an installed certificate, and one of another authority, are not revoked', async (t) => {
    const before = readFileSync(file, 'utf8');
    t.match(await revoke('local/timestamp-2026', '--reason', 'superseded'), {
      status: 1,
      stderr: /is installed for local\/timestamp-2026, .*nothing would be stamped any more.*--in-use/,
    });
    const stranger = join(sandbox.dir, 'stranger.pem');
    const { certificate, root: other } = await makePki();
    writeFileSync(stranger, certificate.der);
    t.match(await revoke(stranger, '--reason', 'superseded'), {
      status: 1,
      stderr: /was issued by none of the roots in the HSM/,
    });
    writeFileSync(stranger, other.der);
    t.match(await revoke(stranger, '--reason', 'superseded'), {
      status: 1,
      stderr: /a root cannot revoke itself/,
    });
    const future = ['--reason', 'key-compromise', '--invalid-since', '2999-01-01', '--in-use'];
    t.match(await revoke('local/timestamp-2026', ...future), { status: 1, stderr: /is in the future/ });
    t.equal(readFileSync(file, 'utf8'), before);
  });

  const old = join(sandbox.dir, 'old.pem');
  await t.test('a replaced certificate is revoked, once, and stays on the list', async (t) => {
    copyFileSync(unit, old);
    t.equal((await pdfseal('hsm', 'certify')).status, 0);
    const { status, stdout, stderr } = await revoke(old, '--reason', 'superseded');
    t.equal(status, 0, stderr);
    t.match(stdout, /^revoked {2}.*time-stamping {2}superseded\nlist .* 1 certificates/);
    t.match(openssl('crl', '-in', file, '-noout', '-text').output, /Superseded/);
    t.match(await acts(), /hsm\.revoke_certificate .*reason=superseded/);
    t.match(await revoke(old, '--reason', 'superseded'), { status: 1, stderr: /is on the list already/ });
    t.match(JSON.parse((await sign('--json')).stdout), { lists: [{ entries: 1 }] });
    t.equal((await pdfseal('hsm', 'certificates')).status, 0, 'the one that is installed is valid');
  });

  await t.test('a stolen key takes all its certificates with it', async (t) => {
    const args = ['--reason', 'key-compromise', '--invalid-since', '2026-01-01', '--in-use'];
    const { status, stdout, stderr } = await revoke('local/timestamp-2026', ...args);
    t.equal(status, 0, stderr);
    t.match(stdout, /^(revoked .*key-compromise\n){2}list .* 2 certificates/);
    const reasons = [...readRevocationFile(file).revoked.values()].map(({ reason }) => reason);
    t.strictSame(reasons, ['keyCompromise', 'keyCompromise'], 'also the one that had been replaced');
    t.match(await revoke('local/timestamp-2026', ...args), { status: 1, stderr: /is on the list already/ });
    const earlier = args.with(3, '2025-06-01');
    t.equal((await revoke('local/timestamp-2026', ...earlier)).status, 0);
    const since = [...readRevocationFile(file).revoked.values()].map((one) => one.invalidSince);
    t.strictSame(since, [Date.parse('2025-06-01'), Date.parse('2025-06-01')]);
    t.match(await pdfseal('hsm', 'certificates'), { status: 1, stdout: /time-stamping +revoked/ });
    t.match(await pdfseal('hsm', 'certify'), {
      status: 1,
      stderr: /was revoked as compromised, so it gets no new certificate: .*init-key/,
    });
    t.match((await pdfseal('doctor')).stdout, /was revoked: it stamps nothing/);
  });

  await t.test('a root still signs its list once its key is no longer configured', async (t) => {
    const text = readFileSync(sandbox.configFile, 'utf8');
    writeFileSync(sandbox.configFile, text.replaceAll('timestamp-2026', 'timestamp-2027'));
    t.match(JSON.parse((await sign('--json')).stdout), {
      lists: [{ root: 'local/timestamp-2026-root', entries: 2 }],
    });
    writeFileSync(sandbox.configFile, text);
  });

  await t.test('entries are not lost with the file', async (t) => {
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.replace(/\n..../, '\nAAAA'));
    t.match(await sign(), { status: 1, stderr: /cannot be used: [\s\S]*backup/ });
    t.match(await pdfseal('trust', 'export'), { status: 1, stderr: /local_timestamp-2026-root\.crl/ });
    t.match((await pdfseal('hsm', 'certificates')).stdout, /revocation-list +missing/);
    rmSync(file);
    t.match(await sign(), { status: 1, stderr: /is missing, and the audit trail has 3 revocations/ });
    t.notOk(existsSync(file));
    writeFileSync(file, text);
    t.equal((await sign()).status, 0);
    t.equal(readRevocationFile(file).revoked.size, 2);
    t.notOk(readdirSync(certificates).some((name) => name.endsWith('.new')));
    t.ok(readInstalled(certificates, STAMP));
  });
});
