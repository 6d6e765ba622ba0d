import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { formatAddress } from '../web/address.ts';
import type { Config } from './config.ts';
import { leavesOf } from './document.ts';
import type { KeyPath } from './toml.ts';

/** The effective value of a key, in the spelling of the file. */
export interface Setting {
  path: KeyPath;
  /** Undefined for a key that is not set and has no default. */
  value: unknown;
  /** The origin of the value. */
  source: 'file' | 'default' | 'unset';
  /** Whether the value differs from the default. True for every value without a default, and for all of a table that the file named. */
  changed: boolean;
}

/** Defaults that depend on other keys. */
const DERIVED: Readonly<Record<string, (config: Config) => unknown>> = {
  'http.public_url': ({ http }) => http.publicUrl,
  'admin.listen': ({ admin }) => formatAddress(admin.socket),
  'console.listen': ({ console }) => console && formatAddress(console.listen),
  'log.last_checkpoint_file': ({ log }) => log.lastCheckpointFile,
  'clock.program': ({ clock }) => (clock.trust === 'system' ? undefined : clock.program),
};

/**
 * Every key of the file and every default, in the order of the schema. Paths are absolute, so the result means the same wherever it is put.
 */
export function effectiveSettings(config: Config): Setting[] {
  return leavesOf(config.document).map(({ path, schema, found, fallback, isNamed }) => {
    const standard = fallback ?? DERIVED[path.join('.')]?.(config);
    if (found !== undefined) {
      const isSame =
        fallback !== undefined && isDeepStrictEqual(z.parse(schema, found), z.parse(schema, fallback));
      return { path, value: found, source: 'file', changed: isNamed || !isSame };
    }
    if (standard === undefined) return { path, value: undefined, source: 'unset', changed: false };
    return { path, value: standard, source: 'default', changed: isNamed };
  });
}
