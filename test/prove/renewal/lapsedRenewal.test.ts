/** A renewal that ended before the next one: records go on without it, with whatever still proves them. */
import t from 'tap';
import { parseEvidenceRecord, verifyEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { assert } from '../../../src/base/assert.ts';
import { fromUtf8 } from '../../../src/base/bytes.ts';
import { renewalLapses, renewalProblems } from '../../../src/prove/renewal/renewalCheck.ts';
import { pathsNow } from '../../../src/prove/renewal/renewalStandings.ts';
import { isUnproven, surveyTimestamps } from '../../../src/prove/renewal/renewalSurvey.ts';
import { EvidenceRecords } from '../../../src/prove/renewal/renewals.ts';
import type { Theft } from '../../../src/prove/renewal/thefts.ts';
import type { Batch } from '../../../src/store/store.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { startBouncyCastle } from '../../support/bouncyCastle.ts';
import { MemoryLog, objectionTo, renew, YearlyAuthority } from '../../support/renewals.ts';
import { fc, tries } from '../../support/seed.ts';

const long = await YearlyAuthority.make('long', 3);
const short = await YearlyAuthority.make('short', 1);
const trusted = [long.trusted, short.trusted];
const trustedRoots = trusted.map(({ root }) => root);
const WIDTH = 3;
const day = (n: number) => BEGIN + n * DAY_MS;

const bouncyCastle = startBouncyCastle(t);

async function recordOf(memory: MemoryLog, batch: Batch): Promise<Uint8Array> {
  const record = await new EvidenceRecords(memory.store, { width: WIDTH }).of(batch);
  assert(record, 'a stamped batch has a record');
  return record;
}

async function outcomes(memory: MemoryLog, at: number): Promise<string[]> {
  const found: string[] = [];
  for (const batch of memory.batches) {
    const verified = {
      record: await recordOf(memory, batch),
      data: fromUtf8(batch.checkpoint),
      trustedRoots,
      at,
    };
    const { outcome } = verifyEvidenceRecord(verified);
    const { certificates } = parseEvidenceRecord(verified.record);
    const theirs = await bouncyCastle.verify(verified.record, verified.data, trustedRoots, at, certificates);
    found.push((outcome === 'good') === (theirs === 'good') ? outcome : `${outcome} here, there ${theirs}`);
  }
  return found;
}

const renewBy = (memory: MemoryLog, by: YearlyAuthority, at: number, more = {}) =>
  renew(memory.store, { digest: 'sha512', at, authorities: [by], trusted, width: WIDTH, ...more });

t.test('records whose own time-stamp still holds are renewed without the lapsed run', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, day(1), short);
  for (const n of [2, 3, 4, 5, 6]) await memory.seal(n, day(n), long);
  await renewBy(memory, short, day(10));
  await memory.seal(1, day(20), long);
  t.strictSame(await renewalLapses(memory.store, trusted, day(20)), []);
  for (const [at, lengths] of [
    [day(300), [2, 2, 2, 2, 2, 2, 1]],
    [day(399), [1, 1, 1, 1, 1, 1, 1]],
  ] as const) {
    const records = new EvidenceRecords(memory.store, {
      path: pathsNow(
        () => trusted,
        () => at,
      ),
    });
    const found = memory.batches.map(async (batch) => {
      const record = (await records.of(batch)) ?? new Uint8Array(0);
      return parseEvidenceRecord(record).chains.flat().length;
    });
    t.strictSame(await Promise.all(found), lengths, 'records do without it at once');
  }
  const run = await renewBy(memory, long, day(400));
  t.match(run, { from: 0, path: [-1] });
  const expected = ['bad', ...Array(6).fill('good')];
  t.strictSame(await outcomes(memory, day(401)), expected);
  await memory.seal(1, day(450), long);
  t.match(await renewBy(memory, long, day(500)), { from: run.to, path: [-1, 0] }, 'as before from then on');
  t.strictSame(await outcomes(memory, day(501)), [...expected, 'good']);
  t.match(await renewBy(memory, long, day(600), { digest: 'sha384' }), { from: 0, path: [-1, 0, 0] });
  t.strictSame(await outcomes(memory, day(601)), [...expected, 'good']);
  t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
  t.match(await renewalLapses(memory.store, trusted, day(601)), [
    /^renewal 1 ended 2\S+, before anything renewed it: the evidence records of leaves 0 to 20 leave it out$/,
    /^the time-stamps of 1 checkpoints, the first from leaf 0, ended before renewal 2: /,
  ]);
});

t.test('records go back to an earlier run that still holds', async (t) => {
  const memory = new MemoryLog();
  for (const by of [short, long]) await memory.seal(1, day(1), by);
  await renewBy(memory, long, day(10));
  for (const by of [short, long]) await memory.seal(1, day(20), by);
  await renewBy(memory, short, day(30));
  t.match(await renewBy(memory, long, day(400)), { from: 0, path: [0, -1] });
  t.strictSame(await outcomes(memory, day(401)), ['good', 'good', 'bad', 'good']);
  t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
});

