/** Every fault there is, by group. To add one, write a function from a seed to an {@link Outcome}, and list it here. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { breakMoves } from './brokenMoves.ts';
import { CALLS, failCall } from './failingCalls.ts';
import { COMMAND_NAMES, failCommand } from './failingCommands.ts';
import { failDisk } from './failingDisk.ts';
import { failLibrary, POINTS } from './failingLibrary.ts';
import { AFFLICTIONS, failPartition, failQuorum } from './failingModules.ts';
import { failTimeService } from './failingTimeService.ts';
import { flipBits } from './flippedBits.ts';
import { jumpDate, REACHES, type Reach, TRUSTS } from './jumpingClock.ts';
import { killPart, PARTS, type Part } from './killedParts.ts';
import { insertLeapSecond, SHOWN } from './leapSecond.ts';
import { cutMoves } from './movedStores.ts';
import {
  BIT_MUTANTS,
  type BitMutant,
  buildMutant,
  type DarkMutant,
  DISK_MUTANTS,
  type DiskMutant,
  MODULE_MUTANTS,
  MOVE_MUTANTS,
  type ModuleMutant,
  MUTANTS,
  type Mutant,
  POWER_MUTANTS,
  type PowerMutant,
} from './mutants.ts';
import { beginEpoch, goBack, killing, type Outcome, type PlayedRound, playRound } from './play.ts';
import { cutPower } from './powerCut.ts';
import { playSchedules } from './schedules.ts';

export interface Fault {
  group:
    | 'kills'
    | 'hsm'
    | 'disk'
    | 'bits'
    | 'calls'
    | 'commands'
    | 'moves'
    | 'clocks'
    | 'power'
    | 'schedules'
    | 'mutants';
  name: string;
  /** What happens, and when, follows from the seed as far as a real daemon allows. */
  run(seed: number): Promise<Outcome>;
}

/** The checker is wrong if it does not find the promise that a daemon breaks. */
async function runMutant(mutant: Mutant, seed: number): Promise<Outcome> {
  return withMutant(mutant, async (code) => {
    const isWitnessed = mutant.breaks === 'the witness never refuses the log';
    const { play = (seed, options) => playRound(seed, killing(1), options) } = mutant;
    return caught(mutant, await play(seed, { code, isWitnessed }));
  });
}

async function runModuleMutant(mutant: ModuleMutant, seed: number): Promise<Outcome> {
  return withMutant(mutant, async (code) => {
    const among = AFFLICTIONS.filter(({ name }) => name === mutant.affliction);
    const fail = mutant.victims === 1 ? failPartition : failQuorum;
    return caught(mutant, await fail(seed, { code, among, strikes: 1, noticeSeconds: 3 }));
  });
}

async function runDiskMutant(mutant: DiskMutant, seed: number): Promise<Outcome> {
  return withMutant(mutant, async (code) =>
    caught(mutant, await failDisk(seed, { code, events: [mutant.event], recoverySeconds: 10 })),
  );
}

function caught(mutant: Mutant, { broken, against }: PlayedRound): Outcome {
  if (mutant.breaks in broken) return { ending: 'caught', against: [] };
  return { ending: 'not caught', against: [`expected: ${mutant.breaks}`, ...against] };
}

async function runBitMutant(mutant: BitMutant, seed: number): Promise<Outcome> {
  return withMutant(mutant, async (code) => {
    // Many a bit does no harm, or makes a record that cannot be read.
    const options = { code, kinds: mutant.kinds, flips: 60, stopsAtFault: true };
    const { ending, against } = await flipBits(seed, options);
    return against.length > 0
      ? { ending: 'caught', against: [] }
      : { ending: 'not caught', against: [ending] };
  });
}

async function runPowerMutant(mutant: PowerMutant, seed: number): Promise<Outcome> {
  return withMutant(mutant, async (code) => {
    const { against } = mutant.isOfMoves
      ? await cutMoves(seed, { images: 40, code })
      : await cutPower(seed, { images: 100, starts: 0, code });
    if (against.length > 0) return { ending: 'caught', against: [] };
    return { ending: 'not caught', against: ['every image was good'] };
  });
}

async function runMoveMutant(mutant: DarkMutant, seed: number): Promise<Outcome> {
  return withMutant(mutant, async (code) => {
    const { ending, against } = await breakMoves(seed, { code });
    return against.length > 0
      ? { ending: 'caught', against: [] }
      : { ending: 'not caught', against: [ending] };
  });
}

