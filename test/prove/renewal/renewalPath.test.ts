/** The way of evidence records after thefts that are found late: each record takes the best one that is left. */
import t from 'tap';
import { parseEvidenceRecord, verifyEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { assert } from '../../../src/base/assert.ts';
import { fromUtf8 } from '../../../src/base/bytes.ts';
import { renewalLapses, renewalProblems } from '../../../src/prove/renewal/renewalCheck.ts';
import { commitRun, draftRun, nextRun } from '../../../src/prove/renewal/renewalRun.ts';
import { pathsNow } from '../../../src/prove/renewal/renewalStandings.ts';
import { EvidenceRecords, RenewalTrees } from '../../../src/prove/renewal/renewals.ts';
import { keptTheft, type Theft, theftsOf } from '../../../src/prove/renewal/thefts.ts';
import { actOfProcess } from '../../../src/store/acts.ts';
import type { Batch } from '../../../src/store/store.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { startBouncyCastle } from '../../support/bouncyCastle.ts';
import { MemoryLog, objectionTo, renew, YearlyAuthority } from '../../support/renewals.ts';

const long = await YearlyAuthority.make('long', 3);
const thief = await YearlyAuthority.make('thief', 3);
/** Its certificates end on day 40. */
const brief = await YearlyAuthority.make('brief', 40 / 365);
const trusted = [long.trusted, thief.trusted, brief.trusted];
const trustedRoots = trusted.map(({ root }) => root);
const WIDTH = 3;
const day = (n: number) => BEGIN + n * DAY_MS;
const stolen = (since: number): Theft => ({ root: thief.trusted.root, since });

const bouncyCastle = startBouncyCastle(t);

/** The verdict on each record, under a trust file that knows of the theft; and how many chains and time-stamps it has. */
async function verdicts(memory: MemoryLog, at: number, theft: Theft): Promise<string[]> {
  const found: string[] = [];
  for (const batch of memory.batches) {
    const record = await recordOf(memory, batch, at);
    const [data, objection] = [fromUtf8(batch.checkpoint), objectionTo(theft)];
    const { outcome } = verifyEvidenceRecord({ record, data, trustedRoots, at, objection });
    const { certificates, chains } = parseEvidenceRecord(record);
    // Who knows of no theft takes more, and so does BouncyCastle.
    const theirs = await bouncyCastle.verify(record, data, trustedRoots, at, certificates);
    assert(outcome !== 'good' || theirs === 'good', `BouncyCastle: ${theirs}`);
    found.push(`${outcome} ${chains.map(({ length }) => length).join('+')}`);
  }
  return found;
}

async function recordOf(memory: MemoryLog, batch: Batch, at: number): Promise<Uint8Array> {
  const [stored, served] = [
    undefined,
    pathsNow(
      () => trusted,
      () => at,
    ),
  ].map((path) => new EvidenceRecords(memory.store, { width: WIDTH, ...(path && { path }) }).of(batch));
  const record = await served;
  assert(record, 'a stamped batch has a record');
  t.strictSame(record, await stored, 'as the last run left it');
  return record;
}

const renewBy = (memory: MemoryLog, by: YearlyAuthority, at: number, more = {}) =>
  renew(memory.store, { digest: 'sha512', at, authorities: [by], trusted, width: WIDTH, ...more });

t.test('a stolen run is left out even if a hash renewal covers it', async (t) => {
  const memory = new MemoryLog();
  for (const by of [long, long, thief]) await memory.seal(2, day(1), by);
  await renewBy(memory, thief, day(10));
  await memory.seal(1, day(11), long);
  await renewBy(memory, long, day(30), { digest: 'sha384' });
  const theft = stolen(day(20));
  const run = await renewBy(memory, long, day(60), { digest: 'sha384', theft });
  // What was sealed since has a hash renewal of its own time-stamp, without the stolen one.
  t.match(run, { from: 0, older: [{ to: 6, path: [-1, -1] }], path: [-1, 0] });
  t.strictSame(await verdicts(memory, day(61), theft), ['good 1+1', 'good 1+1', 'bad 1+1', 'good 1+2']);
  t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
});

t.test('each range of the log has a path of its own', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, day(1), brief);
  await renewBy(memory, long, day(10));
  await renewBy(memory, thief, day(20));
  await memory.seal(1, day(27), brief);
  await renewBy(memory, long, day(30), { digest: 'sha384' });
  await memory.seal(1, day(59), long);
  const theft = stolen(day(25));
  // The first goes back before the theft; the second has nothing but the hash renewal after it.
  const run = await renewBy(memory, long, day(60), { digest: 'sha384', theft });
  t.match(run, { from: 0, older: [{ to: 1, path: [0, -1, -1] }], path: [-1, -1, 0] });
  t.strictSame(await verdicts(memory, day(61), theft), ['good 2+1', 'good 1+2', 'good 1+1']);
  t.match(await renewBy(memory, long, day(70), { digest: 'sha384' }), {
    from: run.to,
    older: [{ to: 1, path: [0, -1, -1, 0] }],
    path: [-1, -1, 0, 0],
  });
  t.strictSame(await verdicts(memory, day(71), theft), ['good 2+2', 'good 1+3', 'good 1+2']);
  await renewBy(memory, long, day(80));
  t.strictSame(await verdicts(memory, day(81), theft), ['good 2+2+1', 'good 1+3+1', 'good 1+2+1']);
  t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
  t.match(await renewalLapses(memory.store, trusted, day(81)), [
    /^renewal 2 is of a stolen key: the evidence records of leaves 0 to 0 leave it out$/,
    /^renewal 3 was made from a time-stamp that had ended.*: the evidence records of leaves 0 to 0 leave it out$/,
  ]);
});

