/** The part of `npm run faults` that every run of the tests repeats, each fault for a short time. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { random } from '../support/seed.ts';
import { CALLS, failCall } from './failingCalls.ts';
import { failPartition, failQuorum } from './failingModules.ts';
import { flipBits } from './flippedBits.ts';
import {
  BIT_MUTANTS,
  DISK_MUTANTS,
  MODULE_MUTANTS,
  MOVE_MUTANTS,
  MUTANTS,
  POWER_MUTANTS,
} from './mutants.ts';
import { killing, playRound } from './play.ts';
import { cutPower } from './powerCut.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const seed = Math.floor(random() * 2 ** 31);

t.test('a failed flush of the store, or a stop at it, breaks no promise', async (t) => {
  const flush = CALLS.find(({ call, file }) => call === 'fdatasync' && file?.endsWith('data.mdb'));
  if (flush === undefined) throw new Error('no flush of the store fails');
  const { ending, against, warnings } = await failCall(flush, seed);
  t.strictSame(against, [], ending, { warnings });
});

const flipTwoBits = (seed: number) => flipBits(seed, { flips: 2, kinds: /^(?!older)/ });

t.test('failing HSMs and flipped bits are survived or refused, and sealing resumes', async (t) => {
  // A disk that fails takes loop devices, which not every machine has; that it fills is held by a journey.
  const fail = [failPartition, failQuorum, flipTwoBits][seed % 3] ?? failPartition;
  const { ending, against, warnings } = await fail(seed, { strikes: 1 });
  t.strictSame(against, [], ending, { warnings });
});

t.test('kills under load break no promise', async (t) => {
  const { ending, against, warnings } = await playRound(seed, killing(3));
  t.strictSame(against, [], ending, { warnings });
});

t.test('after a power cut, every acknowledged job is there, whatever reached the disk', async (t) => {
  const { ending, against } = await cutPower(seed, { images: 25, starts: 1 });
  t.strictSame(against, [], ending);
});

t.test('the line that each mutant changes exists', async (t) => {
  for (const mutant of [
    ...MUTANTS,
    ...MODULE_MUTANTS,
    ...DISK_MUTANTS,
    ...BIT_MUTANTS,
    ...MOVE_MUTANTS,
    ...POWER_MUTANTS,
  ]) {
    const parts = readFileSync(join(ROOT, 'dist', mutant.file), 'utf8').split(mutant.line);
    t.equal(parts.length, 2, mutant.name);
  }
});
