import { presentKernels } from '../../admin/status/documentsSection.ts';
import type { AdminStatus } from '../../admin/statusSchema.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { chooseEngine } from '../../hash/choose.ts';
import { describeKernels } from '../daemon/status/rows.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

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
    if (!(error instanceof OperatorError)) throw error;
    return bad(CHECK, error.message, 'compile the add-on, or set hash.engine = "auto"');
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
