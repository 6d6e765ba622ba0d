/** Building blocks of the config file's schema: keys, tables, and the types of values. */

import { resolve } from 'node:path';
import * as z from 'zod';
import { parseDay } from '../base/clock.ts';
import { parseBytes, parseDurationMs } from '../base/units.ts';
import {
  type HostPort,
  isLoopback,
  type ListenAddress,
  parseHostPort,
  parseListenAddress,
} from '../web/address.ts';
import { withoutFinalSlashes } from '../web/url.ts';

/** A file that a start reads. */
export interface NamedFile {
  /** Completes the sentence "expected …" if the file cannot be used. */
  expected: string;
  /** The key holds the name of a systemd credential, not a path. */
  isCredential?: true;
  /** The file holds certificates in PEM. */
  hasCertificates?: true;
  /** The file holds a witness policy. */
  hasPolicy?: true;
}

/** Notes of the schema on a key or its type, in addition to those of zod. */
interface Note {
  /** The key in the file, if {@link keyOf} cannot derive it. */
  name?: string;
  /** Completes the sentence "expected …". */
  expected?: string;
  /** The part of `expected` that gives the form of the value; the other part says what it is. */
  form?: string;
  /** The effect of leaving the key out, in words. */
  unset?: string;
  file?: NamedFile;
  /** Makes a value absolute that is relative to the folder of the file. */
  absolute?(found: string, folder: string): string;
}

const NOTES = new WeakMap<z.core.$ZodType, Note>();

function noted<Z extends z.core.$ZodType>(schema: Z, note: Note): Z {
  NOTES.set(schema, { ...NOTES.get(schema), ...note });
  return schema;
}

export function noteOf(schema: z.core.$ZodType): Note {
  return NOTES.get(schema) ?? {};
}

/** An optional key. `unset` says in words what applies without it. */
export function omissible<Z extends z.ZodType>(type: Z, unset = 'none'): z.ZodOptional<Z> {
  return noted(type.optional(), { unset });
}

/** A key whose default depends on the machine; `unset` describes it in words. */
export function computed<Z extends z.ZodType>(type: Z, fallback: () => unknown, unset: string) {
  return noted(z.prefault(type, fallback as () => z.core.util.NoUndefined<z.input<Z>>), { unset });
}

/** A key whose name in the file does not follow from the name of the option. */
export function spelled<Z extends z.ZodType>(name: string, type: Z): Z {
  return noted(type, { name });
}

/** The key of an option: `header_timeout` for `headerTimeoutMs`. Only options name the unit of a duration. */
function keyOf(option: string, schema: z.core.$ZodType): string {
  const snakeCase = option.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return noteOf(schema).name ?? snakeCase.replace(/_ms$/, '');
}

type Options<S extends z.core.$ZodShape> = z.output<z.ZodObject<S, z.core.$strict>>;

/**
 * One table of the file. The members of `shape` are named as the options of the daemon's parts; {@link keyOf} derives their keys in the
 * file. Keys that are not in `shape` are refused.
 */
export function table<S extends Record<string, z.ZodType>>(shape: S): z.ZodType<Options<S>> {
  const members = Object.entries(shape).map(([option, schema]) => {
    return { option, key: keyOf(option, schema), schema };
  });
  const known = members.map(({ key }) => key).join(', ');
  return z
    .strictObject(Object.fromEntries(members.map(({ key, schema }) => [key, schema])), {
      error: (issue) =>
        issue.code === 'unrecognized_keys' ? `one of: ${known}` : `a table with the keys ${known}`,
    })
    .transform((found) => {
      const set = members.filter(({ key }) => found[key] !== undefined);
      return Object.fromEntries(set.map(({ key, option }) => [option, found[key]])) as Options<S>;
    }) as z.ZodType<Options<S>>;
}

/** An optional table: each of its keys has a default or is optional too. */
export function section<S extends Record<string, z.ZodType>>(shape: S) {
  return table(shape).prefault({});
}

/**
 * One value: `read` returns its meaning, or undefined if it does not fit. `expected` completes the sentence "expected …" and is all that an
 * administrator sees, so it gives the form, the bounds and an example.
 */
