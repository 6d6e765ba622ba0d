/** Evidence records of batches, over runs of any kind: each holds at every time, and no run changes what was proven before. */
import t from 'tap';
import { parseEvidenceRecord, verifyEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { fromUtf8, toBase64 } from '../../../src/base/bytes.ts';
import { missingRoots, renewalProblems } from '../../../src/prove/renewal/renewalCheck.ts';
import { newestOf, orderFault } from '../../../src/prove/renewal/renewalRun.ts';
import { surveyTimestamps } from '../../../src/prove/renewal/renewalSurvey.ts';
import { EvidenceRecords } from '../../../src/prove/renewal/renewals.ts';
import type { Theft } from '../../../src/prove/renewal/thefts.ts';
import type { Batch } from '../../../src/store/store.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { MemoryLog, objectionTo, renew, YEAR_MS, YearlyAuthority } from '../../support/renewals.ts';
import { fc, tries } from '../../support/seed.ts';

const authorities = [await YearlyAuthority.make('alpha'), await YearlyAuthority.make('beta')] as const;
const [alpha, beta] = authorities;
const trusted = authorities.map((one) => one.trusted);
const trustedRoots = trusted.map(({ root }) => root);
/** Small trees, so that a log of some batches has many tiles and rows. */
const WIDTH = 3;

/** Why a record does not prove anything at that time; undefined if it is. */
function faultOf(
  record: Uint8Array,
  { checkpoint }: Batch,
  at: number,
  theft: Theft | undefined,
): string | undefined {
  const data = fromUtf8(checkpoint);
  const verdict = verifyEvidenceRecord({ record, data, trustedRoots, at, objection: objectionTo(theft) });
  return verdict.outcome === 'good' ? undefined : verdict.detail;
}

t.test('every record holds at every time, over any sequence of runs', async (t) => {
  const step = fc.record({
    batches: fc.array(fc.record({ leaves: fc.integer({ min: 1, max: 5 }), by: fc.constantFrom(0, 1, 2) }), {
      maxLength: 9,
    }),
    digest: fc.constantFrom('sha512', 'sha512', 'sha512', 'sha384', 'sha256'),
    by: fc.constantFrom([alpha], [beta], [alpha, beta], [beta, alpha]),
    isStolen: fc.constantFrom(false, false, true),
  } as const);
  const steps = fc.array(step, { minLength: 1, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const memory = new MemoryLog();
      await memory.seal(1, BEGIN + DAY_MS, alpha);
      let theft: Theft | undefined;
      for (const [year, { batches, digest, by, isStolen }] of all.entries()) {
        const at = BEGIN + year * YEAR_MS + 2 * DAY_MS;
        const isNew = isStolen && theft === undefined;
        // From then on; before, what it signed can be believed, and the run of this year covers all of it.
        if (isNew) theft = { root: alpha.trusted.root, since: at + 2 * DAY_MS };
        const [authorities, stampers] = theft
          ? [[beta], [beta, beta, undefined]]
          : [by, [alpha, beta, undefined]];
        for (const [n, { leaves, by }] of batches.entries())
          await memory.seal(leaves, at + n * 60_000, stampers[by]);
        const options = {
          digest,
          at: at + DAY_MS,
          authorities,
          width: WIDTH,
          trusted,
          ...(isNew && theft && { theft }),
        };
        const read = () =>
          Promise.all(
            memory.batches.map((one) => new EvidenceRecords(memory.store, { width: WIDTH }).of(one)),
          );
        const before = await read();
        await renew(memory.store, options);
        const records = await read();
        t.strictSame(await read(), records, 'the same bytes each time');
        for (const [index, batch] of memory.batches.entries()) {
          const record = records[index];
          if (record === undefined) return false;
          // A year and more after: the certificates of all but the last time-stamp can have ended.
          const fault = faultOf(record, batch, at + YEAR_MS, theft);
          if (fault !== undefined) throw new Error(`batch ${index} after ${year + 1} runs: ${fault}`);
          const former = before[index];
          if (former === undefined || isNew) continue;
          const [was, is] = [parseEvidenceRecord(former), parseEvidenceRecord(record)];
          const flat = is.chains.flat().slice(0, was.chains.flat().length);
          t.strictSame(flat, was.chains.flat(), 'a run only adds');
        }
      }
      t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
      return true;
    }),
    { numRuns: tries(12) },
  );
});

