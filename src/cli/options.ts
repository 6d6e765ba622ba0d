import { InvalidArgumentError, Option } from 'commander';
import { parseDurationMs } from '../base/units.ts';
import { NAME_PATTERN } from '../config/schema.ts';
import { type Config, loadConfig } from '../config.ts';
import { openStore } from '../store/lmdb.ts';
import type { Store } from '../store/store.ts';

/** `--config FILE`, asked for by every command that works on a store. */
export function configOption(): Option {
  return new Option('--config <file>', 'config file of the environment').makeOptionMandatory();
}

/** `--json`: one JSON object per line on standard output, for scripts. */
export function jsonOption(): Option {
  return new Option('--json', 'print JSON, one object per line');
}

/** Runs `work` on the store of a config file, and closes it. Works beside the running daemon; needs no HSM. */
export async function withStore<T>(
  file: string,
  access: 'read' | 'write',
  work: (store: Store, config: Config) => Promise<T>,
): Promise<T> {
  const config = loadConfig(file, { files: 'unused' });
  const store = await openStore({
    path: config.storeDir,
    expected: { environment: config.environment, logOrigin: config.log.origin },
    readOnly: access === 'read',
    backlogMax: config.webhooks.backlogMax,
  });
  try {
    return await work(store, config);
  } finally {
    await store.close();
  }
}

/** Argument parser: milliseconds. */
export function parseDurationArgument(text: string): number {
  const milliseconds = parseDurationMs(text);
  if (milliseconds !== undefined) return milliseconds;
  throw new InvalidArgumentError('Expected a duration such as 30s, 5m, 24h or 90d.');
}

/** Argument parser: the name of a client or an organization. */
export function parseNameArgument(text: string): string {
  if (NAME_PATTERN.test(text)) return text;
  throw new InvalidArgumentError('Expected a name of a-z, 0-9 and dashes, at most 63.');
}

/** Argument parser: a whole number from 1. */
export function parseCountArgument(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected a whole number from 1.');
}

/** Argument parser: a SHA-256 in hexadecimal, of which the result is in lower case. */
export function parseDigestArgument(text: string): string {
  if (/^[0-9A-Fa-f]{64}$/.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError('Expected 64 hexadecimal characters, as sha256sum prints them.');
}
