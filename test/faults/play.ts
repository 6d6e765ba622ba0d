/** One round of the workload against one daemon, and what became of its promises. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Daemon } from '../support/daemon.ts';
import type { Code } from '../support/programs.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { brokenPromises } from './checker.ts';
import { readFinalState } from './finalState.ts';
import type { FinalState } from './history.ts';
import { randomFrom } from './random.ts';
import { REQUIRED, RealWitness } from './realWitness.ts';
import { SITE, TERMS, Workload } from './workload.ts';

/** The ending of a round that shows nothing, as the machine did not do in time what the checker looks at. */
export const TOO_SLOW = 'too slow to tell';

/** What one run of a fault showed. */
export interface Outcome {
  /** In two or three words, for the table. */
  ending: string;
  /** What speaks against the daemon; empty when it kept every promise. */
  against: string[];
  /** Where something does, or was too slow: the last lines of the daemons' logs that warn of something. */
  warnings?: string[];
  /** The longest that it took to listen again, in milliseconds. */
  recoveryMs?: number;
}

export interface PlayedRound extends Outcome {
  broken: ReturnType<typeof brokenPromises>;
}

/** So many lines are shown of each daemon. */
const WARNINGS_MAX = 12;
/** So long a kill waits for a cosignature. */
const COSIGNED_MS_MAX = 20_000;

export class Round {
  readonly sandbox: Sandbox;
  readonly workload: Workload;
  readonly random: () => number;
  daemon: Daemon;
  recoveryMs = 0;
  readonly witness: RealWitness | undefined;
  /** Has it called when the round is over. */
  readonly teardown: (close: () => unknown) => unknown;
  /** One after the other. */
  readonly daemons: Daemon[];

  constructor(
    sandbox: Sandbox,
    workload: Workload,
    daemon: Daemon,
    seed: number,
    witness: RealWitness | undefined,
    teardown: Round['teardown'],
  ) {
    this.sandbox = sandbox;
    this.workload = workload;
    this.daemon = daemon;
    this.daemons = [daemon];
    this.witness = witness;
    this.teardown = teardown;
    this.random = randomFrom(seed + 1);
  }

  /** Starts the daemon again, through another program or not. */
  async start(through: string[] = []): Promise<void> {
    const begun = performance.now();
    this.sandbox.through = through;
    try {
      this.daemon = await this.sandbox.start();
      this.daemons.push(this.daemon);
    } finally {
      this.sandbox.through = [];
    }
    this.recoveryMs = Math.max(this.recoveryMs, performance.now() - begun);
  }
}

export interface RoundOptions {
  code?: Code;
  /** See {@link Terms.callsFail}. */
  callsFail?: boolean;
  /** Added to {@link SITE}. */
  site?: SandboxOptions;
  /** See {@link Terms.vouchedFrom}; from the beginning on. */
  isVouched?: boolean;
  /** Nothing is released before a witness has cosigned it; see {@link Round.witness}. */
  isWitnessed?: boolean;
}

/**
 * Opens a site, starts the daemon, has `disturb` do its worst while clients send, and holds everything against the promises. `disturb`
 * leaves a daemon running, and returns how it ended, in words. An error of its own, and a daemon that cannot be asked at the end, are faults.
 */