t.test('a stolen run stays out after the run that left it out has ended', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, day(1), long);
  await renewBy(memory, thief, day(10));
  const theft = stolen(day(5));
  t.match(await renewBy(memory, brief, day(20), { theft }), { path: [-1], thefts: [keptTheft(theft)] });
  t.match(await renewBy(memory, long, day(60)), { path: [-1, -1], thefts: undefined });
  t.strictSame(await verdicts(memory, day(61), theft), ['good 2']);
  t.match(await renewalLapses(memory.store, trusted, day(61)), [
    /^renewal 1 is of a stolen key: /,
    /^renewal 2 ended 2\S+, before anything renewed it: /,
  ]);
});

t.test('of two tokens of a run, records use the one that is good for all', async (t) => {
  const other = await YearlyAuthority.make('other', 3);
  const known = [...trusted, other.trusted];
  const roots = known.map(({ root }) => root);
  const outcomeOf = async (memory: MemoryLog, at: number, trustedRoots = roots) => {
    const path = pathsNow(
      () => known,
      () => at,
    );
    const [batch] = memory.batches;
    const record = batch && (await new EvidenceRecords(memory.store, { path, width: WIDTH }).of(batch));
    assert(record && batch, 'a stamped batch has a record');
    return verifyEvidenceRecord({ record, data: fromUtf8(batch.checkpoint), trustedRoots, at }).outcome;
  };

  await t.test('the earlier one is used if its answer was brought later', async (t) => {
    const memory = new MemoryLog();
    await memory.seal(1, day(1), brief);
    const [scope, trees] = [
      await nextRun(memory.store, [], 'sha512'),
      new RenewalTrees(memory.store, [], WIDTH),
    ];
    const drafted = await draftRun(memory.store, trees, { ...scope, at: day(30) });
    // Between the two, the own time-stamp of the checkpoint ends.
    const tokens = [
      await long.stamp('sha512', drafted.root, day(45)),
      await other.stamp('sha512', drafted.root, day(35)),
    ];
    await commitRun(memory.store, drafted, tokens, actOfProcess('command', 'renewal.run', { run: 1 }));
    t.equal(await outcomeOf(memory, day(46)), 'good');
    await renewBy(memory, long, day(60), { digest: 'sha384', trusted: known });
    t.equal(await outcomeOf(memory, day(61)), 'good');
  });

  await t.test('the one with a known root is used until it ends', async (t) => {
    const memory = new MemoryLog();
    await memory.seal(1, day(1), long);
    await renew(memory.store, { digest: 'sha512', at: day(10), authorities: [brief, other], width: WIDTH });
    const without = known.filter(({ name }) => name !== 'brief');
    t.match(await renewBy(memory, long, day(30), { digest: 'sha384', trusted: without }), { path: [1] });
    t.match(await renewBy(memory, long, day(1000), { digest: 'sha384', trusted: without }), { path: [1, 0] });
    t.equal(await outcomeOf(memory, day(1200)), 'good');
    t.equal(
      await outcomeOf(
        memory,
        day(1200),
        without.map(({ root }) => root),
      ),
      'good',
    );
  });

  await t.test('the other one is used if the first ended without being renewed', async (t) => {
    const memory = new MemoryLog();
    await memory.seal(1, day(1), long);
    await renewBy(memory, brief, day(10));
    // The configuration has lost the root, and what was kept beside the token says when it ends.
    const without = trusted.filter(({ name }) => name !== 'brief');
    t.match(await renewBy(memory, long, day(60), { trusted: without }), { from: 0, path: [-1] });
    t.equal(await outcomeOf(memory, day(61)), 'good');
  });
});

t.test('the newest statement about a theft counts', (t) => {
  const [wrong, right] = [stolen(day(5)), stolen(day(50))];
  const runs = [wrong, right].map((theft) => ({ thefts: [keptTheft(theft)] }));
  t.match(theftsOf(runs), [{ since: day(50) }]);
  t.equal(theftsOf([...runs, {}]).length, 1);
  const [told, after] = [{ thefts: [keptTheft(right)] }, { thefts: [keptTheft(stolen(Date.UTC(9999, 0)))] }];
  t.match(theftsOf([{ number: 3, ...told }]), [{ run: 3 }]);
  t.equal(theftsOf([{ number: 3, ...told }, told])[0]?.run, undefined, 'said again since');
  t.strictSame(theftsOf([{ number: 3, ...told }, after]), [], 'a time that does not come takes it back');
  t.end();
});
