import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import type { EngineName } from './engine.ts';
import { ADDON, loadSoundAddon } from './native.ts';

/** What an administrator may ask for; `auto` is the fastest engine that works here. */
export const ENGINE_CHOICES = ['auto', 'native', 'wasm'] as const;
export type EngineChoice = (typeof ENGINE_CHOICES)[number];

/**
 * The one engine of all workers: `native` if the add-on loads and knows its known answers. Otherwise `auto` warns and goes
 * without, and `native` throws OperatorError.
 */
export function chooseEngine(choice: EngineChoice, logger: Pick<Logger, 'warn'>, addon = ADDON): EngineName {
  if (choice === 'wasm') return 'wasm';
  try {
    loadSoundAddon(addon);
    return 'native';
  } catch (err) {
    if (choice === 'native') throw unusable(err);
    logger.warn({ err }, 'the native hash engine cannot be used: hashing with WebAssembly, slower');
    return 'wasm';
  }
}

function unusable(cause: unknown): OperatorError {
  const [reason] = cause instanceof Error ? cause.message.split('\n') : [String(cause)];
  const message = `hash.engine: the native engine cannot be used (${reason}); compile it with npm run compile:addons, or ask for "auto"`;
  return new OperatorError(message, { cause });
}
