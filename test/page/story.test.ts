/** What the page says of each kind of receipt, word for word. */
import t from 'tap';
import { english } from '../../page/english.ts';
import { tell, tellCheck } from '../../page/story.ts';
import { plainText, visible } from '../../page/text.ts';
import { localTime, utcTime, wordsFor } from '../../page/words.ts';
import { provenBy } from '../../src/prove/verify/proven.ts';
import { verifyReceiptText } from '../../src/prove/verify/verify.ts';
import { digestsOf, makeFixtures, ORIGIN } from '../support/receipts.ts';

const fixtures = await makeFixtures();

function judge(name: string) {
  const fixture = fixtures.find((one) => one.name === name);
  if (fixture === undefined) throw new Error(`no ${name}`);
  const { receipt, trust, document } = fixture;
  const verdict = verifyReceiptText(receipt, trust, digestsOf(document));
  return { verdict, proven: provenBy(receipt, trust, verdict) };
}

function storyOf(name: string): string[] {
  const { verdict, proven } = judge(name);
  const { lead, more } = tell(verdict, proven, english);
  return [lead, ...more].map((text) => plainText(text).replaceAll('\u00a0', ' '));
}

const SEALED = `This document was sealed on 21 November 2026, 23:38:51 UTC (± 1 s), by ${ORIGIN}.`;
const SOFTWARE = 'One of the signing keys is a software key, which no hardware security module protects.';
const SCANNED = 'It was scanned for viruses, and none was found.';

t.test('a verdict is told in the right sentences', async (t) => {
  for (const [name, ...sentences] of [
    ['good', SEALED, 'It has not changed since.', SCANNED, SOFTWARE],
    ['not scanned', SEALED, 'It has not changed since.', 'It was not scanned for viruses.', SOFTWARE],
    [
      'digest',
      SEALED,
      'It has not changed since.',
      'It was not scanned for viruses: the service received only its digests.',
      SOFTWARE,
    ],
    [
      'copy',
      SEALED.replace('This document was', 'This is the copy without metadata of a document that was'),
      'The copy has not changed since. It is not the document as the service received it.',
      'It was not scanned for viruses.',
      SOFTWARE,
    ],
    [
      'audit',
      SEALED.replace('document', 'record of the service’s own audit trail'),
      'It has not changed since.',
      SOFTWARE,
    ],
    [
      'sandbox',
      SEALED,
      'It has not changed since.',
      SCANNED,
      'It was sealed in the environment sandbox, which by its name is for tests.',
      SOFTWARE,
    ],
    [
      'no time-stamp',
      SEALED.replace(' (± 1 s)', ''),
      'It has not changed since.',
      SCANNED,
      'Only the service states this time: no time-stamp authority confirms it.',
      SOFTWARE,
    ],
    [
      'other document',
      'This is not the document of this receipt.',
      `The receipt itself is genuine: it is for another document, sealed on 21 November 2026, 23:38:51 UTC (± 1 s), by ${ORIGIN}.`,
    ],
    ['canary', 'This receipt is not for a document.'],
    ['other reference', 'This receipt contradicts its own statement.'],
    ['altered', 'This receipt is damaged or was altered.'],
    ['forged', 'The trust file does not list the keys that signed.'],
    ['too few', 'The log did not sign this receipt as the trust file requires.'],
    ['other environment', 'This receipt does not match its log.'],
    ['time-stamp missing', 'The time of this receipt is not proven.'],
    ['no receipt', 'This receipt is damaged or was altered.'],
    ['newer', 'This page is too old for this receipt.'],
    ['other log', 'The trust file does not list the log of this receipt.'],
    ['no trust file', 'The trust file cannot be read.'],
    [
      'proof',
      'It is not proven when this document was sealed.',
      `The log ${ORIGIN} contains exactly this document.`,
    ],
    [
      'not witnessed',
      'Too few witnesses have cosigned this log.',
      `The log ${ORIGIN} contains exactly this document.`,
    ],
  ] as const)
    t.strictSame(storyOf(name), sentences, name);
});

t.test('every verdict except good has a remedy, and none states an unproven time', async (t) => {
  for (const { name, outcome } of fixtures) {
    const { verdict, proven } = judge(name);
    const { lead, more, remedy } = tell(verdict, proven, english);
    t.equal(remedy === undefined, outcome === 'good', name);
    const said = [lead, ...more].map(plainText).join(' ');
    t.equal(/\d\d:\d\d/.test(said), outcome === 'good' || name === 'other document', name);
    for (const check of verdict.checks) t.match(tellCheck(check, verdict, proven, english), /^[A-Z].*\.$/);
  }
});

