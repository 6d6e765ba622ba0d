/** Against the clamd of Debian's package. */
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { OperatorError } from '../../src/base/errors.ts';
import {
  type ClamdOptions,
  FIT,
  failureOf,
  isAvailable,
  SIGNATURES_BUILT_AT,
  scan,
  startClamd,
  startScanner,
  VIRUS,
  VIRUS_NAME,
} from '../support/clamd.ts';
import { freePort } from '../support/freePort.ts';
import { encryptedPdf } from '../support/pdf.ts';
import { until } from '../support/until.ts';

const CLEAN = Buffer.from('%PDF-1.7\nnothing to find\n%%EOF\n');
const INFECTED = Buffer.from(`%PDF-1.7\n${VIRUS}\n%%EOF\n`);
const MIB = 1024 * 1024;

t.test('clean and infected documents get their verdicts', async (t) => {
  const clamd = await startClamd(t, { settings: [...FIT, 'ExtendedDetectionInfo yes'] });
  const { scanner } = await startScanner(t, clamd.address);
  const by = { engine: scanner.health().version?.engine, signatures: '27410' };
  t.match(by.engine, /^ClamAV \d/);

  t.strictSame(await scan(scanner, CLEAN), { verdict: 'clean', ...by });
  t.strictSame(await scan(scanner, Buffer.alloc(20 * MIB, 'a')), { verdict: 'clean', ...by }, 'a large one');
  t.strictSame(await scan(scanner, CLEAN, 1), { verdict: 'clean', ...by }, 'byte by byte');
  t.equal(await scan(scanner, INFECTED), 'virus_scan_failed');
  t.equal(await scan(scanner, INFECTED, 1), 'virus_scan_failed', 'a virus in pieces');
  const atTheEnd = Buffer.concat([Buffer.alloc(20 * MIB, 'a'), INFECTED]);
  t.equal(await scan(scanner, atTheEnd), 'virus_scan_failed', 'one at the end');
  t.equal(await scan(scanner, encryptedPdf()), 'virus_scan_failed', 'encrypted');

  const found = scanner.scan();
  void found.update(INFECTED);
  const refusal = await failureOf(found.result());
  t.match(refusal.message, `found ${VIRUS_NAME} in the document`);
  t.notMatch(`${refusal.message} ${refusal.cause}`, /[0-9a-f]{32}/, 'no digest of it');

  const withNothing = scanner.scan();
  void withNothing.update(CLEAN);
  void withNothing.update(new Uint8Array(0));
  void withNothing.update(INFECTED);
  t.equal((await failureOf(withNothing.result())).code, 'virus_scan_failed', 'an empty piece is not the end');
});

t.test('an encrypted document is recorded if allowed, unless it is infected', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address, { encrypted: 'record' });
  t.match(await scan(scanner, encryptedPdf()), { verdict: 'encrypted', signatures: '27410' });
  t.equal(await scan(scanner, Buffer.concat([encryptedPdf(), INFECTED])), 'virus_scan_failed');
});

t.test('a document that exceeds a limit of clamd is never clean', async (t) => {
  const limits = ['StreamMaxLength 4M', 'MaxFileSize 2M', 'MaxScanSize 16M'];
  const clamd = await startClamd(t, { settings: ['AlertExceedsMax yes', 'AlertEncrypted yes', ...limits] });
  const { scanner } = await startScanner(t, clamd.address, { documentBytesMax: MIB, encrypted: 'record' });
  const whole = scanner.scan();
  await whole.update(Buffer.alloc(3 * MIB));
  const refusal = await failureOf(whole.result());
  t.equal(refusal.code, 'virus_scan_failed');
  t.match(refusal.message, /exceeds what the virus scanner can scan completely/);
  t.match(refusal.cause, { message: /Limits\.Exceeded\.MaxFileSize/ });
  t.equal(await scan(scanner, gzipSync(Buffer.alloc(3 * MIB))), 'virus_scan_failed', 'something inside');
  t.equal(await scan(scanner, Buffer.alloc(5 * MIB)), 'scanner_unavailable', 'more than StreamMaxLength');
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' }, 'afterwards');
});

