import { dirname, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { formatAddress } from '../net/address.ts';
import type { Config } from './config.ts';
import { configSchema } from './schema.ts';
import type { KeyPath } from './toml.ts';
import { PATHS } from './valueTypes.ts';

/** A key as it is in effect, in the spelling of the file. */
export interface Setting {
  path: KeyPath;
  /** Undefined for a key that is not set and has no default. */
  value: unknown;
  /** Who says so. */
  source: 'file' | 'default' | 'unset';
  /** Whether it is other than the default. What has none is; so is all of a table that the file named. */
  changed: boolean;
}

/** Defaults that other keys decide on. */
const DERIVED: Readonly<Record<string, (config: Config) => unknown>> = {
  'http.public_url': ({ http }) => http.publicUrl,
  'admin.listen': ({ admin }) => formatAddress(admin.socket),
  'log.witness_file': ({ log }) => log.witnessFile,
  'clock.program': ({ clock }) => (clock.trust === 'system' ? undefined : clock.program),
};

/**
 * Every key of the file and of its defaults, in the order of the schema. Paths are absolute, so that the result means the same
 * wherever it is put. `document` is what the TOML parser made of the file that `config` was read from.
 */
export function effectiveSettings(document: unknown, config: Config): Setting[] {
  return Array.from(
    walk(configSchema, document, [], {
      config,
      folder: dirname(config.file),
      isNamed: false,
    }),
  );
}

interface Context {
  config: Config;
  folder: string;
  /** Within a table that is there because the file has it: without its keys it would be missing. */
  isNamed: boolean;
}

function* walk(schema: unknown, found: unknown, path: KeyPath, context: Context): Generator<Setting> {
  const { inner, fallback, isOptional } = unwrap(schema);
  if (inner instanceof z.ZodObject && !(isOptional && found === undefined)) {
    for (const [name, member] of Object.entries(inner.def.shape))
      yield* walk(member, memberOf(found, name), [...path, name], context);
  } else if (inner instanceof z.ZodRecord && isTable(inner.def.valueType)) {
    for (const [name, one] of Object.entries(found ?? {}))
      yield* walk(inner.def.valueType, one, [...path, name], { ...context, isNamed: true });
  } else if (inner instanceof z.ZodArray && isTable(inner.def.element)) {
    for (const [index, one] of ((found ?? []) as unknown[]).entries())
      yield* walk(inner.def.element, one, [...path, index], { ...context, isNamed: true });
  } else yield settingOf(inner, found, fallback, path, context);
}

function settingOf(
  schema: z.core.$ZodType,
  found: unknown,
  fallback: unknown,
  path: KeyPath,
  { config, folder, isNamed }: Context,
): Setting {
  const standard = fallback ?? DERIVED[path.join('.')]?.(config);
  if (found === undefined && standard === undefined)
    return { path, value: undefined, source: 'unset', changed: false };
  if (found === undefined) return { path, value: standard, source: 'default', changed: isNamed };
  const isSame =
    fallback !== undefined && isDeepStrictEqual(z.parse(schema, found), z.parse(schema, fallback));
  return { path, value: absolute(schema, found, path, folder), source: 'file', changed: isNamed || !isSame };
}

function absolute(schema: z.core.$ZodType, value: unknown, path: KeyPath, folder: string): unknown {
  if (typeof value !== 'string') return value;
  if (PATHS.has(schema)) return resolve(folder, value);
  const isSocket = path.join('.') === 'admin.listen' && value.startsWith('unix:');
  return isSocket ? `unix:${resolve(folder, value.slice('unix:'.length))}` : value;
}

/** What is below its default and `optional()`. */
function unwrap(schema: unknown): { inner: z.core.$ZodType; fallback?: unknown; isOptional?: boolean } {
  if (schema instanceof z.ZodPrefault)
    return { ...unwrap(schema.def.innerType), fallback: schema.def.defaultValue };
  if (schema instanceof z.ZodOptional) return { ...unwrap(schema.def.innerType), isOptional: true };
  return { inner: schema as z.core.$ZodType };
}

function isTable(schema: unknown): boolean {
  return unwrap(schema).inner instanceof z.ZodObject;
}

function memberOf(table: unknown, name: string): unknown {
  return typeof table === 'object' && table !== null
    ? Object.entries(table).find(([key]) => key === name)?.[1]
    : undefined;
}
