import { appendFileSync, chmodSync, copyFileSync, readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { toRfc3339 } from '../../src/base/clock.ts';
import { diagnoseServed, diagnoseTls } from '../../src/cli/doctor/certificateDiagnosis.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { readTls } from '../../src/web/tls.ts';
import { issueCertificate, makeAuthority, revoke } from '../support/certificates.ts';

const DAY_MS = 86_400_000;

/** A pair for 127.0.0.1 that lasts so many days. */
function makePair(t: Test, days = 365) {
  const dir = t.testdir();
  const authority = makeAuthority(dir, 'authority');
  const pair = issueCertificate(dir, 'server', authority, days);
  const look = (inDays = 0, publicUrl = 'https://127.0.0.1:8400') => {
    const diagnoses = diagnoseTls(
      { table: 'http.tls', files: pair, publicUrl },
      Date.now() + inDays * DAY_MS,
    );
    return diagnoses.filter(({ verdict }) => verdict !== 'good');
  };
  return { dir, authority, pair, look };
}

t.test('a correct TLS pair is good, and its dates are shown', async (t) => {
  const { pair, look } = makePair(t);
  t.strictSame(look(), []);
  const [key, chain, name, dates] = diagnoseTls(
    { table: 'http.tls', files: pair, publicUrl: 'https://localhost' },
    Date.now(),
  );
  t.match(key?.detail, / is the key of the certificate, readable by user \d+$/);
  t.match(chain?.detail, '1 of 1 certificates');
  t.match(name?.detail, 'for localhost');
  t.match(dates, {
    check: 'certificate http.tls (server)',
    detail: /^CN=server, until .*: 36[45] days left$/,
  });
  t.match(diagnoseTls({ table: 'console.tls', files: pair }, Date.now()), [
    { check: 'TLS pair' },
    { check: 'TLS chain' },
    { check: 'certificate console.tls (server)', verdict: 'good' },
  ]);
});

t.test('a revocation list is shown with its dates', async (t) => {
  const { dir, authority, pair } = makePair(t);
  const clientCrlFile = `${dir}/list.crl`;
  const files = { ...pair, clientCaFile: authority.certificateFile, clientCrlFile };
  const look = (issuedDaysAgo: number) => {
    revoke(dir, clientCrlFile, authority, [], { issuedDaysAgo });
    return diagnoseTls({ table: 'http.tls', files }, Date.now()).at(-1);
  };
  const check = 'revocation list http.tls';
  const detail =
    /^CN=authority, issued \d{4}-\d\d-\d\dT\d\d:\d\dZ, the next one by .*Z: (?:\d+ days left|expired)$/;
  t.match(look(0), { check, verdict: 'good', detail });
  t.match(look(22), { check, verdict: 'warning', detail, remedy: /put the newest list/ });
  t.match(look(31), { check, verdict: 'bad', detail: /: expired$/ });
});

t.test('a key that others can read or that does not fit its certificate is reported', async (t) => {
  const { dir, authority, pair, look } = makePair(t);
  chmodSync(pair.keyFile, 0o604);
  t.match(look(), [{ check: 'TLS pair', verdict: 'bad', detail: /others than owner and group/ }]);
  chmodSync(pair.keyFile, 0o660);
  t.match(look(), [{ check: 'TLS pair', verdict: 'warning', detail: /and group \d+, whose members/ }]);
  copyFileSync(issueCertificate(dir, 'other', authority).keyFile, pair.keyFile);
  t.match(look(), [
    { check: 'TLS pair', verdict: 'bad', detail: /cannot be used together/, remedy: /correct/ },
  ]);
});

t.test('a daemon that serves another pair than the files hold is reported', async (t) => {
  const { dir, authority, pair } = makePair(t);
  const look = (files = pair, certificates = readTls('http.tls', pair).all) => {
    const shown = certificates.map(({ role, subject, notAfter }) => ({
      authority: 'http.tls',
      role,
      subject,
      not_after: toRfc3339(notAfter),
    }));
    const status = { certificates: shown } as unknown as AdminStatus;
    return diagnoseServed({ table: 'http.tls', files }, status);
  };
  t.match(look(), [{ check: 'TLS served', verdict: 'good' }]);
  const renewed = issueCertificate(dir, 'renewed', authority);
  t.match(look(renewed), [{ verdict: 'warning', detail: /serves CN=server until/, remedy: /reload/ }]);
  t.match(look(pair, []), [{ verdict: 'warning', detail: /does not serve http\.tls yet/ }]);
});

t.test('a chain in the wrong order and a certificate for another name are reported', async (t) => {
  const { dir, authority, pair, look } = makePair(t);
  appendFileSync(pair.certificateFile, readFileSync(authority.certificateFile));
  t.strictSame(look(), [], 'its authority follows');
  appendFileSync(pair.certificateFile, readFileSync(makeAuthority(dir, 'stranger').certificateFile));
  t.match(look(), [{ check: 'TLS chain', verdict: 'warning', detail: /^certificate 3 of .*server\.pem/ }]);
  const [, name] = look(0, 'https://seal.example.com');
  t.match(name, {
    check: 'TLS name',
    verdict: 'warning',
    detail: /not for seal\.example\.com.*DNS:localhost/,
  });
  t.equal(
    look()[0]?.remedy,
    'put the server’s certificate first, then the issuer of each certificate after it',
  );
});

t.test('how early an ending certificate is reported depends on its lifetime', async (t) => {
  const verdicts = (look: (inDays: number) => { verdict: string }[], days: number[]) =>
    days.map((inDays) => look(inDays)[0]?.verdict ?? 'good');
  const year = makePair(t);
  t.strictSame(verdicts(year.look, [300, 310, 356, 359, 400, -2]), [
    'good',
    'warning',
    'warning',
    'bad',
    'bad',
    'bad',
  ]);
  const quarter = makePair(t, 90);
  t.strictSame(verdicts(quarter.look, [50, 61, 84]), ['good', 'warning', 'bad']);
});