t.test('a clamd whose settings make OK meaningless is refused at the start', async (t) => {
  const keyOf = (line: string) => line.split(' ', 1).join('');
  const but = (...lines: string[]) => {
    const replaced = lines.map(keyOf);
    return [...FIT.filter((line) => !replaced.includes(keyOf(line))), ...lines];
  };
  const cases: [string, ClamdOptions, RegExp][] = [
    ['limits are silent', { settings: but('AlertExceedsMax no') }, /AlertExceedsMax yes/],
    ['encryption is silent', { settings: but('AlertEncrypted no') }, /encrypted PDF: set AlertEncrypted yes/],
    [
      'encrypted archives are silent',
      { settings: but('AlertEncrypted no', 'AlertEncryptedDoc yes') },
      /encrypted archive: set AlertEncrypted yes/,
    ],
    ['streams are too short', { settings: but('StreamMaxLength 31M') }, /raise StreamMaxLength/],
    ['files are too small', { settings: but('MaxFileSize 31M') }, /raise MaxFileSize.*Exceeded\.MaxFileSize/],
    ['scans are too small', { settings: but('MaxScanSize 31M') }, /MaxScanSize .*Exceeded\.MaxScanSize/],
    ['it finds nothing', { eicar: false }, /does not find the EICAR test file/],
  ];
  for (const [name, options, message] of cases) {
    const clamd = await startClamd(t, options);
    const error = await startScanner(t, clamd.address).catch((reason: unknown) => reason);
    t.ok(error instanceof OperatorError, name);
    t.match(error, { message }, name);
    await clamd.stop();
  }
});

t.test('a scan names the signatures it was made with, even after an update', async (t) => {
  const clamd = await startClamd(t, { signatures: 27_410 });
  const { scanner } = await startScanner(t, clamd.address);
  t.match(scanner.health(), {
    version: { signatures: '27410', signaturesBuiltAt: SIGNATURES_BUILT_AT },
    detail: /^ClamAV .*, signatures 27410$/,
  });
  clamd.writeSignatures(27_411);
  clamd.reload();
  await until('the new signatures are used', () => scanner.health().version?.signatures === '27411');
  t.match(await scan(scanner, CLEAN), { verdict: 'clean', signatures: '27411' });
  t.equal(await scan(scanner, INFECTED), 'virus_scan_failed');

  clamd.writeSignatures(27_412, false);
  clamd.reload();
  await until('signatures that find less are noticed', () => scanner.health().trouble === 'unfit');
  t.equal(await scan(scanner, CLEAN), 'scanner_unavailable');
});

t.test('more documents than connections are scanned correctly', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address, { connectionsMax: 3 });
  const documents = Array.from({ length: 30 }, (_, i) => {
    const text = i % 3 === 0 ? VIRUS : 'nothing';
    return Buffer.concat([Buffer.alloc(i * 10_000, 'a'), Buffer.from(text)]);
  });
  let connections = 0;
  const verdicts = await Promise.all(
    documents.map(async (document) => {
      const verdict = await scan(scanner, document, 7_001);
      connections = Math.max(connections, scanner.health().connections);
      return verdict;
    }),
  );
  for (const [i, verdict] of verdicts.entries()) {
    if (i % 3 === 0) t.equal(verdict, 'virus_scan_failed', `document ${i}`);
    else t.match(verdict, { verdict: 'clean' }, `document ${i}`);
  }
  t.equal(connections, 3);
});

t.test('abandoned documents make room for others', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address, { connectionsMax: 2, intervalMs: 600_000 });
  for (let i = 0; i < 10; i += 1) {
    const one = scanner.scan();
    const room = one.update(CLEAN);
    if (i % 2 === 0) await room;
    one.abort();
    one.abort();
  }
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' });
  await until('nothing is in use', () => scanner.health().connectionsInUse === 0);
});

t.test('a document that waits too long for a connection is refused', async (t) => {
  const clamd = await startClamd(t);
  const options = { connectionsMax: 1, timeoutMs: 1_000, intervalMs: 600_000 };
  const { scanner } = await startScanner(t, clamd.address, options);
  const slow = scanner.scan();
  await slow.update(CLEAN);
  const refusal = await failureOf(scanner.scan().result());
  t.equal(refusal.code, 'scanner_unavailable');
  t.match(refusal.cause, { trouble: 'busy', message: /raise scan\.connections_max/ });
  t.ok(isAvailable(scanner), 'which is no trouble of clamd');
  t.match(await slow.result(), { verdict: 'clean' });
});

