import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { promisify } from 'node:util';

/**
 * The program that reports on the system clock, with its absolute path. `socket`: a Unix socket that returns the output of the program.
 * `system`: no source; the administrator trusts the clock.
 */
export type ClockSource =
  | { trust: 'chrony'; program: string; arguments?: readonly string[]; socket?: string }
  | { trust: 'timedatectl'; program: string; arguments?: readonly string[] }
  | { trust: 'system' };

/** The state of the system clock at one moment. */
export interface Synchronization {
  synchronized: boolean;
  /** Largest possible error of the clock, in milliseconds; undefined if the source does not state it. */
  errorBoundMs?: number;
  /** For logs and administrators. */
  detail: string;
}

/** Without -n, chronyc looks up the server's name, which can take longer than everything else. */
const CHRONY_ARGUMENTS = ['-n', '-c', 'tracking'];
const TIMEDATECTL_ARGUMENTS = ['show', '-p', 'NTPSynchronized'];

const PROGRAM_TIMEOUT_MS = 3000;
const OUTPUT_BYTES_MAX = 4096;

/** chrony's reference id while chrony follows its own clock only (directive `local`): 127.127.1.1. */
const CHRONY_LOCAL_REFERENCE = '7F7F0101';
/** An announced leap second does not make the clock wrong. */
const CHRONY_SYNCHRONIZED = ['Normal', 'Insert second', 'Delete second'];

const runProgram = promisify(execFile);

/** Queries the source. Throws Error if the source cannot be queried or its answer cannot be read. */
export async function readSynchronization(source: ClockSource): Promise<Synchronization> {
  switch (source.trust) {
    case 'chrony':
      return parseChronyTracking(
        source.socket === undefined
          ? await ask(source.program, source.arguments ?? CHRONY_ARGUMENTS)
          : await readSocket(source.socket),
      );
    case 'timedatectl':
      return parseTimedatectl(await ask(source.program, source.arguments ?? TIMEDATECTL_ARGUMENTS));
    case 'system':
      return { synchronized: true, detail: 'not checked (clock.trust = "system")' };
  }
}

/**
 * Parses the line of `chronyc -c tracking` (chrony 4.3, chronyc(1)). The error of the clock is at most the offset still to be corrected,
 * plus the root dispersion, plus half of the root delay. Throws Error for any other line.
 */
export function parseChronyTracking(output: string): Synchronization {
  const fields = output.trimEnd().split(',');
  const [reference = '', , stratum = ''] = fields;
  // An empty field does not mean zero.
  const [offset = NaN, delay = NaN, dispersion = NaN] = [4, 10, 11].map((index) =>
    Number(fields[index] || NaN),
  );
  const leap = fields[13];
  if (fields.length !== 14 || !Number.isFinite(offset + delay + dispersion)) {
    throw new Error('the answer of chronyc is not one line of tracking');
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
 * Parses `NTPSynchronized=yes` or `no` (timedatectl(1)): the kernel's flag. It shows that a program keeps the clock synchronized, but not
 * how well. Throws Error for anything else.
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

/** Reads everything until the other end closes. */
async function readSocket(path: string): Promise<string> {
  const stream = connect({ path, signal: AbortSignal.timeout(PROGRAM_TIMEOUT_MS) }).setEncoding('latin1');
  let text = '';
  for await (const part of stream) {
    text += part;
    if (text.length > OUTPUT_BYTES_MAX) throw new Error('the answer is too long');
  }
  return text;
}
