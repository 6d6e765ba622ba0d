/** What vouches for the clock does so no longer: nothing is time-stamped then, the status says why, and sealing goes on by itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { askAdmin } from '../support/admin.ts';
import type { TimeService } from '../support/timeService.ts';
import { until } from '../support/until.ts';
import { Machine } from './jumpingClock.ts';
import { type PlayedRound, playRound, type Round, type RoundOptions } from './play.ts';
import { TERMS } from './workload.ts';

interface Affliction {
  name: string;
  begin(service: TimeService): Promise<unknown> | unknown;
  /** As the status says it. */
  trouble: string;
}

const restart = async (service: TimeService, options: Parameters<TimeService['start']>[0]) => {
  await service.kill();
  service.start(options);
};
const HOUR_MS = 3_600_000;
/** What a machine's clock can drift, in millionths: here by a fifth, so that a second is uncertain within seconds. */
const DRIFTING = 'maxclockerror 200000';

const AFFLICTIONS: readonly Affliction[] = [
  { name: 'chronyd is gone', begin: (service) => service.kill(), trouble: 'clock_unknown' },
  { name: 'chronyd hangs', begin: (service) => service.signal('SIGSTOP'), trouble: 'clock_unknown' },
  {
    name: 'no server answers a new chronyd',
    begin: async (service) => {
      service.servers[0].isSilent = true;
      await restart(service, {});
    },
    trouble: 'clock_unsynchronized',
  },
  {
    name: 'the only server falls silent, and the clock drifts',
    begin: async (service) => {
      await restart(service, { more: DRIFTING });
      await service.sees(0);
      service.servers[0].isSilent = true;
    },
    trouble: 'clock_imprecise',
  },
  {
    name: 'two servers contradict each other',
    begin: async (service) => {
      service.servers[1].offsetMs = HOUR_MS;
      // Otherwise chronyd follows the one that answers first.
      await restart(service, { servers: 2, more: 'minsources 2' });
    },
    trouble: 'clock_unsynchronized',
  },
  {
    name: 'chronyd follows its own clock only',
    begin: (service) => restart(service, { servers: 0, more: 'local stratum 3' }),
    trouble: 'clock_unsynchronized',
  },
  {
    name: 'the clock is an hour behind',
    begin: (service) => Object.assign(service.servers[0], { offsetMs: HOUR_MS }),
    trouble: 'clock_imprecise',
  },
  {
    name: 'the clock is a second and a half ahead',
    begin: (service) => Object.assign(service.servers[0], { offsetMs: -1500 }),
    trouble: 'clock_imprecise',
  },
];

/** The daemon asks every ten seconds, and waits three seconds for an answer. */
const NOTICE_SECONDS = 45;
const WATCH_MS = 2000;
/** So many of them in a round. Consecutive seeds go through all. */
const PER_ROUND = 2;

export function failTimeService(
  seed: number,
  options: RoundOptions & { noticeSeconds?: number } = {},
): Promise<PlayedRound> {
  const { noticeSeconds = NOTICE_SECONDS } = options;
  const disturb = async (round: Round) => {
    const machine = await Machine.open(round, 'chrony');
    const { service } = machine;
    await machine.boot();
    for (let nth = 0; nth < PER_ROUND; nth++) {
      const { name, begin, trouble } = AFFLICTIONS[
        (seed * PER_ROUND + nth) % AFFLICTIONS.length
      ] as Affliction;
      await begin(service);
      await until(
        `${name}: the status says ${trouble}`,
        async () => (await troubleOf(round)) === trouble,
        noticeSeconds,
      );
      await sleep(WATCH_MS); // what was stamped before is committed
      const before = await leavesOf(round);
      await sleep(WATCH_MS);
      const sealed = (await leavesOf(round)) - before;
      if (sealed > 0) throw new Error(`${name}: it has sealed ${sealed} jobs`);
      await heal(service);
      await until(
        `${name}: the clock is trusted again`,
        async () => !(await troubleOf(round)),
        noticeSeconds,
      );
      if (!(await round.workload.isSealing())) throw new Error(`${name}: it does not seal again`);
    }
    return 'refused, and went on';
  };
  return playRound(seed, disturb, { ...options, isVouched: true });
}

async function heal(service: TimeService): Promise<void> {
  for (const server of service.servers) Object.assign(server, { offsetMs: 0, isSilent: false });
  await restart(service, {});
  await service.sees(0);
}

async function troubleOf({ sandbox }: Round): Promise<string | undefined> {
  const { timestamps } = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
  return timestamps?.clock.trouble;
}

async function leavesOf({ workload }: Round): Promise<number> {
  const { text } = await workload.client(TERMS.listener).get('/v1/log/checkpoint');
  return Number(text.split('\n')[1]);
}
