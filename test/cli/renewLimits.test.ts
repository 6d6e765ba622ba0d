/** No renewal makes an evidence record larger than verifiers take: `pdfseal renew` refuses it, and `pdfseal doctor` warns long before. */
import t from 'tap';
import { verifyEvidenceRecord } from '../../src/asn1/evidenceRecord.ts';
import { assert } from '../../src/base/assert.ts';
import { fromUtf8 } from '../../src/base/bytes.ts';
import { diagnoseSize } from '../../src/cli/doctor/renewalDiagnosis.ts';
import { draftNow, type Renewing } from '../../src/cli/store/renewRun.ts';
import { fullestLevel } from '../../src/prove/renewal/recordLimits.ts';
import { waysNow } from '../../src/prove/renewal/renewalPath.ts';
import { EvidenceRecords, RenewalTrees } from '../../src/prove/renewal/renewals.ts';
import type { RenewalRun } from '../../src/store/renewalStore.ts';
import { BEGIN, DAY_MS } from '../support/authority.ts';
import { MemoryLog, renew, YearlyAuthority } from '../support/renewals.ts';

const alpha = await YearlyAuthority.make('alpha', 20);
const day = (n: number) => BEGIN + n * DAY_MS;

t.test('a record that reached the limit of hash renewals gets no further one', async (t) => {
  const memory = new MemoryLog();
  for (const n of [1, 2, 3]) await memory.seal(1, day(n), alpha);
  const digests = ['sha384', 'sha512'] as const;
  const levelOf = async (digest: 'sha384' | 'sha512') => {
    const runs = await memory.renewals.runs();
    return fullestLevel(memory.log, runs, { digest, ...waysNow(runs) });
  };
  const next = async (digest: 'sha384' | 'sha512') => {
    const runs = await memory.renewals.runs();
    const store = memory.store as Renewing['store'];
    const trees = new RenewalTrees(store, runs, 2);
    const renewing = { store, authorities: [alpha.trusted], runs, trees } as unknown as Renewing;
    return draftNow(renewing, digest);
  };
  t.equal(await levelOf('sha512'), undefined, 'nothing was renewed');
  for (let n = 0; n < 63; n++) {
    const digest = digests[n % 2] ?? 'sha512';
    await renew(memory.store, { digest, at: day(10 + n), authorities: [alpha], width: 2 });
    const warned = (await diagnoseSize(memory.store)).length;
    t.equal(warned, n + 1 < 51 ? 0 : 1, `${n + 1} hash renewals`);
  }
  await t.rejects(next('sha512'), {
    message:
      /^an evidence record has 63 hash renewals, and verifiers accept at most 63: .*, so nothing is renewed$/,
    remedy: /^stay with the hash function of the last renewal/,
  });
  t.equal(await memory.renewals.draft(), undefined);
  t.match(await next('sha384'), { scope: { number: 64 } });
  await renew(memory.store, { digest: 'sha384', at: day(80), authorities: [alpha], width: 2 });
  for (const batch of memory.batches) {
    const record = await new EvidenceRecords(memory.store, { width: 2 }).of(batch);
    const [data, trustedRoots] = [fromUtf8(batch.checkpoint), [alpha.trusted.root]];
    assert(record, 'it has a record');
    t.match(verifyEvidenceRecord({ record, data, trustedRoots, at: day(81) }), { outcome: 'good' });
  }
  await renew(memory.store, { digest: 'sha512', at: day(82), authorities: [alpha], width: 2 });
  const [batch] = memory.batches;
  const record = batch && (await new EvidenceRecords(memory.store, { width: 2 }).of(batch));
  assert(batch && record, 'it has a record');
  const verified = { record, data: fromUtf8(batch.checkpoint), trustedRoots: [alpha.trusted.root] };
  t.match(verifyEvidenceRecord({ ...verified, at: day(83) }), {
    outcome: 'bad',
    detail: /more than 64 chains/,
  });
});

t.test(
  'time-stamps, certificates and bytes are counted, and no record is larger than its estimate',
  async (t) => {
    const memory = new MemoryLog();
    await memory.seal(1, day(1), alpha);
    for (const n of [10, 20, 30])
      await renew(memory.store, { digest: 'sha512', at: day(n), authorities: [alpha] });
    const [batch] = memory.batches;
    const [first, , last] = await memory.renewals.runs();
    assert(batch && first && last, 'three runs');
    const record = await new EvidenceRecords(memory.store).of(batch);
    /** As many runs of this kind, one after the other. */
    const levelWith = (count: number, tokenOf: (n: number) => RenewalRun['tokens'][number]) => {
      const runs = Array.from({ length: count }, (_, n): RenewalRun => {
        const path = Array.from({ length: n }, () => 0);
        return { ...(n === 0 ? first : last), number: n + 1, path, tokens: [tokenOf(n)] };
      });
      return fullestLevel(memory.log, runs, { digest: 'sha512', ...waysNow(runs) });
    };
    const [token] = last.tokens;
    assert(token, 'with a token');
    const bytesOf = async (count: number) => {
      const long = { ...token, certificates: ['A'.repeat(4_000_000)] };
      const level = await levelWith(count, (n) => (n === 0 ? long : token));
      t.equal(level?.what, 'bytes');
      return (level?.count ?? 0) - 3_000_000;
    };
    const size = await bytesOf(3);
    assert(record, 'it has a record');
    t.ok(size >= record.length && size < record.length + 5_000, `${size} and ${record.length} bytes`);
    t.match(await levelWith(900, () => token), { what: 'time-stamps', count: 901, next: 1, max: 1_000 });
    // Each with a certificate of its own, which is in no token.
    const level = await levelWith(56, (n) => ({ ...token, certificates: [`certificate ${n}`] }));
    t.match(level, { what: 'certificates beside its time-stamps', count: 57, next: 7, max: 64 });
  },
);