t.test('other work continues while a run is drafted', async (t) => {
  const memory = new MemoryLog();
  for (let n = 0; n < 100; n++) await memory.seal(1, BEGIN + n * 60_000);
  let [turns, isOver] = [0, false];
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await renew(memory.store, { digest: 'sha512', at: BEGIN + DAY_MS, authorities: [alpha] });
  isOver = true;
  t.ok(turns >= 3, `${turns} turns`);
});

t.test('a check finds every change', async (t) => {
  const made = async () => {
    const memory = new MemoryLog();
    for (let n = 0; n < 20; n++) await memory.seal(2, BEGIN + n * 60_000, n % 4 === 0 ? undefined : alpha);
    await renew(memory.store, { digest: 'sha512', at: BEGIN + DAY_MS, authorities, width: WIDTH });
    await renew(memory.store, { digest: 'sha384', at: BEGIN + 2 * DAY_MS, authorities, width: WIDTH });
    return memory;
  };
  const problems = async (memory: MemoryLog) => renewalProblems(memory.store, trusted, WIDTH);
  t.strictSame(await problems(await made()), []);
  const other = await made();
  Object.assign(other.batches[7] ?? {}, { checkpoint: 'another' });
  t.match(await problems(other), [/^renewal 2 is not of the checkpoints of row 0: restore a backup$/]);
  const rowless = await made();
  const [run] = await rowless.renewals.runs();
  run?.rows.pop();
  t.match(await problems(rowless), [/^renewal 1 does not cover all checkpoints/]);
  const exchanged = await made();
  const runs = await exchanged.renewals.runs();
  Object.assign(runs[0] ?? {}, { tokens: runs[1]?.tokens });
  t.match(await problems(exchanged), [
    /^the token of alpha in renewal 1: the token is not a proof: stamps something else/,
    /beta in renewal 1/,
    /^renewal 2 is not of the checkpoints of row 0/,
  ]);
  const late = await made();
  await renew(late.store, {
    digest: 'sha384',
    at: BEGIN + 3 * YEAR_MS,
    authorities: [alpha],
    width: WIDTH,
  });
  t.strictSame(await problems(late), [], 'what ended too early is no damage');
  t.strictSame(await missingRoots((await made()).store, trusted), []);
  t.match(await missingRoots((await made()).store, [alpha.trusted]), [
    { detail: /^renewal 1, 2 is from beta, whose root /, remedy: /\[timestamp\.remotes\.beta\]/ },
  ]);
  t.match(await renewalProblems((await made()).store, [alpha.trusted], WIDTH), [
    /^the token of beta in renewal 1: .*no trusted root.*; a backup does not help: add the authority to the configuration/,
    /^the token of beta in renewal 2/,
  ]);
});

t.test('a check reads each run a bounded number of times', async (t) => {
  const readsOf = async (count: number) => {
    const memory = new MemoryLog();
    for (let n = 0; n < count; n++) {
      await memory.seal(1, BEGIN + 2 * n * DAY_MS, alpha);
      await renew(memory.store, {
        ...{ digest: 'sha512', width: WIDTH, authorities: [alpha] },
        at: BEGIN + (2 * n + 1) * DAY_MS,
      });
    }
    let [reads, lists] = [0, 0];
    for (const { tokens } of await memory.renewals.runs())
      for (const one of tokens) {
        const { token } = one;
        const get = () => {
          reads += 1;
          return token;
        };
        Object.defineProperty(one, 'token', { get });
      }
    const { runs } = memory.renewals;
    memory.renewals.runs = () => {
      lists += 1;
      return runs();
    };
    t.strictSame(await renewalProblems(memory.store, trusted, WIDTH), []);
    t.equal(lists, 1);
    return reads;
  };
  const [few, many] = [await readsOf(8), await readsOf(16)];
  t.ok(many <= 2 * few + 4, `${few} and ${many} reads`);
});

