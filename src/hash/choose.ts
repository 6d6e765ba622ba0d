import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import type { Calibration } from './calibrate.ts';
import type { EngineName } from './engine.ts';
import { ADDON, calibrateAddon } from './native.ts';

/** The values of `hash.engine`. `auto` is the fastest engine that works here. */
export type EngineChoice = 'auto' | 'native' | 'wasm';

/**
 * Chooses one engine for all workers: `native`, calibrated, if the add-on loads and a kernel gives correct answers.
 * Otherwise `auto` logs a warning and uses WebAssembly, and `native` throws OperatorError. The calibration is that of the native engine.
 */
export function chooseEngine(
  choice: EngineChoice,
  logger: Pick<Logger, 'info' | 'warn'>,
  addon = ADDON,
): { engine: EngineName; calibration?: Calibration } {
  if (choice === 'wasm') return { engine: 'wasm' };
  try {
    const calibration = calibrateAddon(addon);
    const { chosen, unsound } = calibration;
    if (unsound.length > 0)
      logger.warn({ kernels: unsound }, 'these hash kernels compute wrong digests here: they are not used');
    logger.info({ event: 'hash_calibrated', kernels: chosen }, 'the fastest hash kernels were chosen');
    return { engine: 'native', calibration };
  } catch (err) {
    const [reason] = err instanceof Error ? err.message.split('\n') : [String(err)];
    const message = `hash.engine: the native engine cannot be used (${reason}); compile it with npm run compile:addons, or ask for "auto"`;
    if (choice === 'native') throw new OperatorError(message, { cause: err });
    logger.warn({ err }, 'the native hash engine cannot be used: WebAssembly hashes instead, more slowly');
    return { engine: 'wasm' };
  }
}
