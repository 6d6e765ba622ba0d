import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { parseDay } from '../base/clock.ts';
import { fromEnvironment } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { NAME_PATTERN } from '../base/names.ts';
import { systemReason } from '../base/systemReason.ts';
import { parseDurationMs } from '../base/units.ts';
import { ConfigOption, option } from './command.ts';

const CONFIG_FOLDER = '/etc/pdfseal';

export const CONFIG_DESCRIPTION = `config file of the environment (default: PDFSEAL_CONFIG, or the only *.toml in ${CONFIG_FOLDER})`;

/** The option of every command that works on an environment. If it is left out, {@link completeConfig} fills it in. */
export const CONFIG = option('--config <file>', CONFIG_DESCRIPTION, { isConfig: true });

export const TRUST = option(
  '--trust <file>',
  'trust file, from a source that you trust (pdfseal trust export)',
  { required: true },
);

/** The config files of the environments of this machine. */
export function configFiles(folder = CONFIG_FOLDER): string[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.toml'));
  return names.sort().map((name) => join(folder, name));
}

/** The config file to use if none is named. Throws OperatorError unless there is exactly one. */
export function defaultConfigFile(named = fromEnvironment('PDFSEAL_CONFIG'), folder = CONFIG_FOLDER): string {
  if (named !== undefined) return named;
  const remedy = 'name it with --config FILE, or in the environment variable PDFSEAL_CONFIG';
  let files: string[];
  try {
    files = configFiles(folder);
  } catch (cause) {
    const reason = systemReason(cause);
    throw new OperatorError(`no config file is named, and ${folder} cannot be read (${reason})`, { remedy });
  }
  const [only, second] = files;
  if (only === undefined)
    throw new OperatorError(`no config file is named, and there is none in ${folder}`, { remedy });
  if (second === undefined) return only;
  throw new OperatorError(`several config files are in ${folder}: ${files.join(', ')}`, { remedy });
}

/** Fills in the `--config` of a command that was called without it. Ends as wrong usage if it is unclear which file is meant. */
export function completeConfig(command: Command): void {
  const option = command.options.find((one) => one instanceof ConfigOption);
  if (option === undefined || command.getOptionValue('config') !== undefined) return;
  try {
    const file = defaultConfigFile();
    command.setOptionValue('config', option.parseArg?.(file, undefined) ?? file);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    command.error(`error: ${error.message}: ${error.remedy}`);
  }
}

/** Argument parser: milliseconds. */
export function parseDurationArgument(text: string): number {
  const milliseconds = parseDurationMs(text);
  if (milliseconds !== undefined) return milliseconds;
  throw new InvalidArgumentError('Expected a duration such as 30s, 5m, 24h or 90d.');
}

/** Argument parser: lifetime of a credential in milliseconds, more than 0. */
export function parseLifetimeArgument(text: string): number {
  const milliseconds = parseDurationArgument(text);
  if (milliseconds > 0) return milliseconds;
  throw new InvalidArgumentError('Expected a duration above 0, such as 1h or 90d.');
}

/** A timer of 2^31 ms or more fires at once. */
const WAIT_MS_MAX = 24 * 86_400_000;

/** Argument parser: milliseconds to wait, at most 24 days. */
export function parseWaitArgument(text: string): number {
  const milliseconds = parseDurationArgument(text);
  if (milliseconds <= WAIT_MS_MAX) return milliseconds;
  throw new InvalidArgumentError('Expected a duration of at most 24d.');
}

/** Argument parser: milliseconds since the epoch of Unix, whole seconds. A date alone is its first moment in UTC. */
export function parseDateArgument(text: string): number {
  const form = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(Z|[+-]\d{2}:\d{2}))?$/;
  const isReal = form.test(text) && parseDay(text.slice(0, 10)) !== undefined;
  const time = isReal ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new InvalidArgumentError(
    'Expected a date such as 2027-01-01, or a date with time and zone such as 2027-01-01T06:00:00Z.',
  );
}

/** Argument parser: the name of a client or an organization. */
export function parseNameArgument(text: string): string {
  if (NAME_PATTERN.test(text)) return text;
  throw new InvalidArgumentError('Expected a name of at most 63 characters: a-z, 0-9 and dashes.');
}

/** Argument parser: a whole number from 1. */
export function parseCountArgument(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected a whole number, 1 or greater.');
}

/** Argument parser: the size of a log, in leaves. */
export function parseSizeArgument(text: string): number {
  if (/^(0|[1-9]\d{0,14})$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected the number of leaves, such as 48213.');
}

/** Argument parser: a SHA-256 in hexadecimal; the result is in lower case. */
export function parseDigestArgument(text: string): string {
  if (/^[0-9A-Fa-f]{64}$/.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError('Expected 64 hexadecimal characters, as sha256sum prints them.');
}

/** An administrator who accepts a rollback must have seen how far it goes. */
export function requireSize(accepted: number | true, leaves: number): void {
  if (accepted === true)
    throw new OperatorError(`the log has ${leaves} leaves: repeat with --accept-rollback ${leaves}`);
  if (accepted !== leaves)
    throw new OperatorError(`the log has ${leaves} leaves, not ${accepted}: nothing was accepted`);
}
