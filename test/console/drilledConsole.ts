import { pino } from 'pino';
import type { Test } from 'tap';
import { systemClock } from '../../src/base/clock.ts';
import { ServiceError } from '../../src/base/errors.ts';
import { Drills } from '../../src/ops/drills.ts';
import type { TrailStore } from '../../src/store/trail.ts';
import { sampleStatus } from './sampleStatus.ts';
import { openTestConsole } from './testConsole.ts';

/** A console over drills of two partitions, of which one must stay. */
export async function openDrills(t: Test) {
  const opened: { trail?: TrailStore } = {};
  const out = new Set<string>();
  const drills = new Drills({
    partitions: () => ({
      nameOf: (name) => {
        if (/^(west|east)\/log-2026$/.test(name)) return name;
        throw new ServiceError('not_found', 'There is not exactly one partition of that name.');
      },
      async withdraw(name) {
        if (out.size > 0) throw new ServiceError('below_quorum', 'Too few would be left.');
        out.add(name);
      },
      restore: async (name) => void out.delete(name),
      get spare() {
        return out.size > 0 ? [] : ['west/log-2026', 'east/log-2026'];
      },
    }),
    trail: { append: async (act) => (await opened.trail?.append(act)) ?? 0 },
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => t.fail(String(error)),
  });
  t.teardown(() => drills.close());
  const well = sampleStatus();
  const members = () =>
    well.partitions.members.map((one) => {
      const returnsAt = drills.returnsAt(one.name);
      if (returnsAt === undefined) return one;
      return { ...one, state: 'withdrawn' as const, returns_at: new Date(returnsAt).toISOString() };
    });
  const read = () => ({ ...well, partitions: { ...well.partitions, members: members() } });
  const test = await openTestConsole(t, { read, drills });
  opened.trail = test.store.trail;
  return { test, out };
}