t.test('a document is read at the speed of clamd', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address, { intervalMs: 600_000 });
  const one = scanner.scan();
  await one.update(CLEAN);
  process.kill(clamd.pid, 'SIGSTOP');
  const piece = Buffer.alloc(64 * 1024);
  let bytes = 0;
  let room: Promise<void> | undefined;
  while (room === undefined && bytes < 16 * MIB) {
    room = one.update(piece);
    bytes += piece.length;
  }
  t.ok(bytes < 4 * MIB, `${bytes} bytes were taken`);
  process.kill(clamd.pid, 'SIGCONT');
  await room;
  t.match(await one.result(), { verdict: 'clean' });
});

t.test('a scanner recovers when clamd returns', async (t) => {
  const clamd = await startClamd(t);
  const { scanner, log } = await startScanner(t, clamd.address);
  const underWay = scanner.scan();
  await underWay.update(CLEAN);
  await clamd.stop();
  t.match(await failureOf(underWay.result()), { code: 'scanner_unavailable', cause: { trouble: 'closed' } });
  t.equal(await scan(scanner, CLEAN), 'scanner_unavailable');
  await until('it is missed', () => !isAvailable(scanner));
  t.throws(() => scanner.admit(), { code: 'scanner_unavailable', retryAfterSeconds: 5 });
  await until('it is gone', () => scanner.health().trouble === 'unreachable');

  clamd.configure({ settings: FIT.filter((line) => line !== 'AlertExceedsMax yes') });
  await clamd.start();
  await until('it is found wanting', () => scanner.health().trouble === 'unfit');
  t.equal(await scan(scanner, CLEAN), 'scanner_unavailable', 'it came back and is not to be trusted');
  await clamd.stop();

  clamd.configure({});
  await clamd.start();
  await until('it is back', () => isAvailable(scanner));
  scanner.admit();
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' });
  const told = log();
  t.match(told.at(-1), { level: 'info', signatures: '27410', msg: 'the virus scanner is available' });
  t.ok(told.length < 15, `it is told when it changes, not at every look: ${told.length} lines`);
});

t.test('a daemon can start before clamd', async (t) => {
  const clamd = await startClamd(t);
  await clamd.stop();
  const { scanner } = await startScanner(t, clamd.address);
  t.equal(scanner.health().trouble, 'unreachable');
  t.throws(() => scanner.admit(), { code: 'scanner_unavailable' });
  await clamd.start();
  await until('it is found', () => isAvailable(scanner));
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' });
});

t.test('a clamd that hangs is given up, and used again when it answers', async (t) => {
  const clamd = await startClamd(t);
  const { scanner } = await startScanner(t, clamd.address, { timeoutMs: 1_000 });
  process.kill(clamd.pid, 'SIGSTOP');
  t.equal(await scan(scanner, CLEAN), 'scanner_unavailable');
  await until('it is missed', () => scanner.health().trouble === 'timed_out');
  process.kill(clamd.pid, 'SIGCONT');
  await until('it is back', () => isAvailable(scanner));
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' });
});

t.test('clamd can close idle connections', async (t) => {
  const clamd = await startClamd(t, { settings: [...FIT, 'ReadTimeout 1', 'CommandReadTimeout 1'] });
  const { scanner } = await startScanner(t, clamd.address, { intervalMs: 600_000 });
  t.equal(scanner.health().connections, 1);
  await until('it closed it', () => scanner.health().connections === 0);
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' });
});

t.test('documents are scanned over TCP', async (t) => {
  const port = await freePort();
  await startClamd(t, { port });
  const { scanner } = await startScanner(t, { host: '127.0.0.1', port });
  t.match(await scan(scanner, CLEAN), { verdict: 'clean', signatures: '27410' });
  t.equal(await scan(scanner, Buffer.concat([Buffer.alloc(5 * MIB), INFECTED])), 'virus_scan_failed');
});
