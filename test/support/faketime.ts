import { globSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

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

  get env(): Record<string, string> {
    const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');
    if (library === undefined) throw new Error('libfaketime is missing: test/setup.sh --tests installs it');
    return {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      NO_FAKE_STAT: '1',
    };
  }
}
