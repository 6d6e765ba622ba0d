import type { Setting } from './effective.ts';
import type { SettingInEffect } from './reload.ts';
import type { KeyPath } from './toml.ts';

/** Names of environment variables that may pass a secret to a module; their values are not printed. */
const SECRET = /pin|pass|pwd|secret|token|credential|auth|key/i;
/** The PIN in a URI that names an object on a token. */
const PIN_ATTRIBUTE = /pin-(?:value|source)=/i;
const NOT_SHOWN = '(not shown)';

/** A value without secrets, for printing: none in the query of a URL, in a PKCS #11 URI (RFC 7512) or in a table of variables. */
export function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') {
    if (PIN_ATTRIBUTE.test(value)) return NOT_SHOWN;
    const [address = '', query] = value.split('?', 2);
    return query !== undefined && /^https?:/i.test(address) ? `${address}?${NOT_SHOWN}` : value;
  }
  if (Array.isArray(value)) return value.map(withoutSecrets);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, SECRET.test(name) ? NOT_SHOWN : withoutSecrets(one)]),
  );
}

/** Like {@link withoutSecrets}, and also without possible secrets: a URL is cut to its origin, and variables lose their values. */
function withoutAnySecret(value: unknown): unknown {
  if (typeof value === 'string') return withoutSecrets(originOf(value));
  if (Array.isArray(value)) return value.map(withoutAnySecret);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.keys(value).map((name) => [name, NOT_SHOWN]));
}

function originOf(text: string): string {
  const url = URL.parse(text);
  if (url === null || url.host === '') return text;
  const origin = `${url.protocol}//${url.host}`;
  return text === origin || text === `${origin}/` ? text : `${origin}/…`;
}

/** Settings with their values as the file would spell them, without secrets; unless `isWhole`, also without possible secrets. */
export function spelledSettings(settings: readonly SettingInEffect[], { isWhole }: { isWhole: boolean }) {
  const shown = isWhole ? withoutSecrets : withoutAnySecret;
  const spelled = (value: unknown) => (value === undefined ? undefined : toTomlValue(shown(value)));
  return settings.map(({ key, value, source, changed, next }) => {
    return {
      key,
      value: spelled(value),
      source,
      changed,
      ...(next && { next: { value: spelled(next.value) } }),
    };
  });
}

export function hidesSecrets(settings: readonly Setting[]): boolean {
  return settings.some(({ value }) => JSON.stringify(withoutSecrets(value))?.includes(NOT_SHOWN));
}

/** The settings as a valid config file: keys below their tables, each with its source. */
export function toTomlLines(settings: readonly Setting[]): string[] {
  const tables = new Map<string, Setting[]>();
  for (const setting of settings) {
    const table = JSON.stringify(setting.path.slice(0, -1));
    tables.set(table, [...(tables.get(table) ?? []), setting]);
  }
  return Array.from(tables.values(), (members) => {
    const table = members[0]?.path.slice(0, -1) ?? [];
    const lines = members.map(({ path, value, source }): [text: string, remark: string] => {
      const name = quoteKey(String(path.at(-1)));
      return value === undefined
        ? [`# ${name}`, 'not set']
        : [`${name} = ${toTomlValue(withoutSecrets(value))}`, source];
    });
    const width = Math.min(REMARK_COLUMN_MAX, Math.max(...lines.map(([text]) => text.length)));
    return [
      ...(table.length === 0 ? [] : ['', headerOf(table)]),
      ...lines.map(([text, remark]) => `${text.padEnd(width)}  # ${remark}`),
    ];
  }).flat();
}

const REMARK_COLUMN_MAX = 56;

/** A table in a list of tables has its position as the last part of its path. */
function headerOf(path: KeyPath): string {
  const names = path
    .filter((part) => typeof part === 'string')
    .map(quoteKey)
    .join('.');
  return typeof path.at(-1) === 'number' ? `[[${names}]]` : `[${names}]`;
}

function quoteKey(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : quote(name);
}

function toTomlValue(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${value.map(toTomlValue).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(([name, one]) => `${quoteKey(name)} = ${toTomlValue(one)}`);
    return `{ ${members.join(', ')} }`;
  }
  return String(value);
}

/** The escapes of JSON are valid in TOML, but TOML also needs one for DEL. */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll('\u007f', '\\u007f');
}