async function withMutant(
  mutant: DarkMutant,
  run: (code: { dist: string }) => Promise<Outcome>,
): Promise<Outcome> {
  const code = buildMutant(mutant.name, [mutant]);
  try {
    return await run(code);
  } finally {
    rmSync(join(code.dist, '..'), { recursive: true, force: true });
  }
}

export const FAULTS: readonly Fault[] = [
  { group: 'kills', name: 'killed three times under load', run: (seed) => playRound(seed, killing(3)) },
  {
    group: 'kills',
    name: 'killed three times over batches that a witness has cosigned',
    run: (seed) => playRound(seed, killing(3), { isWitnessed: true }),
  },
  { group: 'kills', name: 'killed while an epoch begins', run: (seed) => playRound(seed, beginEpoch) },
  { group: 'kills', name: 'restored from a backup', run: (seed) => playRound(seed, goBack) },
  { group: 'hsm', name: 'one of three partitions fails', run: (seed) => failPartition(seed) },
  { group: 'hsm', name: 'too few partitions are left', run: (seed) => failQuorum(seed) },
  ...Object.keys(PARTS).map(
    (part): Fault => ({
      group: 'kills',
      name: `${part}, at each of its steps`,
      run: (seed) => killPart(part as Part, seed),
    }),
  ),
  { group: 'disk', name: 'full, frozen, read-only or broken', run: (seed) => failDisk(seed) },
  { group: 'bits', name: 'one bit of the store, or an older copy', run: (seed) => flipBits(seed) },
  ...CALLS.map(
    (kind): Fault => ({
      group: 'calls',
      name: `${kind.call} of ${kind.file ?? 'any file'}`,
      run: (seed) => failCall(kind, seed),
    }),
  ),
  ...POINTS.map(
    (point): Fault => ({
      group: 'calls',
      name: `${point.point} by libfiu`,
      run: (seed) => failLibrary(point, seed),
    }),
  ),
  ...COMMAND_NAMES.map(
    (name): Fault => ({ group: 'commands', name, run: (seed) => failCommand(name, seed) }),
  ),
  { group: 'moves', name: 'into a database, and back', run: (seed) => breakMoves(seed) },
  ...TRUSTS.flatMap((trust) =>
    Object.keys(REACHES).map(
      (reach): Fault => ({
        group: 'clocks',
        name: `the date jumps by ${reach}, with clock.trust = "${trust}"`,
        run: (seed) => jumpDate(trust, reach as Reach, seed),
      }),
    ),
  ),
  { group: 'clocks', name: 'nobody vouches for the date', run: (seed) => failTimeService(seed) },
  ...SHOWN.map(
    (shown): Fault => ({
      group: 'clocks',
      name: `a leap second, ${shown}`,
      run: (seed) => insertLeapSecond(shown, seed),
    }),
  ),
  {
    group: 'power',
    name: 'power cut at any moment',
    run: (seed) => cutPower(seed, { images: 150, starts: 3 }),
  },
  {
    group: 'power',
    name: 'a store is replaced or moved',
    run: (seed) => cutMoves(seed, { images: 40 }),
  },
  { group: 'schedules', name: 'the sealer', run: (seed) => playSchedules(seed) },
  { group: 'schedules', name: 'the outbox', run: (seed) => playSchedules(seed, '--outbox') },
  ...MUTANTS.map(
    (mutant): Fault => ({ group: 'mutants', name: mutant.name, run: (seed) => runMutant(mutant, seed) }),
  ),
  ...MODULE_MUTANTS.map(
    (mutant): Fault => ({
      group: 'mutants',
      name: mutant.name,
      run: (seed) => runModuleMutant(mutant, seed),
    }),
  ),
  ...DISK_MUTANTS.map(
    (mutant): Fault => ({ group: 'mutants', name: mutant.name, run: (seed) => runDiskMutant(mutant, seed) }),
  ),
  ...BIT_MUTANTS.map(
    (mutant): Fault => ({ group: 'mutants', name: mutant.name, run: (seed) => runBitMutant(mutant, seed) }),
  ),
  ...MOVE_MUTANTS.map(
    (mutant): Fault => ({ group: 'mutants', name: mutant.name, run: (seed) => runMoveMutant(mutant, seed) }),
  ),
  ...POWER_MUTANTS.map(
    (mutant): Fault => ({ group: 'mutants', name: mutant.name, run: (seed) => runPowerMutant(mutant, seed) }),
  ),
];
