/** Daemons that leak: a soak that does not catch them cannot be trusted. */
import type { DarkMutant, Edit } from '../faults/mutants.ts';

/** What nobody needs any more is no growth: the daemon of a soak collects it before each reading, and the egress process every 10 s. */
export const COLLECTING: readonly Edit[] = [
  { file: 'health/statusReader.js', line: 'async read() {', instead: 'async read() { globalThis.gc();' },
  {
    file: 'main/egressProcess.js',
    line: "execArgv: ['--disable-sigusr1'],",
    instead: "execArgv: ['--disable-sigusr1', '--expose-gc'],",
  },
  {
    file: 'main/egress.js',
    line: 'await stopped;',
    instead: 'setInterval(() => globalThis.gc(), 10_000).unref(); await stopped;',
  },
];
/** For the daemon. */
export const COLLECTING_ENVIRONMENT = { NODE_OPTIONS: '--expose-gc' };

const ANSWER = 'const answer = answerTo(job, options.site);';

export const LEAKS: Record<string, DarkMutant> = {
  memory: {
    name: 'keeps 20 kB of every job',
    file: 'http/create.js',
    line: ANSWER,
    instead: `${ANSWER} (globalThis.kept ??= []).push(Buffer.alloc(20_000, 1));`,
  },
  descriptors: {
    name: 'opens a file with some jobs, and does not close it',
    file: 'http/create.js',
    line: ANSWER,
    instead: `${ANSWER} if (job.id.endsWith('0')) process.getBuiltinModule('fs').openSync('/dev/null');`,
  },
};