t.test('a check states its finding', async (t) => {
  const said = (name: string, check: string) => {
    const { verdict, proven } = judge(name);
    const found = verdict.checks.find((one) => one.name === check);
    return found && tellCheck(found, verdict, proven, english);
  };
  t.equal(said('good', 'time-stamp'), english.checks.stamped);
  t.equal(said('no time-stamp', 'time-stamp'), english.checks.ownWord);
  t.equal(said('copy', 'document'), english.checks.copy);
  t.equal(said('canary', 'manifest'), english.checks.canary);
  t.equal(said('proof', 'manifest'), english.checks.ofProof);
});

t.test('a check that passed states its finding and no more, whatever the verdict', async (t) => {
  const said = (name: string) => {
    const { verdict, proven } = judge(name);
    return verdict.checks.map((check) => tellCheck(check, verdict, proven, english));
  };
  const [receipt, document, leaf, checkpoint, epoch] = [
    'The receipt is intact: its checksum matches.',
    'The document is, byte for byte, the one that this receipt describes.',
    'The statement is in the log, in the state that the receipt shows.',
    'The receipt names a log of the trust file.',
    'The trust file has keys of the log for the time that the receipt states.',
  ];
  const times = [
    'The dates follow each other, and none is in the future.',
    'Whether the certificate of the time-stamp was revoked is not shown.',
  ];
  t.strictSame(said('too few'), [
    ...[receipt, document, 'The receipt agrees with the statement in it.', leaf, checkpoint],
    'The log has not signed this as the trust file requires.',
    'The time-stamps are as the trust file requires.',
    epoch,
    ...times,
  ]);
  t.strictSame(said('other reference'), [
    ...[receipt, document, 'The statement does not belong to such a receipt.', leaf, checkpoint],
    'Enough keys of the log have signed.',
    english.checks.stamped,
    epoch,
    ...times,
  ]);
  t.equal(
    english.checks.words['evidence-record']?.passed,
    'The evidence record proves today that the state of the log in the receipt existed then.',
  );
});

t.test('each fault of an evidence record has its own remedy', async (t) => {
  const { verdict, proven } = judge('good');
  for (const [outcome, fault, lead, remedy] of [
    ['bad', 'imprint', 'The evidence record does not prove this receipt.', /belongs to this receipt/],
    ['bad', 'gap', 'The evidence record was renewed too late.', /another record/],
    ['bad', 'authority', /^The trust file does not trust a time-stamp/, /old trust file/],
    ['unknown', 'expired', 'The evidence record has expired.', /the newest record/],
    ['unknown', 'future', /dated later than the clock/, /^Set the clock/],
    [
      'unknown',
      'untrusted',
      'The trust file does not list the authority that time-stamped the evidence record.',
      /trust file/,
    ],
    ['unknown', 'unsupported', /does not support this kind/, /newer version of this page/],
    ['unknown', undefined, 'The evidence record cannot be checked.', /newest record and trust file/],
  ] as const) {
    const finding = { outcome: outcome === 'bad' ? 'failed' : 'unknown', detail: '' } as const;
    const code = `evidence_record_${finding.outcome}`;
    const checks = [...verdict.checks, { name: 'evidence-record', code, ...finding } as const];
    const evidence = { finding, lines: [], ...(fault && { fault }) };
    const story = tell({ ...verdict, outcome, checks, evidence }, proven, english);
    t.match({ lead: plainText(story.lead), remedy: story.remedy }, { lead, remedy }, String(fault));
  }
});

t.test(
  'a time is shown in UTC and in local time, and an unknown language falls back to English',
  async (t) => {
    const zone = process.env.TZ;
    t.teardown(() => {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    });
    const at = Date.parse('2026-11-21T23:38:51.999Z');
    process.env.TZ = 'Europe/Berlin';
    t.equal(localTime(at, english), '22 November 2026, 00:38:51 (Europe/Berlin)');
    process.env.TZ = 'UTC';
    t.equal(localTime(at, english), undefined);
    t.equal(utcTime(at, english), '21 November 2026, 23:38:51 UTC');
    t.equal(wordsFor(['xx-YY', 'en-US']), english);
    t.equal(wordsFor(['constructor']), english);
  },
);

t.test('invisible characters in foreign text are made visible', async (t) => {
  t.equal(visible('a\u202e\u0000\u200b\n<b>'), 'a\\u{202e}\\u{0}\\u{200b}\\u{a}<b>');
  t.equal(visible('\u2800\u3164\u034f'), '\\u{2800}\\u{3164}\\u{34f}', 'what is blank, but is no space');
});
