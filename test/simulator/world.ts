/**
 * A world in which nothing is left to chance: time passes only when a schedule says so, and every operation of a device ends when, and as,
 * the schedule says. A schedule is a list of numbers, so a seed gives it again, and a shorter list can be tried.
 *
 * Timers of the whole process belong to the world: use it in a process of its own.
 */
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { Progress } from './progress.ts';

/** Once everything works, whatever must happen happens within so many steps. */
const CALM_STEPS_MAX = 3_000;

/** The one real timer: it runs after all promises that can settle have settled. */
const realSetImmediate = globalThis.setImmediate;

/** A timer of the simulated process. */
interface Alarm {
  at: number;
  ring(): void;
  /** Milliseconds between two rings of an interval. */
  every?: number;
}

/** An operation under way, with the ways in which it can end. The first is success. */
interface Operation {
  name: string;
  device: string;
  /** Whether it must wait for those of its device that began before it. */
  inOrder: boolean;
  ends: readonly End<unknown>[];
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** A promise was broken. */
export class Broken extends Error {}

/** How an operation can end: the value, or what is thrown. */
export type End<T> = readonly [name: string, result: () => T];

export class World {
  /** Milliseconds on the monotonic clock. */
  now = 0;
  /** Devices that end no operation. */
  hung: readonly string[] = [];
  readonly progress = new Progress();
  /** What happened, one line each. */
  readonly history: string[] = [];
  #alarms: Alarm[] = [];
  #turns: (() => void)[] = [];
  #operations: Operation[] = [];

  note(text: string): void {
    this.history.push(`${String(this.now).padStart(7)} ms  ${text}`);
  }

  /** Begins an operation. Operations of one device end in the order of their beginnings if `inOrder`. */
  begin<T>(
    device: string,
    name: string,
    ends: readonly End<T>[],
    { inOrder = false, signal }: { inOrder?: boolean; signal?: AbortSignal } = {},
  ): Promise<T> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const operation: Operation = {
      name: `${device}: ${name}`,
      device,
      inOrder,
      ends,
      resolve: (result) => resolve(result as T),
      reject,
    };
    this.#operations.push(operation);
    signal?.addEventListener('abort', () => {
      this.#operations = this.#operations.filter((one) => one !== operation);
      reject(signal.reason);
    });
    return promise;
  }

  /** The operations that can end now. */
  get #ready(): Operation[] {
    const isFirst = (one: Operation) => one === this.#operations.find(({ device }) => device === one.device);
    return this.#operations.filter(
      (one) => !this.hung.includes(one.device) && (!one.inOrder || isFirst(one)),
    );
  }

  /** Ends one of the operations that can end, as it is chosen; false if there is none. */
  endOne(which: number, how: number): boolean {
    const ready = this.#ready;
    const operation = ready[which % ready.length];
    if (operation !== undefined) this.#end(operation, how);
    return operation !== undefined;
  }

  #end(operation: Operation, how: number): void {
    this.#operations = this.#operations.filter((one) => one !== operation);
    const [name, result] = operation.ends[how % operation.ends.length] as End<unknown>;
    this.note(`${operation.name}: ${name}`);
    try {
      operation.resolve(result());
    } catch (error) {
      operation.reject(error);
    }
  }

  /** For each operation under way whose name begins so: in how many ways it can end. */
  underWay(name: string): number[] {
    return this.#operations.filter((one) => one.name.startsWith(name)).map(({ ends }) => ends.length);
  }

  /** Ends all operations whose names begin so. */
  endAll(name: string, how: number): void {
    for (const one of this.#operations.filter((each) => each.name.startsWith(name))) this.#end(one, how);
  }

  /** The next thing that happens by itself: a turn of the event loop, then the oldest operation, then a timer. */
  proceed(): void {
    const turn = this.#turns.shift();
    if (turn !== undefined) turn();
    else if (!this.endOne(0, 0)) this.pass();
  }

  /** Time passes until the next timer. */
  pass(): void {
    const next = this.#alarms.reduce<Alarm | undefined>(
      (first, one) => (first === undefined || one.at < first.at ? one : first),
      undefined,
    );
    if (next === undefined) return;
    this.now = Math.max(this.now, next.at);
    if (next.every === undefined) this.clearAlarm(next);
    else next.at = this.now + next.every;
    next.ring();
  }

  /** Proceeds until something is so, and calls `rest` after each step. Throws {@link Broken} if it never is. */
  async until(what: string, isSo: () => boolean, rest: () => Promise<void>): Promise<void> {
    for (let steps = 0; !isSo(); steps++) {
      if (steps === CALM_STEPS_MAX) throw new Broken(`it never happens that ${what}`);
      this.proceed();
      await rest();
    }
  }

  /** Resolves once nothing more happens without the world. */
  rest(): Promise<void> {
    return new Promise((resolve) => realSetImmediate(resolve));
  }

  /** The process ends: whoever waits in it waits for ever. Operations of `device` that were under way end in their order, as many as chosen. */
  kill(device: string, completed: number): void {
    const own = this.#operations.filter((one) => one.device === device);
    this.#operations = [];
    this.#turns = [];
    this.#alarms = [];
    for (const { name, ends } of own.slice(0, completed % (own.length + 1))) {
      this.note(`${name}: done, and nobody heard of it`);
      ends[0]?.[1]();
    }
  }

  setAlarm(ring: () => void, ms = 0, isRepeated = false): Alarm {
    const delay = Math.max(1, Math.trunc(ms));
    const alarm = { at: this.now + delay, ring, ...(isRepeated && { every: delay }) };
    this.#alarms.push(alarm);
    return alarm;
  }

  clearAlarm(alarm: Alarm | undefined): void {
    this.#alarms = this.#alarms.filter((one) => one !== alarm);
  }

  sleep(ms: number, value: unknown, { signal }: { signal?: AbortSignal } = {}): Promise<unknown> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const alarm = this.setAlarm(() => resolve(value), ms);
      signal?.addEventListener('abort', () => {
        this.clearAlarm(alarm);
        reject(signal.reason);
      });
    });
  }

  /** Resolves in the next turn of the event loop. */
  nextTurn(): Promise<void> {
    return new Promise((resolve) => this.#turns.push(resolve));
  }

  /** From now on this world's time is the time of the process. */
  rule(): void {
    ruling = this;
  }
}

let ruling = new World();

const handle = (alarm: Alarm) => Object.assign(alarm, { ref: () => alarm, unref: () => alarm });
Object.assign(globalThis, {
  setTimeout: (ring: () => void, ms?: number) => handle(ruling.setAlarm(ring, ms)),
  setInterval: (ring: () => void, ms?: number) => handle(ruling.setAlarm(ring, ms, true)),
  clearTimeout: (alarm?: Alarm) => ruling.clearAlarm(alarm),
  clearInterval: (alarm?: Alarm) => ruling.clearAlarm(alarm),
});
// Of jitter: the schedule has enough choices.
Object.assign(Math, { random: () => 0.5 });
Object.assign(timers, {
  setTimeout: (...args: Parameters<World['sleep']>) => ruling.sleep(...args),
  setImmediate: () => ruling.nextTurn(),
});
syncBuiltinESMExports();
