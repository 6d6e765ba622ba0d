/** A key's address in a TOML document: table names, positions in arrays of tables, the key. */
export type KeyPath = readonly (string | number)[];

/** The path as an administrator reads it: `kms.partitions[0].module`. */
export function formatKeyPath(path: KeyPath): string {
  return path.reduce<string>(
    (text, part) => (typeof part === 'number' ? `${text}[${part}]` : text === '' ? part : `${text}.${part}`),
    '',
  );
}

/**
 * The line (from 1) on which a key of a well-formed TOML document is set, or the line of the nearest table around it; undefined if neither
 * is in the text. The parser does not report positions, so this reads headers and keys again.
 */
function lineOfKey(toml: string, path: KeyPath): number | undefined {
  const wanted = formatKeyPath(path);
  let nearest: { line: number; length: number } | undefined;
  for (const { name, line } of namedLines(toml)) {
    const around = wanted === name || wanted.startsWith(`${name}.`) || wanted.startsWith(`${name}[`);
    if (around && name.length > (nearest?.length ?? 0)) nearest = { line, length: name.length };
  }
  return nearest?.line;
}

function* namedLines(toml: string): Generator<{ name: string; line: number }> {
  const elements = new Map<string, number>();
  let table = '';
  for (const [index, text] of toml.split('\n').entries()) {
    const [, open, header, key] = /^(?:\s*(\[\[?)([^\]]+)\]|([^#=[\]]+)=)/.exec(text) ?? [];
    if (header !== undefined) {
      table = bareName(header.trim());
      if (open === '[[') {
        const element = (elements.get(table) ?? -1) + 1;
        elements.set(table, element);
        table = `${table}[${element}]`;
      }
      yield { name: table, line: index + 1 };
    } else if (key !== undefined) {
      const name = bareName(key.trim());
      yield { name: table === '' ? name : `${table}.${name}`, line: index + 1 };
    }
  }
}

function bareName(key: string): string {
  return key.replaceAll(/["']|\s/g, '');
}

/** One line for an administrator: file, line, key, what was found and what is expected. */
export function fault(file: string, text: string, path: KeyPath, found: string, expected: string): string {
  const line = lineOfKey(text, path);
  return `${file}${line === undefined ? '' : `:${line}`}: ${formatKeyPath(path)}: ${found}; expected ${expected}`;
}

/** The keys whose values differ between two documents; tables and lists are compared down to their leaves. */
export function changedKeys(before: unknown, after: unknown, path: KeyPath = []): string[] {
  if (!isContainer(before) || !isContainer(after)) return before === after ? [] : [formatKeyPath(path)];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return Array.from(names, (name) => {
    const part = Array.isArray(after) ? Number(name) : name;
    return changedKeys(before[name], after[name], [...path, part]);
  }).flat();
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
