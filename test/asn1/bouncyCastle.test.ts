/** Evidence records between this implementation and BouncyCastle: each verifies what the other makes. */
import t from 'tap';
import {
  encodeEvidenceRecord,
  parseEvidenceRecord,
  type RecordFault,
  verifyEvidenceRecord,
} from '../../src/asn1/evidenceRecord.ts';
import type { DigestName } from '../../src/base/crypto.ts';
import { EvidenceRecords } from '../../src/prove/renewal/renewals.ts';
import { BEGIN, DAY_MS } from '../support/authority.ts';
import { startBouncyCastle } from '../support/bouncyCastle.ts';
import {
  type Archived,
  DATA,
  derOf,
  type Era,
  fourGenerations,
  makeEra,
  recordOf,
  renew,
  yearMs,
} from '../support/evidence.ts';
import { mutationsOf } from '../support/mutations.ts';
import { MemoryLog, renew as renewLog, YEAR_MS, YearlyAuthority } from '../support/renewals.ts';
import { mutations, random } from '../support/seed.ts';

/** How many changed records both judge. */
const MUTATIONS = mutations();

/**
 * Where this implementation is the stricter one: DER to the end, known hash functions, all of them declared, the very certificate that
 * signed, and signed attributes in the order in which they were signed.
 */
const STRICTER: readonly RecordFault[] = ['malformed', 'unsupported', 'digest', 'certificate', 'signature'];

const bouncyCastle = startBouncyCastle(t);

const ours = (record: Uint8Array, data: Uint8Array, trusted: Era[], at: number) =>
  verifyEvidenceRecord({ record, data, trustedRoots: trusted.map(({ root }) => root), at });

/** 'good' if both say so; 'bad' or 'unknown', our verdict, if both do not; else they contradict each other. */
async function verdict(item: Archived, eras: Era[], year: number, data = item.data): Promise<string> {
  const { outcome } = ours(derOf(item), data, eras, yearMs(year));
  const roots = eras.map(({ root }) => root);
  const theirs = await bouncyCastle.verify(derOf(item), data, roots, yearMs(year));
  return (outcome === 'good') === (theirs === 'good') ? outcome : `${outcome} here, there ${theirs}`;
}

async function renewEach(items: Archived[], digest: DigestName, era: Era, at: number): Promise<Archived[]> {
  const all: Archived[] = [];
  for (const item of items) all.push(...(await renew([item], digest, era, at)));
  return all;
}

t.test('BouncyCastle accepts our records over trees of any size', async (t) => {
  const era = await makeEra(2030, 2041);
  for (const size of [1, 2, 3, 4, 5, 6, 7, 9]) {
    const items = Array.from({ length: size }, (_, n) => ({ data: Buffer.from(`${size}: ${n}`) }));
    const together = await renew(items, 'sha512', era, yearMs(2031));
    const renewed = await renew(
      await renewEach(items, 'sha512', era, yearMs(2031)),
      'sha512',
      era,
      yearMs(2032),
    );
    for (const item of [...together, ...renewed])
      t.equal(await verdict(item, [era], 2033), 'good', `of ${size}`);
    t.equal(await verdict(together[0] as Archived, [era], 2033, DATA), 'bad', 'over other data');
  }
});

for (const [what, ...digests] of [
  ['time-stamp renewals', 'sha512', 'sha512', 'sha512', 'sha512', 'sha512', 'sha512'],
  ['hash renewals', 'sha512', 'sha384', 'sha512', 'sha384', 'sha512', 'sha384'],
  ['both', 'sha512', 'sha512', 'sha384', 'sha384', 'sha256', 'sha256'],
] as const)
  t.test(`five renewals in fifty years verify, each by the next authority: ${what}`, async (t) => {
    const eras: Era[] = [];
    let items: Archived[] = Array.from({ length: 5 }, (_, n) => ({ data: Buffer.from(`checkpoint ${n}`) }));
    for (const [n, digest] of digests.entries()) {
      const year = 2026 + 10 * n;
      const era = await makeEra(year, year + 11);
      eras.push(era);
      items = await (n === 0 ? renewEach : renew)(items, digest, era, yearMs(year) + 1);
      for (const item of items) t.equal(await verdict(item, eras, year + 5), 'good', `${year}`);
      const [item, other] = items as [Archived, Archived];
      t.equal(await verdict(item, eras, year + 12), 'unknown', 'after its last certificate');
      t.equal(await verdict(item, eras, year - 1), 'unknown', 'before it was made');
      t.equal(await verdict(item, eras, year + 5, other.data), 'bad', 'over other data');
      t.equal(await verdict(item, eras.slice(1), year + 5), 'unknown', 'without the first root');
    }
    const late = await makeEra(2086, 2097);
    const [gap] = await renew(items, 'sha384', late, yearMs(2088));
    t.equal(await verdict(gap as Archived, [...eras, late], 2090), 'bad', 'renewed too late');
  });

