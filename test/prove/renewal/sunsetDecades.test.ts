/** After the end of SHA-512, on which the time-stamps of checkpoints rest: how often a log is renewed in decades. */
import t from 'tap';
import { parseEvidenceRecord, verifyEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { assert } from '../../../src/base/assert.ts';
import { fromUtf8 } from '../../../src/base/bytes.ts';
import { reasonToRenew, surveyTimestamps } from '../../../src/prove/renewal/renewalSurvey.ts';
import { EvidenceRecords } from '../../../src/prove/renewal/renewals.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { MemoryLog, renew, YEAR_MS, YearlyAuthority } from '../../support/renewals.ts';

const YEARS = 20;
const alpha = await YearlyAuthority.make('alpha', 4);
const trusted = [alpha.trusted];
const sunsets = [{ algorithm: 'sha512', untilMs: BEGIN + 3 * YEAR_MS, source: 'a catalogue' }];

t.test(`a log that is looked after every ten days stays proven for ${YEARS} years`, async (t) => {
  const memory = new MemoryLog();
  const made: number[] = [];
  for (let at = BEGIN + DAY_MS; at < BEGIN + YEARS * YEAR_MS; at += 10 * DAY_MS) {
    await memory.seal(1, at, alpha);
    const runs = await memory.renewals.runs();
    const [former, digest] = [
      runs.at(-1)?.digest ?? 'sha512',
      at < BEGIN + 2 * YEAR_MS ? 'sha512' : 'sha384',
    ] as const;
    const terms = { authorities: trusted, sunsets, at: at + 60_000 };
    const standing = await surveyTimestamps(memory.store, terms);
    if (reasonToRenew(standing, { digest, former, at }) === undefined) continue;
    await renew(memory.store, { digest, at: at + 60_000, authorities: [alpha] });
    made.push(at);
  }
  const gaps = made.slice(1).map((at, n) => at - (made[n] ?? 0));
  t.ok(Math.min(...gaps) >= 30 * DAY_MS, 'never sooner than after 30 days');
  t.ok(Math.max(...gaps.slice(2)) <= 310 * DAY_MS, 'nor much later, once SHA-512 has ended');
  for (const batch of [memory.batches[0], memory.batches[500]]) {
    const record = batch && (await new EvidenceRecords(memory.store).of(batch));
    assert(batch && record, 'a stamped batch has a record');
    const [trustedRoots, at] = [trusted.map(({ root }) => root), BEGIN + YEARS * YEAR_MS];
    t.match(verifyEvidenceRecord({ record, data: fromUtf8(batch.checkpoint), trustedRoots, at }), {
      outcome: 'good',
    });
    const count = parseEvidenceRecord(record).chains.flat().length;
    t.ok(count <= 13 * YEARS, `${count} time-stamps: a record takes 1,000`);
  }
});
