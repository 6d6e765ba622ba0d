/** The date of a machine jumps, while its daemon runs and while it is down; the monotonic clock goes on, as after settimeofday(2). */
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClockSource } from '../../src/tsa/synchronization.ts';
import { FakeTime } from '../support/clocks.ts';
import { TimeService } from '../support/timeService.ts';
import { until } from '../support/until.ts';
import { type PlayedRound, playRound, type Round, type RoundOptions } from './play.ts';

export type Trust = ClockSource['trust'];
export const TRUSTS: readonly Trust[] = ['system', 'timedatectl', 'chrony'];
/** How far a date jumps at most, in hours. */
export const REACHES = { 'seconds to hours': 12, 'up to thirty years': 30 * 8766 } as const;
export type Reach = keyof typeof REACHES;

const JUMPS = 5;
/** Behind it, the certificates of the built-in authority have ended: nothing is sealed. */
const SEALABLE_HOURS = 4 * 8766;
const HOUR_MS = 3_600_000;

/** A machine of which a daemon and its signers see the date; what keeps its clock sees it too, and knows the true one. */
export class Machine {
  readonly date: FakeTime;
  readonly service: TimeService;
  readonly #round: Round;

  private constructor(round: Round, date: FakeTime, service: TimeService) {
    this.#round = round;
    this.date = date;
    this.service = service;
  }

  /** Moves the daemon of a round there. Lines of `accuracy` go into the table `timestamp`. */
  static async open(round: Round, trust: Trust, accuracy = ''): Promise<Machine> {
    const { dir, configFile } = round.sandbox;
    const date = new FakeTime(dir);
    const service = await TimeService.open(date.env);
    round.teardown(() => service.close());
    const programs = { chrony: service.chronyc, timedatectl: service.timedatectl, system: undefined };
    const program = programs[trust];
    const asked = `trust = "${trust}"${program ? `\nprogram = "${program}"` : ''}`;
    const config = readFileSync(configFile, 'utf8')
      .replace('trust = "system"', asked)
      .replace('[timestamp]', `[timestamp]\n${accuracy}`);
    writeFileSync(configFile, config);
    date.reachSigners(configFile);
    await round.daemon.stop();
    // The stock verifier refuses messages of another date than its own.
    round.workload.receiver.secrets = [];
    return new Machine(round, date, service);
  }

  /** Its time service first, as at a boot. */
  async boot(): Promise<void> {
    this.service.start();
    await this.service.sees(0);
    await this.start();
  }

  async start(): Promise<void> {
    await this.#round.start(this.date.through);
  }

  /** An administrator accepts the date, if it is far ahead. */
  async acceptDate(): Promise<void> {
    const { sandbox } = this.#round;
    await until('the date is trusted', async () => {
      const { status, stderr } = await sandbox.pdfseal(['clock', 'accept', '--config', sandbox.configFile]);
      return status === 0 || stderr.includes('(it is trusted)');
    });
  }
}

/**
 * Jumps to dates after and before the real one, with a kill after some, or a boot. A clock that nobody can tell to be wrong is believed half a minute
 * later, or once an administrator accepts it; so the round ends at the latest date that there was: before it, nothing is sealed, which is as it
 * should be. Where chrony is asked, no wrong date may ever be believed, and the round ends when the date is right again.
 */
export function jumpDate(
  trust: Trust,
  reach: Reach,
  seed: number,
  options: RoundOptions = {},
): Promise<PlayedRound> {
  const isVouched = trust === 'chrony';
  const disturb = async (round: Round) => {
    const machine = await Machine.open(round, trust);
    await machine.boot();
    const first = round.workload.history.tries.length;
    let latest = 0;
    for (let jump = 0; jump < JUMPS; jump++) {
      const hours = REACHES[reach] * (2 * round.random() - 1) ** 3;
      if (hours < SEALABLE_HOURS) latest = Math.max(latest, hours);
      machine.date.jump(hours);
      await sleep(1000 + round.random() * 2000); // long enough to seal, also on a busy machine
      const chance = round.random();
      if (chance < 0.5) {
        await round.daemon.kill();
        if (chance < 0.2) await machine.service.kill();
        if (chance < 0.2) machine.service.start();
        // A service that has not looked since vouches for a date that it does not know.
        await machine.service.sees(hours * HOUR_MS);
        await machine.start();
      }
    }
    machine.date.jump(isVouched ? 0 : latest);
    if (trust === 'system') await machine.acceptDate();
    await sleep(500);
    const hasRefused = round.workload.history.tries
      .slice(first)
      .some(({ answer }) => (answer?.status ?? 0) >= 500);
    return hasRefused ? 'answered 5xx and went on' : 'went on';
  };
  return playRound(seed, disturb, { ...options, isVouched });
}
