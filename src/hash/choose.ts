import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import type { Calibration } from './calibrate.ts';
import type { EngineName } from './engine.ts';
import { ADDON, calibrateAddon } from './native.ts';

/** The values of `hash.engine`. `auto` is the fastest engine that works here. */
export type EngineChoice = 'auto' | 'native' | 'wasm';

export interface ChosenEngine {
  engine: EngineName;
  /** Calibration of the native engine. */
  calibration?: Calibration;
}

/**
 * Chooses one engine for all workers: `native`, calibrated, if the add-on loads and a kernel gives correct answers.
 * Otherwise `auto` logs a warning and uses WebAssembly, and `native` throws OperatorError.
 */
export function chooseEngine(
  choice: EngineChoice,
  logger: Pick<Logger, 'info' | 'warn'>,
  addon = ADDON,
): ChosenEngine {
  if (choice === 'wasm') return { engine: 'wasm' };
  try {
    const calibration = calibrateAddon(addon);
    report(calibration, logger);
    return { engine: 'native', calibration };
  } catch (err) {
    if (choice === 'native') throw unusable(err);
    logger.warn({ err }, 'the native hash engine cannot be used: WebAssembly hashes instead, more slowly');
    return { engine: 'wasm' };
  }
}

function report({ chosen, unsound }: Calibration, logger: Pick<Logger, 'info' | 'warn'>): void {
  if (unsound.length > 0)
    logger.warn({ kernels: unsound }, 'these hash kernels compute wrong digests here: they are not used');
  logger.info({ event: 'hash_calibrated', kernels: chosen }, 'the fastest hash kernels were chosen');
}

function unusable(cause: unknown): OperatorError {
  const [reason] = cause instanceof Error ? cause.message.split('\n') : [String(cause)];
  const message = `hash.engine: the native engine cannot be used (${reason}); compile it with npm run compile:addons, or ask for "auto"`;
  return new OperatorError(message, { cause });
}
