/** After the theft of the key of an authority: what stands on it alone, and what does not. */
import t from 'tap';
import { verifyEvidenceRecord } from '../../../src/asn1/evidenceRecord.ts';
import { fromUtf8 } from '../../../src/base/bytes.ts';
import { reportTheft } from '../../../src/prove/renewal/distrust.ts';
import { EvidenceRecords } from '../../../src/prove/renewal/renewals.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { MemoryLog, renew, YEAR_MS, YearlyAuthority } from '../../support/renewals.ts';

const [alpha, beta] = [await YearlyAuthority.make('alpha'), await YearlyAuthority.make('beta')] as const;
const trust = { timestampAuthorities: [alpha.trusted, beta.trusted], logs: [] };
const theft = { root: alpha.trusted.root, since: BEGIN + 20 * DAY_MS };
const day = (n: number) => BEGIN + n * DAY_MS;

function report(
  memory: MemoryLog,
  since: number,
  at: number,
  timestampAuthorities = trust.timestampAuthorities,
) {
  const store = { ...memory.store, ...memory, witnessing: { get: async () => ({ witnesses: {} }) } };
  return reportTheft(
    store as never,
    { root: alpha.trusted.root, since },
    { trust: { ...trust, timestampAuthorities }, at },
  );
}

t.test('an earlier renewal of another authority still proves what it covers', async (t) => {
  const memory = new MemoryLog();
  for (const by of [alpha, alpha, beta]) await memory.seal(2, day(1), by);
  await renew(memory.store, { digest: 'sha512', at: day(10), authorities: [beta] });
  for (const by of [alpha, undefined, beta]) await memory.seal(1, day(11), by);
  t.strictSame(await report(memory, day(20), day(30)), {
    isRootUsed: true,
    ranges: [
      { from: 0, to: 4, checkpoints: 2, by: 'renewal 1, by beta' },
      { from: 6, to: 7, checkpoints: 1 },
    ],
    alone: 1,
    stillProven: 2,
    witnessed: [],
  });
  t.match(await report(memory, day(5), day(30)), { alone: 3, stillProven: 0 }, 'stolen before that renewal');
  await renew(memory.store, { digest: 'sha512', at: day(25), authorities: [beta], theft });
  t.match(await report(memory, day(20), day(30)), { alone: 1 }, 'a renewal after the theft mends nothing');
  t.match(await report(memory, day(26), day(30)), { alone: 0, stillProven: 3 }, 'one before it does');
});

t.test('of two authorities at once one suffices, and records continue with it', async (t) => {
  const memory = new MemoryLog();
  for (let n = 0; n < 5; n++) await memory.seal(1, day(1), n % 2 === 0 ? alpha : beta);
  await renew(memory.store, { digest: 'sha512', at: day(10), authorities: [alpha, beta] });
  const touched = await report(memory, day(20), day(30));
  t.match(touched, { alone: 0, stillProven: 5 });
  t.strictSame(
    touched.ranges.map(({ by }) => by),
    [
      'renewal 1, by beta',
      'its own time-stamp',
      'renewal 1, by beta',
      'its own time-stamp',
      'renewal 1, by beta',
    ],
  );
  const run = await renew(memory.store, {
    digest: 'sha512',
    at: day(25),
    authorities: [beta],
    trusted: trust.timestampAuthorities,
    theft,
  });
  t.strictSame(run.path, [1]);
  const trustedRoots = [alpha.trusted.root, beta.trusted.root];
  for (const batch of memory.batches) {
    const record = (await new EvidenceRecords(memory.store).of(batch)) ?? new Uint8Array();
    const objection = ({ chain }: { chain: Uint8Array[] }, at: number) =>
      Buffer.compare(chain.at(-1) ?? Buffer.alloc(0), alpha.trusted.root.der) === 0 && at >= day(20)
        ? 'stolen'
        : undefined;
    const data = fromUtf8(batch.checkpoint);
    t.match(verifyEvidenceRecord({ record, data, trustedRoots, at: day(30), objection }), {
      outcome: 'good',
    });
  }
});

t.test('a time-stamp that has ended proves nothing any more', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, day(1), beta);
  await renew(memory.store, { digest: 'sha384', at: BEGIN + YEAR_MS, authorities: [alpha] });
  const late = BEGIN + 2 * YEAR_MS + DAY_MS;
  t.match(await report(memory, late - 9 * DAY_MS, late - 2 * DAY_MS), {
    alone: 0,
    stillProven: 1,
    ranges: [{ by: 'its own time-stamp' }],
  });
  t.match(await report(memory, late, late), { alone: 1, stillProven: 0 });
  t.match(await report(memory, late, late + YEAR_MS), { ranges: [] }, 'the stolen one has ended too');
});

t.test('the first time-stamp by another root is named', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, day(1), alpha);
  await renew(memory.store, { digest: 'sha512', at: day(5), authorities: [alpha] });
  await renew(memory.store, { digest: 'sha512', at: day(10), authorities: [beta] });
  t.match(await report(memory, day(20), day(30)), { ranges: [{ by: 'renewal 2, by beta' }] });
});

t.test('an unused root is distinguished from one whose stamps were renewed in time', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, day(1), beta);
  t.match(await report(memory, day(20), day(30)), { isRootUsed: false, alone: 0 });
  await renew(memory.store, { digest: 'sha512', at: day(10), authorities: [alpha] });
  t.match(await report(memory, day(20), day(30)), { isRootUsed: true, alone: 0, stillProven: 1 });
});

t.test('a run that leaves out the stolen one proves what came before it', async (t) => {
  const late = await YearlyAuthority.make('late', 5);
  const authorities = [...trust.timestampAuthorities, late.trusted];
  const memory = new MemoryLog();
  await memory.seal(1, day(1), beta);
  await memory.seal(1, day(1), alpha);
  await renew(memory.store, { digest: 'sha512', at: day(10), authorities: [alpha] });
  await memory.seal(1, day(11), alpha);
  const more = { trusted: authorities, theft };
  const run = await renew(memory.store, { digest: 'sha512', at: day(25), authorities: [late], ...more });
  t.match(run, { from: 0, path: [-1] });
  const found = await report(memory, day(20), BEGIN + 3 * YEAR_MS - DAY_MS, authorities);
  t.match(found, { alone: 2, stillProven: 1, ranges: [{ from: 0, to: 1, by: 'renewal 2, by late' }] });
  const touched = await report(memory, day(20), BEGIN + YEAR_MS, authorities);
  t.match(touched, { alone: 2, ranges: [{ by: 'its own time-stamp' }, { from: 1, to: 3 }] });
});

t.test('each time-stamp is checked once, however many paths lead there', async (t) => {
  const memory = new MemoryLog();
  await memory.seal(1, day(1), alpha);
  for (let n = 2; n < 42; n++)
    await renew(memory.store, { digest: 'sha512', at: day(n), authorities: [alpha, beta] });
  t.match(await report(memory, day(60), day(50)), { alone: 0, stillProven: 1 });
  t.match(await report(memory, day(60), BEGIN + 5 * YEAR_MS), { ranges: [] }, 'all of them have ended');
});
