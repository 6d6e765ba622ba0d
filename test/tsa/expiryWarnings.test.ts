import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { encodePem } from '../../src/asn1/pem.ts';
import { type Revocation, revocationsIn } from '../../src/asn1/revocationList.ts';
import { writeFileAtomically } from '../../src/base/atomicFile.ts';
import { daysLeft } from '../../src/base/validity.ts';
import { listCertificates, validityOf } from '../../src/tsa/certificateList.ts';
import { expiryWarnings, startExpiryWarnings } from '../../src/tsa/expiryWarnings.ts';
import { certificateFile } from '../../src/tsa/installed.ts';
import { issueRevocationList } from '../../src/tsa/pki.ts';
import { followRevocationLists, revocationFile } from '../../src/tsa/revocationFiles.ts';
import { DAY_MS, makePki, NOON } from '../support/authority.ts';

const pki = await makePki();
const { notAfter } = pki.certificate;
const KEY = { region: 'eu', keyLabel: 'stamp' };

/** The certificates of one key, installed, and what is logged of them as days go by. */
function makeWatch(t: Test) {
  const dir = t.testdir();
  const file = certificateFile(dir, KEY);
  mkdirSync(dir, { recursive: true });
  writeFileSync(file, pki.unit.chain.map(({ der }) => encodePem('CERTIFICATE', der)).join(''));
  const lines: Record<string, unknown>[] = [];
  const logger = pino(
    { formatters: { level: (level) => ({ level }) } },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  );
  let now = 0;
  const options = { sources: { certificatesDir: dir, keys: [KEY], remotes: {} }, clock: () => now, logger };
  const setDaysLeft = (days: number) => (now = notAfter - days * DAY_MS);
  return { options, file, setDaysLeft, said: () => lines.splice(0), warn: expiryWarnings(options) };
}

t.test('an ending certificate is reported daily from 60 days on, as an error in its last week', async (t) => {
  const { setDaysLeft, said, warn } = makeWatch(t);
  const look = (days: number) => {
    setDaysLeft(days);
    warn();
    return said().map(({ level, urgency, days_left }) => [level, urgency, days_left]);
  };
  t.strictSame(look(61.5), []);
  t.strictSame(look(60.5), [['warn', 'ahead', 60]]);
  t.strictSame(look(60.499), [], 'once a day');
  t.strictSame(look(59.5), [['warn', 'ahead', 59]]);
  t.strictSame(look(30.5), [['warn', 'soon', 30]]);
  t.strictSame(look(7.5), [['error', 'urgent', 7]]);
  t.strictSame(look(-1.5), [['error', 'urgent', -2]]);
});

t.test('a missing certificate is reported', async (t) => {
  const { file, setDaysLeft, said, warn } = makeWatch(t);
  setDaysLeft(100);
  warn();
  t.strictSame(said(), []);
  rmSync(file);
  warn();
  warn();
  t.match(said(), [{ level: 'error', authority: 'built-in eu/stamp', detail: /has no certificate/ }]);
});

t.test('the watch looks at the start, and can be stopped', async (t) => {
  const { options, setDaysLeft, said } = makeWatch(t);
  setDaysLeft(20);
  startExpiryWarnings(options)();
  t.match(said(), [{ level: 'warn', not_after: new Date(notAfter).toISOString(), urgency: 'soon' }]);
});

t.test('all certificates are listed, whatever their state', async (t) => {
  const { options, file } = makeWatch(t);
  const remotes = { acme: { rootsFile: join(file, '..', 'none.pem') } };
  const list = listCertificates({ ...options.sources, remotes });
  t.match(list, [
    { authority: 'built-in eu/stamp', role: 'time-stamping' },
    { authority: 'built-in eu/stamp', role: 'root' },
    { authority: 'acme', role: 'root', found: { missing: /cannot read .*none\.pem \(no such file/ } },
  ]);
  const states = (now: number) => list.map((entry) => validityOf(entry, now));
  t.strictSame(states(notAfter), ['valid', 'valid', 'missing']);
  t.strictSame(states(notAfter + 1)[0], 'expired');
  t.strictSame(states(0)[0], 'not_yet_valid');
  t.equal(daysLeft({ notAfter: 0 }, 1), -1);
});

async function writeList(dir: string, revoked: Revocation[]): Promise<void> {
  const thisUpdate = notAfter - 200 * DAY_MS;
  const terms = { issuer: pki.root, thisUpdate, nextUpdate: thisUpdate + 90 * DAY_MS, number: 5, revoked };
  const { der } = await issueRevocationList(terms, pki.rootKey);
  writeFileSync(revocationFile(dir, { ...KEY, keyLabel: 'stamp-root' }), encodePem('X509 CRL', der));
}

t.test('a revocation list is reported in the last third of its time, and when it is damaged', async (t) => {
  const { options, setDaysLeft, said, warn } = makeWatch(t);
  const dir = options.sources.certificatesDir;
  await writeList(dir, []);
  const look = (days: number) => {
    setDaysLeft(days);
    warn();
    return said().map(({ level, role, msg }) => [level, role, msg]);
  };
  t.strictSame(look(199), []);
  t.match(look(139), [['warn', 'revocation-list', /sign a new one with `pdfseal hsm sign-revocation-list`/]]);
  t.match(look(118), [['error', 'revocation-list', /has expired or expires soon/]]);
  t.match(listCertificates(options.sources).at(-1), {
    role: 'revocation-list',
    found: { subjectName: /CN=Root/, serial: '5' },
  });
  writeFileSync(join(dir, 'eu_stamp-root.crl'), 'damaged');
  t.match(look(100), [['error', 'revocation-list', /cannot be read/]]);
});

t.test('a revoked certificate is an error, as long as it is installed', async (t) => {
  const { options, setDaysLeft, said, warn } = makeWatch(t);
  const { serial } = pki.certificate;
  await writeList(options.sources.certificatesDir, [{ serial, revokedAt: NOON, reason: 'superseded' }]);
  setDaysLeft(199);
  warn();
  t.match(said(), [{ level: 'error', role: 'time-stamping', msg: /was revoked: it stamps nothing more/ }]);
  const states = listCertificates(options.sources).map((entry) => validityOf(entry, notAfter - 199 * DAY_MS));
  t.strictSame(states, ['revoked', 'valid', 'valid']);
});

t.test('the lists are read again when a file is another, and a damaged one takes nothing away', async (t) => {
  const { options } = makeWatch(t);
  const dir = options.sources.certificatesDir;
  const lists = followRevocationLists(dir);
  t.equal(lists().length, 0);
  const { serial } = pki.certificate;
  await writeList(dir, [{ serial, revokedAt: NOON, reason: 'superseded' }]);
  t.equal(revocationsIn(pki.unit.chain, lists()).length, 1);
  writeFileAtomically(join(dir, 'eu_stamp-root.crl'), 'damaged');
  t.equal(revocationsIn(pki.unit.chain, lists()).length, 1);
  t.throws(() => followRevocationLists(dir), { name: 'OperatorError', message: /eu_stamp-root\.crl: / });
});

t.test('two keys never share a file', async (t) => {
  const files = [
    { region: 'eu', keyLabel: 'west-1' },
    { region: 'eu-west', keyLabel: '1' },
    { region: 'eu', keyLabel: 'west_1' },
  ].map((name) => certificateFile('certificates', name));
  t.equal(new Set(files).size, files.length);
});