export function value<T>(expected: string, read: (found: unknown) => T | undefined, note: Note = {}) {
  const schema = z.unknown().transform((found, context): T => {
    const meant = read(found);
    if (meant !== undefined) return meant;
    context.issues.push({ code: 'custom', message: expected, input: found });
    return z.NEVER;
  });
  return noted(schema, { ...note, expected });
}

function measure<T>(what: string, form: string, read: (found: unknown) => T | undefined) {
  return value(`${what}: ${form}`, read, { form });
}

export function list<Z extends z.ZodType>(
  element: Z,
  expected: string,
  max?: [count: number, expected: string],
) {
  const elements = z.array(element, { error: expected });
  return noted(max ? elements.max(max[0], { error: max[1] }) : elements, { expected });
}

export function choice<const T extends string>(expected: string, choices: readonly T[]) {
  return value(expected, (found) => choices.find((one) => one === found));
}

export function text(expected: string, pattern: RegExp, note?: Note) {
  const read = (found: unknown) => (typeof found === 'string' && pattern.test(found) ? found : undefined);
  return value(expected, read, note);
}

/** A path; absolute once the file is read. */
export function path(what: string, file?: NamedFile) {
  return text(`the path of ${what}; a relative one starts at the folder of this file`, /^[^\0]+$/, {
    absolute: (found, folder) => resolve(folder, found),
    file,
  });
}

export function pemFile(what: string, options: Pick<NamedFile, 'hasCertificates'> = {}) {
  const expected = `a PEM file${options.hasCertificates ? ' with certificates' : ''}, readable to this user`;
  return path(`the PEM file with ${what}`, { expected, ...options });
}

/** The path of a witness policy. */
export const policyFile = path('the policy that names the witnesses (C2SP tlog-policy)', {
  expected: 'a witness policy (C2SP tlog-policy), readable to this user',
  hasPolicy: true,
});

/** The name of a systemd credential. */
export function credential(what: string, expected: string) {
  const file = { expected, isCredential: true } as const;
  return text(`the name of a systemd credential that holds ${what}`, /^[\w.-]{1,255}$/, { file });
}

/** The private key of a listener, whose certificate is named before it. */
export const tlsKey = {
  keyFile: omissible(pemFile('its private key'), 'set by key_credential'),
  keyCredential: omissible(
    credential('the private key', 'a PEM file, readable to this user'),
    'set by key_file',
  ),
};

const VARIABLE = 'environment variables for the module: names and text values, { NAME = "value" }';
const VARIABLES = 'a table of environment variables for the module: { NAME = "value" }';

export const variables = noted(z.record(z.string(), text(VARIABLE, /^[^\0]*$/), { error: VARIABLES }), {
  expected: VARIABLES,
});

export function wholeNumber(what: string, min: number, max: number) {
  return measure(what, `a whole number from ${min} to ${max}`, (found) => within(found, min, max));
}

/** A maximum number of `what`; infinite for "unlimited". */
export function wholeNumberOrUnlimited(what: string, max: number) {
  return measure(what, `a whole number from 1 to ${max}, or "unlimited"`, (found) =>
    found === 'unlimited' ? Number.POSITIVE_INFINITY : within(found, 1, max),
  );
}

export function flag(what: string) {
  return measure(what, 'true or false, without quotes', (found) =>
    typeof found === 'boolean' ? found : undefined,
  );
}

/** A duration in milliseconds; infinite for "off", if that is allowed. */
export function duration(what: string, min: string, max: string, off?: 'or off') {
  const form = `a duration from "${min}" to "${max}" (units ms, s, m, h, d)`;
  return measure(what, off ? `${form}, or "off"` : form, (found) => {
    if (off && found === 'off') return Number.POSITIVE_INFINITY;
    if (typeof found !== 'string') return undefined;
    return within(parseDurationMs(found), parseDurationMs(min), parseDurationMs(max));
  });
}

/** A duration in milliseconds, written as a number of hours. */
export function hours(what: string, min: number, max: number) {
  return measure(what, `a whole number from ${min} to ${max}`, (found) => {
    const count = within(found, min, max);
    return count === undefined ? undefined : count * 3_600_000;
  });
}