t.test('a token must be newer than everything it renews', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, BEGIN + DAY_MS, alpha);
  await memory.seal(1, BEGIN + DAY_MS + 5_000, beta);
  const fault = (at: number) => orderFault(memory.store, { to: 2 }, newestOf([]), BEGIN + DAY_MS + at);
  t.match(await fault(5_000), /^the token says .*, but a time-stamp that it renews says /);
  t.match(await fault(2_000), /renews says/);
  t.equal(await fault(6_000), undefined);
  await renew(memory.store, { digest: 'sha512', at: BEGIN + 2 * DAY_MS, authorities: [alpha] });
  const newest = newestOf(await memory.renewals.runs());
  t.match(await orderFault(memory.store, { to: 2 }, newest, BEGIN + 2 * DAY_MS), /renews says/);
});

t.test('a survey reports what time-stamps rest on, and continues where the last one ended', async (t) => {
  const memory = new MemoryLog();
  const survey = (roots = trusted) =>
    surveyTimestamps(memory.store, { authorities: roots, sunsets: [], at: BEGIN + YEAR_MS });
  t.strictSame(await survey(), []);
  await memory.seal(1, BEGIN + DAY_MS, alpha);
  await memory.seal(1, BEGIN + 2 * DAY_MS);
  await memory.seal(2, BEGIN + YEAR_MS, alpha);
  const signatures = ['ecdsa-p256', 'sha256'];
  const stamped = (year: number, leaf: number, batches: number) => {
    const notAfter = BEGIN + year * YEAR_MS;
    return { digest: 'sha512', signatures, notAfter, leaf, batches, due: { at: notAfter } };
  };
  const bare = { signatures: [], notAfter: null, leaf: 1, batches: 1, due: undefined };
  t.match(await survey(), [stamped(2, 0, 1), bare, stamped(3, 2, 1)]);
  await memory.seal(1, BEGIN + YEAR_MS + DAY_MS, beta);
  const read: number[] = [];
  const { batchOf } = memory.log;
  memory.log.batchOf = (leaf) => {
    read.push(leaf);
    return batchOf(leaf);
  };
  t.match(await survey(), [stamped(2, 0, 1), bare, stamped(3, 2, 2)]);
  t.strictSame(read, [4, 0, 1, 2], 'only what is new, and the first of each kind');
  await memory.seal(1, BEGIN + YEAR_MS + DAY_MS, beta);
  t.match(await survey([alpha.trusted]), [
    stamped(2, 0, 1),
    bare,
    stamped(3, 2, 2),
    { notAfter: null, due: { at: 0, reason: /no root/ } },
  ]);
  t.match(await survey(), [stamped(2, 0, 1), bare, stamped(3, 2, 3)], 'who is trusted later vouches for it');
  await renew(memory.store, { digest: 'sha384', at: BEGIN + 2 * YEAR_MS - DAY_MS, authorities });
  t.match(await survey(), [
    { run: 1, authority: 'alpha', digest: 'sha384', notAfter: BEGIN + 3 * YEAR_MS },
    { run: 1, authority: 'beta', digest: 'sha384' },
  ]);
});

t.test('an unstamped batch has no record, and certificates next to tokens are included once', async (t) => {
  const memory = new MemoryLog();
  const bare = await memory.seal(1, BEGIN + DAY_MS);
  const stamped = await memory.seal(1, BEGIN + DAY_MS, alpha);
  t.equal(await new EvidenceRecords(memory.store).of(bare), undefined);
  const first = await new EvidenceRecords(memory.store).of(stamped);
  t.match(parseEvidenceRecord(first ?? new Uint8Array()), {
    digests: ['sha512'],
    chains: [[{ reducedHashTree: undefined }]],
  });
  t.strictSame(
    parseEvidenceRecord(first ?? new Uint8Array()).certificates.map(toBase64),
    stamped.timestamp?.certificates,
  );
  await renew(memory.store, { digest: 'sha512', at: BEGIN + 2 * DAY_MS, authorities: [alpha] });
  const both = await new EvidenceRecords(memory.store).of(stamped);
  t.equal(parseEvidenceRecord(both ?? new Uint8Array()).certificates.length, 1);
  t.match(
    parseEvidenceRecord((await new EvidenceRecords(memory.store).of(bare)) ?? new Uint8Array()).chains,
    [[{}]],
  );
});
