import { z } from 'zod';
import { parseBytes, parseDurationMs } from '../base/units.ts';
import { isLoopback, type ListenAddress, parseHostPort, parseListenAddress } from '../net/address.ts';
import { withoutFinalSlashes } from '../net/url.ts';

/**
 * One key of the file: `read` gives its value, or undefined for what does not fit. `expected` completes the sentence
 * "expected …" and is all an administrator gets to see, so it says the form, the bounds and an example.
 */
export function key<T>(expected: string, read: (found: unknown) => T | undefined) {
  return z.unknown().transform((found, context): T => {
    const value = read(found);
    if (value !== undefined) return value;
    context.issues.push({ code: 'custom', message: expected, input: found });
    return z.NEVER;
  });
}

/** One table of the file; keys that are not in `shape` are refused. */
export function table<S extends z.core.$ZodLooseShape>(shape: S) {
  const known = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys' ? `one of: ${known}` : `a table with the keys ${known}`,
  });
}

export function text(expected: string, pattern: RegExp) {
  return key(expected, (found) => (typeof found === 'string' && pattern.test(found) ? found : undefined));
}

/** The schemas of keys that are paths. */
export const PATHS = new WeakSet<z.core.$ZodType>();

export function path(what: string) {
  const schema = text(`the path of ${what}; a relative one starts at the folder of this file`, /^[^\0]+$/);
  PATHS.add(schema);
  return schema;
}

export function integer(what: string, min: number, max: number) {
  return key(`${what}: a whole number from ${min} to ${max}`, (found) => within(found, min, max));
}

export function flag(what: string) {
  return key(`${what}: true or false, without quotes`, (found) =>
    typeof found === 'boolean' ? found : undefined,
  );
}

/** Milliseconds. */
export function duration(what: string, min: string, max: string) {
  return key(`${what}: a duration from "${min}" to "${max}" (units ms, s, m, h, d)`, (found) =>
    typeof found === 'string'
      ? within(parseDurationMs(found), parseDurationMs(min), parseDurationMs(max))
      : undefined,
  );
}

/** Milliseconds; endless for "off". */
export function durationOrOff(what: string, min: string, max: string) {
  return key(`${what}: a duration from "${min}" to "${max}" (units ms, s, m, h, d), or "off"`, (found) => {
    if (found === 'off') return Number.POSITIVE_INFINITY;
    if (typeof found !== 'string') return undefined;
    return within(parseDurationMs(found), parseDurationMs(min), parseDurationMs(max));
  });
}

/** Bytes. */
export function size(what: string, min: string, max: string) {
  return key(`${what}: a size from "${min}" to "${max}" (units B, KiB, MiB, GiB, TiB)`, (found) =>
    typeof found === 'string' ? within(parseBytes(found), parseBytes(min), parseBytes(max)) : undefined,
  );
}

function within(value: unknown, min = 0, max = Number.MAX_SAFE_INTEGER): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
    ? value
    : undefined;
}

export function share(found: unknown): number | undefined {
  return typeof found === 'number' && found >= 0 && found <= 1 ? found : undefined;
}

export function clamdAddress(found: unknown): ListenAddress | undefined {
  const [, scheme, rest = ''] = /^(unix|tcp):(.+)$/.exec(String(found)) ?? [];
  // Longer paths do not fit into a socket's address (unix(7)).
  if (scheme === 'unix')
    return rest.startsWith('/') && Buffer.byteLength(rest) < 108 ? { path: rest } : undefined;
  const address = parseHostPort(rest);
  return address && address.port > 0 ? address : undefined;
}

/** Who reaches it may take partitions out of service, so it is never where a network is. */
export function adminAddress(found: unknown): ListenAddress | undefined {
  const address = typeof found === 'string' ? parseListenAddress(found) : undefined;
  return address && ('path' in address || isLoopback(address.host)) ? address : undefined;
}

/** One address, or a list of different ones. */
export function listenAddresses(found: unknown): readonly ListenAddress[] | undefined {
  const texts: unknown[] = Array.isArray(found) ? found : [found];
  const addresses = texts.map((each) => (typeof each === 'string' ? parseListenAddress(each) : undefined));
  const isGood = addresses.length > 0 && new Set(texts).size === texts.length;
  return isGood && addresses.every((address) => address !== undefined) ? addresses : undefined;
}

export function authorityUrl(found: unknown): string | undefined {
  if (typeof found !== 'string' || !URL.canParse(found)) return undefined;
  const { protocol, username, password } = new URL(found);
  return /^https?:$/.test(protocol) && username === '' && password === '' ? found : undefined;
}

export function oid(what: string) {
  return text(`${what}: an object identifier such as "1.3.6.1.4.1.32473.1"`, /^[012](\.(0|[1-9]\d{0,39}))+$/);
}

export function publicUrl(found: unknown): string | undefined {
  if (typeof found !== 'string' || !URL.canParse(found)) return undefined;
  const url = new URL(found);
  const bare = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!/^https?:$/.test(url.protocol) || !bare || /\/v1\/?$/.test(url.pathname)) return undefined;
  return withoutFinalSlashes(url.href);
}

/** A number of what `what` says, or no limit. */
export function count(what: string, max: number) {
  return key(`${what}: a whole number from 1 to ${max}, or "unlimited"`, (found) =>
    found === 'unlimited' ? Number.POSITIVE_INFINITY : within(found, 1, max),
  );
}