const DAY_MS = 86_400_000;

/** The end of a day, in milliseconds since the epoch. */
export function date(what: string) {
  return measure(what, 'a date such as "2031-12-31"', (found) => {
    const begin = typeof found === 'string' ? parseDay(found) : undefined;
    return begin === undefined ? undefined : begin + DAY_MS - 1;
  });
}

/** A size in bytes. */
export function size(what: string, min: string, max: string) {
  return measure(what, `a size from "${min}" to "${max}" (units B, KiB, MiB, GiB, TiB)`, (found) =>
    typeof found === 'string' ? within(parseBytes(found), parseBytes(min), parseBytes(max)) : undefined,
  );
}

function within(found: unknown, min = 0, max = Number.MAX_SAFE_INTEGER): number | undefined {
  return typeof found === 'number' && Number.isInteger(found) && found >= min && found <= max
    ? found
    : undefined;
}

export function share(what: string) {
  return measure(what, 'a number from 0 to 1', (found) =>
    typeof found === 'number' && found >= 0 && found <= 1 ? found : undefined,
  );
}

export function objectIdentifier(what: string) {
  return text(`${what}: an object identifier such as "1.3.6.1.4.1.32473.1"`, /^[012](\.(0|[1-9]\d{0,39}))+$/);
}

export const clamdAddress = value(
  'where clamd listens: "unix:/run/clamav/clamd.ctl" or "tcp:127.0.0.1:3310"',
  (found): ListenAddress | undefined => {
    const [, scheme, rest = ''] = typeof found === 'string' ? (/^(unix|tcp):(.+)$/.exec(found) ?? []) : [];
    // Longer paths do not fit into a socket's address (unix(7)).
    if (scheme === 'unix')
      return rest.startsWith('/') && Buffer.byteLength(rest) < 108 ? { path: rest } : undefined;
    const address = parseHostPort(rest);
    return address && address.port > 0 ? address : undefined;
  },
);

/** Any client that reaches the administration may take partitions out of service, so no network must reach it. */
export const adminAddress = value(
  '"unix:" and the path of a socket, or a loopback address such as "127.0.0.1:8401"',
  (found): ListenAddress | undefined => {
    const address = typeof found === 'string' ? parseListenAddress(found) : undefined;
    return address && ('path' in address || isLoopback(address.host)) ? address : undefined;
  },
  { absolute: (found, folder) => found.replace(/^unix:(.+)/s, (_, file) => `unix:${resolve(folder, file)}`) },
);

/** A TCP address: never a Unix socket. */
export const networkAddress = value(
  'an address with a port, such as "192.0.2.10:8443" or "[::]:8443"',
  (found): HostPort | undefined => (typeof found === 'string' ? parseHostPort(found) : undefined),
);

/** One address, or a list of different ones. */
export const listenAddresses = value(
  'an address such as "127.0.0.1:8400", "[::1]:8400" or "unix:/run/pdfseal-api/production/seal.sock", or a list of them',
  (found): readonly ListenAddress[] | undefined => {
    const texts: unknown[] = Array.isArray(found) ? found : [found];
    const addresses = texts.map((one) => (typeof one === 'string' ? parseListenAddress(one) : undefined));
    const isGood = addresses.length > 0 && new Set(texts).size === texts.length;
    return isGood && addresses.every((address) => address !== undefined) ? addresses : undefined;
  },
);

export const authorityUrl = value('the http(s) URL of an RFC 3161 authority', (found) => {
  if (typeof found !== 'string' || !URL.canParse(found)) return undefined;
  const { protocol, username, password } = new URL(found);
  return /^https?:$/.test(protocol) && username === '' && password === '' ? found : undefined;
});

export const publicUrl = value('the http(s) URL clients use, without /v1, query and credentials', (found) => {
  if (typeof found !== 'string' || !URL.canParse(found)) return undefined;
  const url = new URL(found);
  const isBare = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!/^https?:$/.test(url.protocol) || !isBare || /\/v1\/?$/.test(url.pathname)) return undefined;
  return withoutFinalSlashes(url.href);
});
