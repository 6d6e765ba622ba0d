/** The date of the daemon jumps, while it runs and while it is down; the monotonic clock goes on, as after settimeofday(2). */
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeTime } from '../support/clocks.ts';
import { type Outcome, playRound } from './play.ts';

const JUMPS = 5;
/** Seldom an hour, often minutes or seconds, in both directions. */
const HOURS_MAX = 12;

/**
 * Jumps to dates around the real one, with a kill after some. Ends at the latest date that there was: behind it, nothing is sealed, which
 * is as it should be.
 */
export function jumpDate(seed: number): Promise<Outcome> {
  return playRound(seed, async (round) => {
    const date = new FakeTime(round.sandbox.dir);
    date.reachSigners(round.sandbox.configFile);
    const through = ['env', ...Object.entries(date.env).map(([name, value]) => `${name}=${value}`)];
    await round.daemon.stop();
    await round.start(through);
    const first = round.workload.history.tries.length;
    // The stock verifier refuses messages of another date than its own.
    round.workload.receiver.secrets = [];
    let latest = 0;
    for (let jump = 0; jump < JUMPS; jump++) {
      const hours = HOURS_MAX * (2 * round.random() - 1) ** 3;
      latest = Math.max(latest, hours);
      date.jump(hours);
      await sleep(300 + round.random() * 700);
      if (round.random() < 0.4) {
        await round.daemon.kill();
        await round.start(through);
      }
    }
    date.jump(latest);
    await sleep(500);
    const hasRefused = round.workload.history.tries
      .slice(first)
      .some(({ answer }) => (answer?.status ?? 0) >= 500);
    return hasRefused ? 'answered 5xx and went on' : 'went on';
  });
}