export async function playRound(
  seed: number,
  disturb: (round: Round) => Promise<string>,
  { code = 'dist', callsFail = false, isVouched = false, isWitnessed = false, site = {} }: RoundOptions = {},
): Promise<PlayedRound> {
  const closes: (() => unknown)[] = [];
  const begun = Date.now();
  const tables = {
    pdf: 'attach = true',
    ...SITE.tables,
    ...site.tables,
    ...(isWitnessed && { witness: REQUIRED }),
  };
  const sandbox = await openSandbox({ ...SITE, ...site, tables, code });
  let witness: RealWitness | undefined;
  try {
    if (isWitnessed) witness = await RealWitness.open(sandbox);
    const daemon = await sandbox.start();
    const teardown: Round['teardown'] = (close) => closes.push(close);
    const workload = await Workload.open({ teardown }, sandbox, seed, {
      hasSource: true,
      attaches: tables.pdf !== '',
    });
    const round = new Round(sandbox, workload, daemon, seed, witness, teardown);
    let isOver = false;
    const sending = workload.run(() => isOver);
    let ending: string;
    try {
      ending = await disturb(round);
      await workload.backUp();
    } finally {
      isOver = true;
      await sending;
    }
    const final = await readFinalState(sandbox, round.daemon, workload);
    if (witness) final.witness = await wordOf(witness, round.daemons);
    const terms = { ...TERMS, callsFail, ...(isVouched && { vouchedFrom: begun }) };
    const broken = brokenPromises(workload.history, final, terms);
    const against = lines(broken);
    const isLate = against.length === 0 && final.late.length > 0;
    const logged = round.daemons.flatMap(({ log }) => warningsIn(log));
    const warnings = against.length > 0 ? logged : isLate ? [`late: ${final.late.join(' ')}`, ...logged] : [];
    return { ending: isLate ? TOO_SLOW : ending, broken, against, warnings, recoveryMs: round.recoveryMs };
  } catch (error) {
    const broken = { 'every answer is one of the API': [`the round broke off: ${error}`] };
    return { ending: 'broke off', broken, against: lines(broken) };
  } finally {
    for (const close of closes) await close();
    await sandbox.kill();
    await witness?.close();
    await sandbox.close();
  }
}

/** Ends the witness. */
async function wordOf(witness: RealWitness, daemons: Daemon[]): Promise<NonNullable<FinalState['witness']>> {
  await witness.kill();
  const alarms = daemons.flatMap(({ log }) => log.filter(({ event }) => event === 'fork_alarm'));
  const refusals = [...witness.refusals, ...alarms.map((alarm) => JSON.stringify(alarm))];
  return { held: witness.held(), refusals };
}

/**
 * Kills the daemon so many times at moments of the seed, and starts it again; sometimes it dies before it listens. Administrators work
 * meanwhile. Where there is a witness, the
 * first kill and some others come when it has cosigned a batch and the daemon has not heard of it; sometimes the witness is killed too.
 */
export function killing(kills: number): (round: Round) => Promise<string> {
  return async (round) => {
    await round.workload.backUp();
    for (let kill = 0; kill < kills; kill++) {
      const chores = round.workload.administer(round.daemon);
      await sleep(200 + round.random() * 1000);
      const { witness } = round;
      if (witness && (kill === 0 || round.random() < 0.5))
        await Promise.race([witness.cosigned(), sleep(COSIGNED_MS_MAX, undefined, { ref: false })]);
      await round.daemon.kill();
      if (witness && round.random() < 0.3) {
        await witness.kill();
        await witness.start();
      }
      await chores;
      if (round.random() < 0.3) {
        const starting = round.start().catch(() => {});
        await sleep(round.random() * 1000);
        await round.sandbox.kill();
        await starting;
      }
      await round.start();
    }
    await round.workload.administer(round.daemon);
    return 'went on';
  };
}

/** Kills the daemon before an epoch begins, as it begins, and after. */
export async function beginEpoch(round: Round): Promise<string> {
  const from = await round.workload.beginEpoch();
  for (const aboutMs of [-3000, 0, 2000]) {
    await sleep(Math.max(0, from + aboutMs + (round.random() - 0.5) * 600 - Date.now()));
    await round.daemon.kill();
    await round.start();
  }
  return 'went on';
}

/** The disk is lost, and an administrator goes back to the newest of two backups, while clients go on. */
export async function goBack(round: Round): Promise<string> {
  for (let backups = 0; backups < 2; backups++) {
    await round.workload.administer(round.daemon);
    await sleep(500);
    await round.workload.backUp();
  }
  await sleep(500 + round.random() * 1000);
  await round.daemon.kill();
  await round.workload.goBack();
  await round.start();
  await sleep(500 + round.random() * 1000);
  return 'went back, and on';
}

/** The start, the stop and what is worse than `info`. */
function warningsIn(log: Daemon['log']): string[] {
  const found = log.filter(({ level, event }) => level !== 'info' || event !== undefined);
  return found.slice(-WARNINGS_MAX).map((line) => JSON.stringify(line));
}

function lines(broken: ReturnType<typeof brokenPromises>): string[] {
  const counted = ([first = '', ...more]: string[]) =>
    more.length > 0 ? `${first} (and ${more.length} more)` : first;
  return Object.entries(broken).map(([promise, against]) => `${promise}: ${counted(against)}`);
}
