import { readFileSync } from 'node:fs';
import type { Config } from '../../config/config.ts';
import { chooseEngine } from '../../hash/choose.ts';
import { presentKernels } from '../../health/sections/documentsSection.ts';
import type { AdminStatus } from '../../health/statusSchema.ts';
import { readSynchronization } from '../../tsa/synchronization.ts';
import { describeKernels } from '../daemon/statusReport.ts';
import { bad, badFrom, type Diagnosis, good, warning } from './diagnosis.ts';

/** The version that pdfseald is tested with; Node 26 does not work with lmdb yet. */
const NODE_MAJOR = 24;
/** Open files besides connections: the store, signers, libraries, the log. */
const FILES_BESIDE_MIN = 256;

export function diagnoseNode(): Diagnosis {
  const major = Number.parseInt(process.versions.node, 10);
  if (major === NODE_MAJOR) return good('node', process.version);
  const remedy = `run pdfseald with Node.js ${NODE_MAJOR}, such as node_modules/.bin/node of this package`;
  return warning('node', `${process.version}; pdfseald is not tested with this version`, remedy);
}

/** Whether all uploads that the configuration allows can be open at once; `pid` of the daemon, or of this process. */
export function diagnoseLimits({ http }: Config, pid: number | 'self'): Diagnosis {
  const needed = http.uploadsMax + FILES_BESIDE_MIN;
  const whose = pid === 'self' ? 'of this shell; the daemon may have another limit' : 'of the daemon';
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/limits`, 'utf8');
  } catch {
    return warning(
      'open files',
      'cannot read the limits of the daemon',
      'run this as the user of the daemon or as root',
    );
  }
  const [, soft = '0'] = /^Max open files +(\d+|unlimited)/m.exec(text) ?? [];
  const limit = soft === 'unlimited' ? Infinity : Number(soft);
  const detail = `${soft} (${whose})`;
  if (limit >= needed) return good('open files', detail);
  const remedy = `${needed} are needed: set LimitNOFILE=65536 in the unit, or lower http.uploads_max`;
  return warning('open files', detail, remedy);
}

/** For when no daemon runs that watches the clock. */
export async function* diagnoseClock({ clock, timestamp }: Config): AsyncIterable<Diagnosis> {
  if (timestamp.authorities.length > 0) yield await judgeClock(clock, timestamp.accuracyMs);
}

async function judgeClock(clock: Config['clock'], accuracyMs: number): Promise<Diagnosis> {
  const remedy =
    'start and synchronize the time service that clock.trust names; `chronyc tracking` shows its state';
  try {
    const { synchronized, errorBoundMs, detail } = await readSynchronization(clock);
    const bound = errorBoundMs === undefined ? '' : `, wrong by at most ${errorBoundMs.toFixed(3)} ms`;
    if (!synchronized) return bad('clock', detail, remedy);
    if (errorBoundMs !== undefined && errorBoundMs > accuracyMs)
      return bad('clock', `${detail}${bound}: more than timestamp.accuracy`, remedy);
    if (clock.trust === 'system')
      return warning(
        'clock',
        'not checked (clock.trust = "system")',
        'set clock.trust to chrony, unless something else keeps the time',
      );
    return good('clock', `${detail}${bound}`);
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    return bad('clock', `cannot ask ${clock.trust}: ${reason}`, remedy);
  }
}

const CHECK = 'hash engine';
/** For one document alone: below this, a gigabyte takes more than seven seconds on one core. */
const SLOW_BELOW_MEGABYTES_PER_SECOND = 150;

/** For when no daemon runs that could say which engine it uses. */
export function diagnoseEngine({ hash }: Config): Diagnosis {
  const silent = { info: () => {}, warn: () => {} };
  try {
    const { engine, calibration } = chooseEngine(hash.engine, silent);
    if (engine === hash.engine && engine === 'wasm') return good(CHECK, engine);
    return judgeEngine(engine, presentKernels(calibration?.chosen ?? []));
  } catch (error) {
    return badFrom(CHECK, error, 'compile the add-on, or set hash.engine = "auto"');
  }
}

export function judgeEngine(engine: string, kernels: AdminStatus['hash']['kernels']): Diagnosis {
  if (engine !== 'native') {
    const remedy = 'run npm run compile:addons, or install the package for this processor';
    return warning(CHECK, 'WebAssembly, because the native engine does not work here', remedy);
  }
  const detail = `native; documents at once, kernel and speed on one core: ${describeKernels(kernels)}`;
  const alone = kernels.find(({ streams }) => streams === 1)?.megabytes_per_second ?? 0;
  if (alone >= SLOW_BELOW_MEGABYTES_PER_SECOND) return good(CHECK, detail);
  const remedy =
    'check whether the machine is overloaded, or its virtual processor hides SHA-NI or AVX2; then restart the daemon to measure again';
  return warning(
    CHECK,
    `${detail}: less than ${SLOW_BELOW_MEGABYTES_PER_SECOND} MB/s for one document`,
    remedy,
  );
}
