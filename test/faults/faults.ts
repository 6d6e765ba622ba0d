/** Every fault there is, by group. To add one, write a function from a seed to an {@link Outcome}, and list it here. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { buildMutant, MUTANTS, type Mutant } from './mutants.ts';
import { killing, type Outcome, playRound } from './play.ts';

export interface Fault {
  group: 'kills' | 'mutants';
  name: string;
  /** What happens, and when, follows from the seed as far as a real daemon allows. */
  run(seed: number): Promise<Outcome>;
}

/** The checker is wrong if it finds nothing. */
async function runMutant(mutant: Mutant, seed: number): Promise<Outcome> {
  const program = buildMutant(mutant);
  try {
    const { broken, against, recoveryMs = 0 } = await playRound(seed, killing(1), program);
    const isCaught = mutant.breaks in broken;
    return isCaught
      ? { ending: 'caught', against: [], recoveryMs }
      : { ending: 'not caught', against: [`expected: ${mutant.breaks}`, ...against] };
  } finally {
    rmSync(join(program, '../..'), { recursive: true, force: true });
  }
}

export const FAULTS: readonly Fault[] = [
  { group: 'kills', name: 'killed three times under load', run: (seed) => playRound(seed, killing(3)) },
  ...MUTANTS.map((mutant) => ({
    group: 'mutants' as const,
    name: mutant.name,
    run: (seed: number) => runMutant(mutant, seed),
  })),
];
