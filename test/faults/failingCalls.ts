/** System calls that fail: strace gives the n-th call of a thread an error, another result, a delay or a signal. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Daemon } from '../support/daemon.ts';
import { type Outcome, playRound, type Round } from './play.ts';

interface FailingCall {
  call: string;
  /** As `-e inject` of strace takes them. */
  effects: string[];
  /** Below the folder of the daemon; absent: any file, also of its children. */
  file?: string;
  /** The fault comes at one of so many calls of each thread, after the first `nthMin`: those of the dynamic linker. */
  nthMax: number;
  nthMin?: number;
  /** The signal by which a library ends the process, where nothing can be done about it. */
  crashes?: string;
  /** Whether its start may hang, until the service manager ends it (`TimeoutStartSec=`). */
  mayHang?: boolean;
}

const DISK_ERRORS = [
  'error=EIO',
  'error=ENOSPC',
  'error=EROFS',
  'error=EINTR',
  'signal=SIGKILL',
  'delay_enter=3000000',
];
const STORE = 'state/store/data.mdb';
const LAST = 'state/last-checkpoint';

/**
 * Where a page cannot be written, lmdb-js writes more than 100 bytes of message into the 100 that it has for it, which can damage the heap
 * ("corrupted size vs. prev_size"): the end is then this, not 70.
 */
export const STORE_UNWRITABLE = 'SIGABRT';

/** What the daemon does to start, to commit and to answer. */
export const CALLS: readonly FailingCall[] = [
  {
    call: 'pwrite64',
    effects: [...DISK_ERRORS, 'retval=512'],
    file: STORE,
    nthMax: 12,
    crashes: STORE_UNWRITABLE,
  },
  {
    call: 'writev',
    effects: [...DISK_ERRORS, 'retval=512'],
    file: STORE,
    nthMax: 12,
    crashes: STORE_UNWRITABLE,
  },
  { call: 'fdatasync', effects: DISK_ERRORS, file: STORE, nthMax: 12 },
  { call: 'lseek', effects: ['error=EIO'], file: STORE, nthMax: 6 },
  { call: 'ftruncate', effects: ['error=ENOSPC', 'error=EIO'], file: STORE, nthMax: 3 },
  // lmdb-js crashes where it cannot map the file; the daemon looks at the limit of its address space before it opens the store.
  { call: 'mmap', effects: ['error=ENOMEM', 'error=EAGAIN'], file: STORE, nthMax: 4, crashes: 'SIGSEGV' },
  // The fourth is that of lmdb for its meta pages: lmdb-js crashes where an environment cannot be opened.
  {
    call: 'openat',
    effects: ['error=EIO', 'error=EMFILE', 'error=EACCES'],
    file: STORE,
    nthMax: 4,
    crashes: 'SIGSEGV',
  },
  { call: 'write', effects: DISK_ERRORS, file: LAST, nthMax: 3 },
  { call: 'fdatasync', effects: DISK_ERRORS, file: LAST, nthMax: 3 },
  { call: 'openat', effects: ['error=EIO', 'error=EMFILE', 'error=EROFS'], file: LAST, nthMax: 3 },
  {
    call: 'openat',
    effects: ['error=EMFILE', 'error=ENOMEM', 'error=EIO', 'signal=SIGKILL'],
    nthMin: 30,
    nthMax: 300,
  },
  { call: 'read', effects: ['error=EIO'], file: 'sandbox.toml', nthMax: 2 },
  { call: 'pread64', effects: ['error=EIO'], file: LAST, nthMax: 4 },
  {
    call: 'accept4',
    effects: ['error=EMFILE', 'error=ENFILE', 'error=ECONNABORTED', 'error=ENOMEM'],
    nthMax: 20,
  },
  // Node.js aborts where it cannot start the threads it needs itself, or waits for ever for one of its workers, before it reads our code.
  {
    call: 'clone3',
    effects: ['error=EAGAIN', 'error=ENOMEM'],
    nthMax: 12,
    crashes: 'SIGABRT',
    mayHang: true,
  },
  { call: 'socket', effects: ['error=EMFILE', 'error=ENOBUFS'], nthMax: 10 },
];

/** Of the next call that fails: all are reached if it has no factor in common with their number. */
const STRIDE = 7;
/** How long the daemon is watched after it listens; delays are over by then. */
const WATCH_MS = 4_000;
/** The start takes two seconds, and some more under strace on a busy machine. */
const START_MS_MAX = 120_000;
const HANGS = 'hung';
/** It stops within its drain time-out and a margin. */
const STOP_MS_MAX = 60_000;

