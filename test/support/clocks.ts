import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { Timekeeping } from '../../src/seal/timekeeping.ts';
import type { Store } from '../../src/store/store.ts';

export const SYNCHRONIZED =
  'A29FC87B,192.0.2.1,3,1700000000.0,0.000001,0.0,0.000001,0.1,0.0,0.01,0.002,0.0003,64.0,Normal\n';
export const UNSYNCHRONIZED = '00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n';

/** A chronyc that prints what the file beside it holds. */
export function makeChronyc(t: Test): { program: string; say(text: string): void } {
  const dir = t.testdir();
  const [program, tracking] = [join(dir, 'chronyc'), join(dir, 'tracking')];
  writeFileSync(program, `#!/bin/sh\ncat '${tracking}'\n`, { mode: 0o755 });
  return { program, say: (text) => writeFileSync(tracking, text) };
}

/** Sets the date of a process that is started with its environment, while it runs; the monotonic clock is left alone, as by settimeofday(2). */
export class FakeTime {
  readonly #file: string;

  constructor(dir: string) {
    this.#file = join(dir, 'faketime');
    this.jump(0);
  }

  /** So many hours ahead of the real date from now on. */
  jump(hours: number): void {
    writeFileSync(this.#file, `${hours < 0 ? '' : '+'}${hours * 3600}\n`);
  }

  /** What a command line begins with, to run by this date. */
  get through(): string[] {
    return ['env', ...Object.entries(this.env).map(([name, value]) => `${name}=${value}`)];
  }

  /** Lets the signers of a config file see the date that the daemon sees: on one machine, they do. */
  reachSigners(configFile: string): void {
    const variables = Object.entries(this.env).map(([name, value]) => `${name} = "${value}", `);
    const config = readFileSync(configFile, 'utf8');
    writeFileSync(configFile, config.replaceAll('environment = { ', `environment = { ${variables.join('')}`));
  }

  get env(): Record<string, string> {
    const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');
    if (library === undefined)
      throw new Error('libfaketime is missing: test/setup.sh --all-tests installs it');
    return {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      NO_FAKE_STAT: '1',
    };
  }
}

/** Time as a daemon keeps it whose clock is believed as it is, and for which nobody vouches. */
export function timeOf({ serviceTime }: Pick<Store, 'serviceTime'>, clock: Clock = systemClock): Timekeeping {
  return new Timekeeping(serviceTime, { date: clock, vouched: () => undefined }, clock);
}
