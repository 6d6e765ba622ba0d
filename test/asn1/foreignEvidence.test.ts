/** Evidence records that others made (test/vectors/evidenceRecords). The certificates in their tokens are taken for trusted. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import {
  parseEvidenceRecord,
  type RecordVerdict,
  verifyEvidenceRecord,
} from '../../src/asn1/evidenceRecord.ts';
import { parseTimestampToken } from '../../src/asn1/timestampToken.ts';

const read = (name: string) =>
  new Uint8Array(readFileSync(new URL(`../vectors/evidenceRecords/${name}`, import.meta.url)));

/** The verdict a moment after the last time-stamp. */
function verify(name: string, data: Uint8Array): RecordVerdict {
  const record = read(name);
  const tokens = parseEvidenceRecord(record)
    .chains.flat()
    .map(({ token }) => parseTimestampToken(token));
  const trustedRoots = tokens.flatMap(({ signedData }) => signedData.certificates);
  const at = Math.max(...tokens.map(({ info }) => info.genTime)) + 1;
  return verifyEvidenceRecord({ record, data, trustedRoots, at });
}

const INITIAL = 'initial';
const RENEWED = 'time-stamp renewal';
const REHASHED = 'hash renewal';

for (const [name, data, kinds] of [
  ['bsi/example.ers', read('bsi/example.tif'), [INITIAL]],
  ['dss/BIN-1_ER.ers', 'some binary content', [INITIAL]],
  ['dss/BIN-3_ER.ers', 'some binary content', [INITIAL, RENEWED, REHASHED]],
  ['dss/ER-2Chains3ATS.ers', 'content of data object DO-01', [INITIAL, RENEWED, REHASHED]],
  ['dss/ER-2Chains3ATS.ers', 'content of data object DO-02', [INITIAL, RENEWED, REHASHED]],
  ['dss/er-asn1-simple.ers', '1', [INITIAL]],
  ['dss/er-asn1-tst-renewal.ers', 'content of data object DO-01', [INITIAL, RENEWED]],
] as const)
  t.test(`${name} verifies over ${typeof data === 'string' ? data : 'its file'}`, async (t) => {
    const verdict = verify(name, Buffer.from(data));
    t.match(verdict, { outcome: 'good' });
    t.strictSame(
      verdict.lines.map(({ kind }) => kind),
      kinds,
    );
    t.match(verify(name, Buffer.from('something else')), { outcome: 'bad', fault: 'imprint' });
  });

t.test('faulty foreign records are bad', async (t) => {
  const renewal = verify('dss/er-asn1-tst-renewal-invalid.ers', Buffer.from('content of data object DO-01'));
  t.match(renewal, { outcome: 'bad', fault: 'imprint' });
  const chains = verify('dss/er-asn1-chain-renewal-invalid.ers', Buffer.from('\t'));
  t.match(chains, { outcome: 'bad', fault: 'order' });
  // The RFC can be read so that a list of one hash is hashed once more. BouncyCastle does not read it so.
  const text = read('bsi/TXT_DATA.txt');
  t.match(verify('bsi/ER_DOUBLE_HASHED_FOR_TXT_DATA.ers', text), { outcome: 'bad', fault: 'imprint' });
});

t.test('foreign records with unsupported algorithms are undecided', async (t) => {
  const unsupported = { outcome: 'unknown', fault: 'unsupported' };
  const signature = { ...unsupported, detail: /signed with an algorithm that is not supported/ };
  t.match(verify('bsi/ER_SHA256-DGN_XAIP_OK_SC1.ers', read('bsi/TXT_DATA.txt')), signature);
  const five = verify('dss/er-asn1-full-renewal-five-ats-chain.ers', Buffer.from('\u0003'));
  t.match(five, signature);
  t.equal(five.lines.length, 7);
  t.ok(
    five.lines.every(({ outcome }) => outcome !== 'bad'),
    'each hash is where it belongs',
  );
  for (const [name, expected] of [
    ['dss/1_1_Renew_Unsorted.er', unsupported],
    ['bsi/er_nok_wrong_version.er', unsupported],
    ['dss/BIN-1_ER_malformed.ers', { outcome: 'bad', fault: 'malformed' }],
  ] as const)
    t.match(
      verifyEvidenceRecord({ record: read(name), data: read(name), trustedRoots: [], at: 0 }),
      expected,
      name,
    );
});