/** How the calls of a daemon are made to fail, and what may follow. */
export interface Injection {
  /** For a message. */
  what: string;
  /** The signal by which the daemon may end. */
  signal?: string | undefined;
  mayHang?: boolean;
  through(round: Round): string[];
  /** What else is done while the daemon is watched. */
  during?(round: Round): Promise<void>;
  /** Whether a call has failed; absent: nobody can tell. */
  isReached?(round: Round, ended: number | string): boolean;
}

/** Fails one call of a kind. Consecutive seeds go through its effects, and then to later calls of a thread. */
export function failCall(
  { call, effects, file, nthMin = 0, nthMax, crashes, mayHang = false }: FailingCall,
  seed: number,
): Promise<Outcome> {
  const effect = effects[seed % effects.length] ?? '';
  const nth = nthMin + 1 + ((Math.floor(seed / effects.length) * STRIDE) % nthMax);
  const inject = `inject=${call}:${effect}:when=${nth}`;
  const logOf = ({ sandbox }: Round) => join(sandbox.dir, 'strace');
  return failUnder(seed, {
    what: `${inject} ${file ?? ''}`,
    signal: effect.includes('SIGKILL') ? 'SIGKILL' : crashes,
    mayHang,
    through: (round) => {
      const where = file ? ['-P', join(round.sandbox.dir, file)] : [];
      const strace = ['strace', '-D', '-f', '-q', '--seccomp-bpf', '-o', logOf(round)];
      return [...strace, ...where, '-e', `trace=${call}`, '-e', inject];
    },
    isReached: (round, ended) =>
      ended === 'SIGKILL' || /\((?:INJECTED|DELAYED)\)/.test(readFileSync(logOf(round), 'latin1')),
  });
}

/** Starts the daemon again under an injection, and then without one. */
export function failUnder(seed: number, injection: Injection): Promise<Outcome> {
  const { what, signal, mayHang = false, isReached = () => true } = injection;
  const disturb = async (round: Round) => {
    await round.daemon.stop();
    const answered = round.workload.history.tries.length;
    const ended = await watch(round, injection);
    if (!(mayHang && ended === HANGS)) assertLegal(ended, what, signal);
    const wasReached = isReached(round, ended);
    await round.start();
    await sleep(500);
    const hasRefused = round.workload.history.tries
      .slice(answered)
      .some(({ answer }) => (answer?.status ?? 0) >= 500 && answer?.code !== 'shutting_down');
    if (!wasReached) return 'not reached';
    if (ended !== 0) return endingOf(ended);
    return hasRefused ? 'answered 5xx and went on' : 'went on';
  };
  return playRound(seed, disturb, { callsFail: true });
}

/** Runs the daemon under an injection; returns how it ended by itself, or 0 when it was stopped. */
async function watch(round: Round, { through, during }: Injection): Promise<number | string> {
  try {
    const late = sleep(START_MS_MAX, HANGS, { ref: false });
    if ((await Promise.race([round.start(through(round)), late])) === HANGS) {
      await round.sandbox.kill();
      return HANGS;
    }
  } catch (error) {
    const [, how = ''] =
      /^pdfseald ended with (\w+): /.exec(error instanceof Error ? error.message : '') ?? [];
    if (how === '') throw error;
    // Who refuses says why.
    if (how === '1' && !/E[A-Z]{2,}|pdfseald: \S/.test(String(error))) throw error;
    return /^\d+$/.test(how) ? Number(how) : how;
  }
  const { daemon } = round;
  const watched = Promise.all([sleep(WATCH_MS), during?.(round)]).then(() => undefined);
  const ended = await Promise.race([daemon.ended(), watched]);
  return ended ?? stopInTime(daemon);
}

async function stopInTime(daemon: Daemon): Promise<number | string> {
  const late = sleep(STOP_MS_MAX, 'late', { ref: false });
  const ended = await Promise.race([daemon.stop(), late]);
  if (ended !== 'late') return ended;
  await daemon.kill();
  throw new Error(`it did not stop within ${STOP_MS_MAX / 1000} s`);
}

/** 1 and 70 are for the service manager; any signal but the expected one is a crash. */
function assertLegal(ended: number | string, what: string, signal: string | undefined): void {
  const isLegal = ended === 0 || ended === 1 || ended === 70 || ended === signal;
  if (!isLegal) throw new Error(`${what}: it ended with ${ended}`);
}

function endingOf(ended: number | string): string {
  if (ended === 1) return 'refused to start';
  if (ended === HANGS) return 'hung, and started when it was killed';
  return `ended with ${ended} and started`;
}