t.test('a run built on a lapsed one continues for what it covers itself', async (t) => {
  const memory = new MemoryLog();
  for (const by of [short, long]) await memory.seal(1, day(1), by);
  await renewBy(memory, short, day(10));
  await memory.seal(1, day(20), long);
  t.match(await renewBy(memory, long, day(400), { draftedAt: day(300) }), { from: 2, path: [0] });
  t.strictSame(await outcomes(memory, day(401)), ['bad', 'bad', 'good']);
  t.match(await renewalLapses(memory.store, trusted, day(401)), [
    /^renewal 1 ended 2\S+, before anything renewed it: the evidence records of leaves 0 to 1 leave it out; run `pdfseal renew`: /,
    /^renewal 2 was made from a time-stamp that had ended, .*: the evidence records of leaves 0 to 1 leave it out; run /,
    /^the time-stamps of 1 checkpoints, the first from leaf 0, ended since 2\S+, and no renewal proves them: run /,
  ]);
  t.match(await renewBy(memory, long, day(410)), { from: 0, path: [-1, 0] });
  t.strictSame(await outcomes(memory, day(411)), ['bad', 'good', 'good']);
  t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
});

t.test('records that another key proves are renewed without a stolen run', async (t) => {
  const memory = new MemoryLog();
  for (const by of [short, long]) await memory.seal(1, day(1), by);
  await renewBy(memory, short, day(10));
  const theft = { root: short.trusted.root, since: day(20) };
  t.match(await renewBy(memory, long, day(30), { theft }), { from: 0, path: [-1] });
  const objection = objectionTo(theft);
  const found = memory.batches.map(async (batch) => {
    const [record, data] = [await recordOf(memory, batch), fromUtf8(batch.checkpoint)];
    return verifyEvidenceRecord({ record, data, trustedRoots, at: day(40), objection }).outcome;
  });
  t.strictSame(await Promise.all(found), ['bad', 'good']);
});

t.test('the survey covers what the next run goes back to', async (t) => {
  const memory = new MemoryLog();
  for (const by of [short, long]) await memory.seal(1, day(1), by);
  await renewBy(memory, short, day(10));
  await memory.seal(1, day(20), long);
  const survey = (at: number) => surveyTimestamps(memory.store, { authorities: trusted, sunsets: [], at });
  const tail = { leaf: 2, notAfter: day(3 * 365) };
  const shown = async (at: number) =>
    (await survey(at)).map(({ run, leaf, notAfter }) => ({ leaf, notAfter, ...(run && { run }) }));
  t.strictSame(await shown(day(300)), [{ run: 1, leaf: 0, notAfter: day(365) }, tail]);
  const alone = [
    { leaf: 0, notAfter: day(365) },
    { leaf: 1, notAfter: day(3 * 365) },
  ];
  t.strictSame(await shown(day(400)), [{ run: 1, leaf: 0, notAfter: day(365) }, ...alone, tail]);
  const lost = (await survey(day(400))).filter((one) => isUnproven(one, day(400)));
  t.match(lost, [{ leaf: 0, batches: 1 }]);
  t.equal(lost.length, 1);
  await renewBy(memory, long, day(400));
  t.strictSame(await shown(day(400)), [{ run: 2, leaf: 0, notAfter: day(4 * 365) }]);
});

t.test('a renewal never loses what a record or its own time-stamp still proves', async (t) => {
  const step = fc.record({
    wait: fc.constantFrom(30, 200, 400, 800),
    batches: fc.array(fc.constantFrom(long, short, undefined), { maxLength: 4 }),
    digest: fc.constantFrom('sha512', 'sha512', 'sha384'),
    by: fc.constantFrom([long], [short], [short, long], [long, short]),
    /** Whose root the configuration has lost meanwhile. */
    lost: fc.constantFrom(undefined, undefined, long, short),
    /** So many days ago, found now. */
    theft: fc.constantFrom(undefined, undefined, undefined, 1, 100, 500),
  } as const);
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 7 }), async (steps) => {
      const memory = new MemoryLog();
      const own = new Map<Batch, Uint8Array>();
      let known: Theft | undefined;
      const isGood = async (batch: Batch, at: number, given?: Uint8Array) => {
        const record = given ?? (await new EvidenceRecords(memory.store, { width: WIDTH }).of(batch));
        const data = fromUtf8(batch.checkpoint);
        const objection = objectionTo(known);
        return (
          record && verifyEvidenceRecord({ record, data, trustedRoots, at, objection }).outcome === 'good'
        );
      };
      let now = day(1);
      for (const { wait, batches, digest, by, theft, lost } of steps) {
        for (const stamper of [long, ...batches]) {
          now += 60_000;
          const batch = await memory.seal(1, now, known ? long : stamper);
          const alone = new MemoryLog();
          alone.batches.push(batch);
          const record = await new EvidenceRecords(alone.store).of(batch);
          if (record) own.set(batch, record);
        }
        now += wait * DAY_MS;
        const isNew = theft !== undefined && known === undefined;
        if (isNew) known = { root: short.trusted.root, since: now - theft * DAY_MS };
        const before = new Set<Batch>();
        for (const batch of memory.batches) {
          const record = own.get(batch);
          if (record === undefined || (await isGood(batch, now)) || (await isGood(batch, now, record)))
            before.add(batch);
        }
        const stampers = known ? [long] : by;
        const named = [long, short].filter((one) => one !== lost || stampers.includes(one));
        const roots = { trusted: named.map((one) => one.trusted) };
        const more = { digest, ...roots, width: WIDTH, ...(isNew && known && { theft: known }) };
        await renew(memory.store, { at: now, authorities: stampers, ...more });
        for (const batch of before)
          if (!(await isGood(batch, now + 1)))
            throw new Error(`leaf ${batch.firstLeaf} is not proven any more`);
      }
      t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
      return true;
    }),
    { numRuns: tries(30) },
  );
});
