/** What renewals and their check hold does not grow with the log: the objects that are alive are counted, early and late in each pass. */
import { queryObjects } from 'node:v8';
import t from 'tap';
import type { DigestName } from '../../../src/base/crypto.ts';
import { reportTheft } from '../../../src/prove/renewal/distrust.ts';
import { renewalLapses, renewalProblems } from '../../../src/prove/renewal/renewalCheck.ts';
import { surveyTimestamps } from '../../../src/prove/renewal/renewalSurvey.ts';
import type { Batch, Store } from '../../../src/store/store.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { MemoryLog, renew, YearlyAuthority } from '../../support/renewals.ts';

const CHECKPOINTS = 8_000;
/** Each pass reads these leaves: early, and late. */
const SAMPLES = [300, 7_900];
/** Of a tree, two rows of 256 hashes with all that is above them are held, for each run. */
const OBJECTS_MAX = 2_000;

const authority = await YearlyAuthority.make('alpha', 9);
const authorities = [authority.trusted];

/** A log whose batches are made when they are read. With `watch`, it notes how many objects are alive, early and late in each pass. */
class LongLog extends MemoryLog {
  readonly #batch: Batch;
  watch: Map<number, number> | undefined;

  constructor(batch: Batch) {
    super();
    this.#batch = batch;
  }

  override readonly log = {
    head: async () => this.#at(CHECKPOINTS - 1),
    batchOf: async (leaf: number) => {
      if (SAMPLES.includes(leaf) && this.watch?.has(leaf) === false)
        this.watch.set(leaf, queryObjects(Object, { format: 'count' }));
      return this.#at(leaf);
    },
    batchAt: async (size: number) => this.#at(size - 1),
  };

  #at(leaf: number): Batch {
    const checkpoint = `${this.#batch.checkpoint}${leaf}`;
    return { ...this.#batch, firstLeaf: leaf, treeSize: leaf + 1, sealedAt: BEGIN + DAY_MS, checkpoint };
  }
}

t.test('renewing and checking a long log needs bounded memory', async (t) => {
  const memory = new LongLog(await new MemoryLog().seal(1, BEGIN + DAY_MS, authority));
  const { store } = memory;
  const at = BEGIN + 9 * DAY_MS;
  const theft = { root: authority.trusted.root, since: at - DAY_MS };
  const whole = { ...store, ...memory, witnessing: { get: async () => ({ witnesses: {} }) } };
  const trust = { timestampAuthorities: authorities, logs: [] };
  const renewBy = (digest: DigestName, day: number) =>
    renew(store, { digest, at: BEGIN + day * DAY_MS, authorities: [authority] });
  for (const [name, pass] of Object.entries({
    survey: () => surveyTimestamps(store, { authorities, sunsets: [], at }),
    renewal: () => renewBy('sha512', 2),
    'hash renewal': () => renewBy('sha384', 3),
    check: () => renewalProblems(store, authorities),
    lapses: () => renewalLapses(store, authorities, at),
    theft: () => reportTheft(whole as unknown as Store, theft, { trust, at }),
  })) {
    const counts = new Map<number, number>();
    memory.watch = counts;
    await pass();
    memory.watch = undefined;
    const [early = NaN, late = NaN] = SAMPLES.map((leaf) => counts.get(leaf));
    const more = late - early;
    t.ok(more < OBJECTS_MAX, `${name}: ${more} objects more than early in it`);
  }
});