t.test('BouncyCastle accepts the records that renewals of a log make', async (t) => {
  const [alpha, beta] = [await YearlyAuthority.make('alpha'), await YearlyAuthority.make('beta')];
  const roots = [alpha, beta].map((one) => one.trusted.root);
  const memory = new MemoryLog();
  const width = 3;
  for (const [year, digest] of (['sha512', 'sha512', 'sha384', 'sha384'] as const).entries()) {
    const at = BEGIN + year * YEAR_MS + DAY_MS;
    for (let n = 0; n < 5; n++) await memory.seal(1 + n, at + n, n === 1 ? undefined : alpha);
    await renewLog(memory.store, { digest, at: at + DAY_MS, authorities: [beta, alpha], width });
  }
  const at = BEGIN + 4 * YEAR_MS;
  for (const batch of memory.batches) {
    const record = (await new EvidenceRecords(memory.store, { width }).of(batch)) ?? new Uint8Array(0);
    const data = Buffer.from(batch.checkpoint);
    const { certificates } = parseEvidenceRecord(record);
    t.equal(await bouncyCastle.verify(record, data, roots, at, certificates), 'good', `${batch.firstLeaf}`);
    t.match(
      await bouncyCastle.verify(record, DATA, roots, at, certificates),
      /^bad: .*object hash not found/,
    );
  }
});

// BouncyCastle renews hashes by the clock of the machine: the tokens before are of years that are over.
t.test('records made by BouncyCastle verify', async (t) => {
  const eras = [await makeEra(1990, 2001), await makeEra(2000, 2011), await makeEra(2010, 2031)] as const;
  for (const size of [1, 2, 3, 5, 8]) {
    const data = Array.from({ length: size }, (_, n) => Buffer.from(`of ${size}: ${n}`));
    const records = await bouncyCastle.generate('sha512', data, eras[0], yearMs(1991));
    t.equal(records.length, size);
    for (const [n, record] of records.entries()) {
      const of = data[n] as Buffer;
      const renewed = await bouncyCastle.renewTimestamp(record, eras[1], yearMs(2000) + 1);
      const again = await bouncyCastle.renewTimestamp(renewed, eras[1], yearMs(2001));
      const rehashed = await bouncyCastle.renewHash('sha384', renewed, of, eras[2], yearMs(2010) + 1);
      const twice = await bouncyCastle.renewHash('sha256', rehashed, of, eras[2], yearMs(2020));
      for (const [der, year] of [
        [record, 1999],
        [renewed, 2009],
        [again, 2009],
        [rehashed, 2019],
        [twice, 2029],
      ] as const) {
        const found = ours(der, of, [...eras], yearMs(year));
        t.equal(found.outcome, 'good', 'detail' in found ? found.detail : `${year}`);
        t.match(ours(der, DATA, [...eras], yearMs(year)), { outcome: 'bad', fault: 'imprint' });
      }
    }
  }
});

t.test(`${MUTATIONS} changed records get the same verdict, or a stricter one`, async (t) => {
  const { roots, initial, renewed, rehashed, last } = await fourGenerations();
  const generations = [initial, renewed, rehashed, last].map((items, n) => ({
    der: encodeEvidenceRecord(recordOf(items)),
    at: yearMs(2035 + 10 * n),
  }));
  const mutate = mutationsOf(generations.map(({ der }) => der));
  const counts: Record<string, number> = {};
  for (let n = 0; n < MUTATIONS; n++) {
    const { der, at } = generations[Math.floor(random() * 4)] as (typeof generations)[0];
    const record = mutate(der);
    const here = verifyEvidenceRecord({ record, data: DATA, trustedRoots: roots, at });
    const there = await bouncyCastle.verify(record, DATA, roots, at);
    const isStricter = there === 'good' && here.outcome !== 'good';
    const reason = isStricter
      ? `${here.fault}: ${here.detail.replace(/^archive time-stamp \d of \d/, '')}`
      : '';
    if (here.outcome === 'good' ? there !== 'good' : isStricter && !STRICTER.includes(here.fault))
      t.fail(`here ${here.outcome} ${reason}, there ${there}: ${Buffer.from(record).toString('base64')}`);
    const key = `${here.outcome}, BouncyCastle: ${there.slice(0, 4)} ${reason}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  for (const [what, count] of Object.entries(counts).sort()) t.comment(`${count} ${what}`);
});
