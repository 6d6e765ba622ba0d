import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Who vouches for the system clock; the program by its absolute path. `system`: nobody, and that is said on purpose. */
export type ClockSource =
  | { trust: 'chrony'; program: string; arguments?: readonly string[] }
  | { trust: 'timedatectl'; program: string; arguments?: readonly string[] }
  | { trust: 'system' };

/** What is known of the system clock at one moment. */
export interface Synchronization {
  synchronized: boolean;
  /** Most by which the clock can be wrong, in milliseconds; undefined where the source does not say. */
  errorBoundMs?: number;
  /** For logs and administrators. */
  detail: string;
}

/** Without -n chronyc looks up the name of the server, which can take longer than everything else. */
const CHRONY_ARGUMENTS = ['-n', '-c', 'tracking'];
const TIMEDATECTL_ARGUMENTS = ['show', '-p', 'NTPSynchronized'];

const PROGRAM_TIMEOUT_MS = 3000;
const OUTPUT_BYTES_MAX = 4096;

/** chrony's reference id while it follows nothing but itself (directive `local`): 127.127.1.1. */
const CHRONY_LOCAL_REFERENCE = '7F7F0101';
/** A leap second ahead does not make the clock wrong. */
const CHRONY_SYNCHRONIZED = ['Normal', 'Insert second', 'Delete second'];

const runProgram = promisify(execFile);

/** Asks the source. Throws Error when it cannot be asked or answers something else than expected. */
export async function readSynchronization(source: ClockSource): Promise<Synchronization> {
  switch (source.trust) {
    case 'chrony':
      return parseChronyTracking(await ask(source.program, source.arguments ?? CHRONY_ARGUMENTS));
    case 'timedatectl':
      return parseTimedatectl(await ask(source.program, source.arguments ?? TIMEDATECTL_ARGUMENTS));
    case 'system':
      return { synchronized: true, detail: 'trusted because the configuration says so' };
  }
}

/**
 * The line of `chronyc -c tracking` (chrony 4.3, chronyc(1)). The clock is wrong by no more than the offset still to be
 * corrected, the root dispersion and half of the root delay. Throws Error for another line.
 */
export function parseChronyTracking(output: string): Synchronization {
  const fields = output.trimEnd().split(',');
  const [reference = '', , stratum = ''] = fields;
  // An empty field is no zero.
  const [offset = NaN, delay = NaN, dispersion = NaN] = [4, 10, 11].map((index) =>
    Number(fields[index] || NaN),
  );
  const leap = fields[13];
  if (fields.length !== 14 || !Number.isFinite(offset + delay + dispersion)) {
    throw new Error('chronyc answered something else than one line of tracking');
  }
  if (reference === CHRONY_LOCAL_REFERENCE) {
    return { synchronized: false, detail: 'chrony follows its own clock only (directive local)' };
  }
  if (!CHRONY_SYNCHRONIZED.includes(leap ?? '') || stratum === '0') {
    return { synchronized: false, detail: `chrony: ${leap}` };
  }
  const errorBoundMs = (Math.abs(offset) + dispersion + delay / 2) * 1000;
  return { synchronized: true, errorBoundMs, detail: `chrony: stratum ${stratum}` };
}

/**
 * `NTPSynchronized=yes` or `no` (timedatectl(1)): the kernel's flag, which says that some program keeps the clock, not how
 * well. Throws Error for anything else.
 */
export function parseTimedatectl(output: string): Synchronization {
  const [, value] = /^NTPSynchronized=(yes|no)$/m.exec(output) ?? [];
  if (value === undefined) throw new Error('timedatectl did not say whether the clock is synchronized');
  return { synchronized: value === 'yes', detail: `timedatectl: NTPSynchronized=${value}` };
}

async function ask(program: string, args: readonly string[]): Promise<string> {
  const { stdout } = await runProgram(program, [...args], {
    env: { LC_ALL: 'C', PATH: '/usr/bin:/bin' },
    timeout: PROGRAM_TIMEOUT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: OUTPUT_BYTES_MAX,
  });
  return stdout;
}
