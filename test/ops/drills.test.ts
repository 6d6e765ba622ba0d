import { pino } from 'pino';
import t, { type Test } from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import type { Act, Actor } from '../../src/manifest/auditRecord.ts';
import { Drills } from '../../src/ops/drills.ts';
import { until } from '../support/until.ts';

const ACTOR: Actor = { via: 'administration', uid: 0 };
const OUT = { forMs: 20, belowQuorum: false };

/** A partition whose key is another one as soon as an epoch begins. */
function makeRig(t: Test, append: (act: Act) => Promise<number>) {
  let keyLabel = 'first';
  const requireKnown = (name: string) => {
    if (name !== `eu/${keyLabel}`) throw new ServiceError('not_found', `There is ${keyLabel} only.`);
  };
  const fatal: unknown[] = [];
  const drills = new Drills({
    partitions: () => ({
      nameOf: () => `eu/${keyLabel}`,
      withdraw: async (name) => requireKnown(name),
      restore: async (name) => requireKnown(name),
      spare: [],
    }),
    trail: { append },
    clock: Date.now,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => void fatal.push(error),
  });
  t.teardown(() => drills.close());
  return { drills, fatal, beginEpoch: () => (keyLabel = 'second') };
}

t.test('a drill whose key an epoch retires ends on record, and without other effect', async (t) => {
  const acts: Act[] = [];
  const { drills, fatal, beginEpoch } = makeRig(t, async (act) => acts.push(act));
  t.equal(await drills.takeOut('eu', OUT, ACTOR), 'eu/first');
  beginEpoch();
  await until('it is over', () => acts.length === 3);
  t.match(acts, [
    { act: 'drill.begin' },
    { act: 'drill.begin' },
    { act: 'drill.end', object: { partition: 'eu/first' } },
  ]);
  t.equal(drills.returnsAt('eu/first'), undefined);
  t.strictSame(fatal, []);
});

t.test('an end that cannot be put on record ends the process', async (t) => {
  const { drills, fatal } = makeRig(t, async ({ act }) => {
    if (act === 'drill.end') throw new Error('the store is gone');
    return 1;
  });
  await drills.takeOut('eu', OUT, ACTOR);
  await until('it is told', () => fatal.length === 1);
  t.match(fatal, [{ message: 'the store is gone' }]);
});

t.test('acts on a partition run one after another', async (t) => {
  const acts: Act[] = [];
  const { promise: recorded, resolve: record } = Promise.withResolvers<void>();
  const { drills, fatal } = makeRig(t, async (act) => {
    if (act.outcome === 'done') await recorded;
    return acts.push(act);
  });
  const person: Actor = { via: 'console', person: 'Anna', role: 'operator' };
  const hour = { ...OUT, forMs: 3_600_000 };
  const out = drills.takeOut('eu', hour, ACTOR);
  const back = drills.putBack('eu', person);
  const again = drills.takeOut('eu', hour, ACTOR);
  await until('the drill runs', () => drills.returnsAt('eu/first') !== undefined);
  record();
  await Promise.all([out, back, again]);
  t.match(acts, [
    { act: 'drill.begin', outcome: 'begun' },
    { act: 'drill.begin', outcome: 'done' },
    { act: 'drill.end', actor: person },
    { act: 'drill.begin', outcome: 'begun' },
    { act: 'drill.begin', outcome: 'done' },
  ]);
  await drills.putBack('eu', person);
  t.equal(drills.returnsAt('eu/first'), undefined);
  t.equal(acts.length, 6);
  t.strictSame(fatal, []);
});

t.test('a partition returns even if the store fails while the drill begins', async (t) => {
  const ends: Act[] = [];
  const { drills } = makeRig(t, async (act) => {
    if (act.outcome === 'done' && act.act === 'drill.begin') throw new Error('the store is gone');
    return act.act === 'drill.end' ? ends.push(act) : 1;
  });
  await t.rejects(drills.takeOut('eu', OUT, ACTOR), { message: 'the store is gone' });
  await until('it is over', () => ends.length === 1);
  t.equal(drills.returnsAt('eu/first'), undefined);
});
