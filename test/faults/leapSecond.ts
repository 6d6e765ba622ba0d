/**
 * The last second of a year is followed by a leap second, on the machine and in the time that its chronyd follows. Linux shows it by going back
 * one second at midnight. Others smear it: their seconds are longer for a while, so that nothing goes back.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Machine } from './jumpingClock.ts';
import { type PlayedRound, playRound, type Round, type RoundOptions } from './play.ts';

const HOUR_MS = 3_600_000;
/** The start takes a few seconds, on a busy machine more: if midnight comes before it, it starts in the leap second or behind it. */
const BEFORE_MS = 15_000;
/** A smeared second really lasts for hours; the shorter it is, the more the clock departs from what it was. */
const SMEAR_MS = 10_000;
const SMEAR_STEPS = 100;
/** Of the built-in authority. A step of a second is within the one, and beyond the other: then nothing is stamped for half a minute. */
const ACCURACIES = ['1s', '100ms'];

export const SHOWN = ['as a second that comes twice', 'smeared'] as const;

export function insertLeapSecond(
  shown: (typeof SHOWN)[number],
  seed: number,
  options: RoundOptions & { accuracy?: string } = {},
): Promise<PlayedRound> {
  const { accuracy = ACCURACIES[seed % ACCURACIES.length] } = options;
  const disturb = async (round: Round) => {
    const machine = await Machine.open(round, 'chrony', `accuracy = "${accuracy}"`);
    const midnight = Date.UTC(new Date().getUTCFullYear() + 1, 0, 1);
    const aheadMs = midnight - BEFORE_MS - Date.now();
    const [server] = machine.service.servers;
    const show = (ms: number) => {
      server.offsetMs = ms;
      machine.date.jump(ms / HOUR_MS);
    };
    show(aheadMs);
    server.announcesLeap = true;
    await machine.boot();
    if (!(await machine.service.tracking()).includes('Insert second'))
      throw new Error('no leap second is announced');
    if (!(await round.workload.isSealing())) throw new Error('it seals nothing before the leap second');
    const left = () => midnight - (Date.now() + aheadMs);
    if (shown === 'smeared') {
      await sleep(Math.max(0, left() - SMEAR_MS / 2));
      for (let step = 1; step <= SMEAR_STEPS; step++) {
        show(aheadMs - (step * 1000) / SMEAR_STEPS);
        await sleep(SMEAR_MS / SMEAR_STEPS);
      }
    } else {
      await sleep(Math.max(0, left()));
      show(aheadMs - 1000);
    }
    server.announcesLeap = false;
    if (round.random() < 0.4) {
      await sleep(round.random() * 1000);
      await round.daemon.kill();
      await machine.start();
    }
    await sleep(3000);
    return `went on, with ${accuracy}`;
  };
  return playRound(seed, disturb, options);
}
