import t from 'tap';
import { parseScanAnswer, parseVersion } from '../../src/scan/clamdReply.ts';
import { fc, tries } from '../support/seed.ts';

t.test('the version of clamd is read with engine, signatures and build time', async (t) => {
  t.strictSame(parseVersion('ClamAV 1.4.3/27410/Sat Nov 21 08:12:00 2026'), {
    engine: 'ClamAV 1.4.3',
    signatures: '27410',
    signaturesBuiltAt: new Date(2026, 10, 21, 8, 12).getTime(),
  });
  t.strictSame(parseVersion('ClamAV 1.4.3'), { engine: 'ClamAV 1.4.3' });
  t.strictSame(parseVersion('ClamAV 1.5.0-rc/1/x'), { engine: 'ClamAV 1.5.0-rc', signatures: '1' });
  for (const text of [
    '',
    'COMMAND UNAVAILABLE',
    'ClamAV',
    'ClamAV \u0000',
    'ClamAV 1/27410',
    'xClamAV 1.4',
  ]) {
    t.equal(parseVersion(text), undefined, JSON.stringify(text));
  }
});

t.test('an answer of clamd is clean, found, incomplete, encrypted or an error', async (t) => {
  const limit = 'Heuristics.Limits.Exceeded.MaxFileSize';
  const cases = [
    ['stream: OK', { kind: 'clean' }],
    ['stream: Eicar-Signature FOUND', { kind: 'found', name: 'Eicar-Signature' }],
    ['stream: Win.Test(69630e4574ec6798239b091cda43dca0:69) FOUND', { kind: 'found', name: 'Win.Test' }],
    [`stream: ${limit} FOUND`, { kind: 'incomplete', name: limit }],
    ['stream: Heuristics.Limits.Exceeded FOUND', { kind: 'incomplete', name: 'Heuristics.Limits.Exceeded' }],
    ['stream: Heuristics.Encrypted.PDF FOUND', { kind: 'encrypted', name: 'Heuristics.Encrypted.PDF' }],
    ['stream: Heuristics.EncryptedX FOUND', { kind: 'found', name: 'Heuristics.EncryptedX' }],
    ["stream: Can't allocate memory ERROR", { kind: 'error', text: "stream: Can't allocate memory ERROR" }],
  ] as const;
  for (const [text, answer] of cases) t.strictSame(parseScanAnswer(text), answer, text);
  t.strictSame(parseScanAnswer(`stream: \u001b[31m${'x'.repeat(500)} FOUND`), {
    kind: 'found',
    name: `?[31m${'x'.repeat(123)}`,
  });
});

t.test('nothing but OK is clean', async (t) => {
  for (const text of [
    '',
    'OK',
    'stream: ok',
    'stream: OK ',
    'stream: OK\n',
    ' stream: OK',
    'x\nstream: OK',
  ]) {
    t.equal(parseScanAnswer(text).kind, 'error', JSON.stringify(text));
  }
  const notClean = fc.property(
    fc.string(),
    (text) => parseScanAnswer(`stream: ${text}`).kind !== 'clean' || text === 'OK',
  );
  t.doesNotThrow(() => fc.assert(notClean, { numRuns: tries(1000) }));
});
