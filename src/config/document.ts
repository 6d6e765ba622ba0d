/** The config file next to its schema: which keys there are, and the values of a document. */
import * as z from 'zod';
import { noteOf } from './keys.ts';
import { configSchema } from './schema.ts';
import type { KeyPath } from './toml.ts';

type Schema = z.core.$ZodType;

/** The kind of a schema, without the wrappers of zod. */
type Shape =
  | { kind: 'table'; members: [key: string, schema: Schema][]; isOptional: boolean }
  /** Tables under names of the administrator's choice, or a list of tables. */
  | { kind: 'named' | 'list'; of: Schema }
  | { kind: 'value'; schema: Schema; fallback?: unknown; unset?: string | undefined };

function shapeOf(schema: unknown): Shape {
  if (schema instanceof z.ZodPrefault) {
    const shape = shapeOf(schema.def.innerType);
    const { unset } = noteOf(schema);
    return shape.kind === 'value' ? { ...shape, fallback: schema.def.defaultValue, unset } : shape;
  }
  if (schema instanceof z.ZodOptional) {
    const shape = shapeOf(schema.def.innerType);
    if (shape.kind === 'table') return { ...shape, isOptional: true };
    return shape.kind === 'value' ? { ...shape, unset: noteOf(schema).unset } : shape;
  }
  if (schema instanceof z.ZodPipe && !(schema.def.in instanceof z.ZodUnknown)) return shapeOf(schema.def.in);
  if (schema instanceof z.ZodObject)
    return { kind: 'table', members: Object.entries(schema.def.shape), isOptional: false };
  if (schema instanceof z.ZodRecord && shapeOf(schema.def.valueType).kind === 'table')
    return { kind: 'named', of: schema.def.valueType };
  if (schema instanceof z.ZodArray && shapeOf(schema.def.element).kind === 'table')
    return { kind: 'list', of: schema.def.element };
  return { kind: 'value', schema: schema as Schema };
}

/** A key that is set in a document, or could be: every key of each table that is present. */
interface Leaf {
  path: KeyPath;
  schema: Schema;
  found: unknown;
  /** The default, spelled as in the file. */
  fallback: unknown;
  /** Whether the key is in a table that exists only because the file has it. */
  isNamed: boolean;
}

/** All keys, in the order of the schema. `document` is the output of the TOML parser, and fits the schema. */
export function leavesOf(document: unknown): Leaf[] {
  return Array.from(walk(configSchema, document, [], false));
}

function* walk(schema: Schema, found: unknown, path: KeyPath, isNamed: boolean): Generator<Leaf> {
  const shape = shapeOf(schema);
  if (shape.kind === 'table' && !(shape.isOptional && found === undefined)) {
    for (const [name, member] of shape.members)
      yield* walk(member, memberOf(found, name), [...path, name], isNamed);
  } else if (shape.kind === 'named' || shape.kind === 'list') {
    for (const [name, one] of Object.entries(found ?? {}))
      yield* walk(shape.of, one, [...path, shape.kind === 'list' ? Number(name) : name], true);
  } else {
    const { schema: inner = schema, fallback = undefined } = shape.kind === 'value' ? shape : {};
    yield { path, schema: inner, found, fallback, isNamed };
  }
}

function memberOf(table: unknown, name: string): unknown {
  return typeof table === 'object' && table !== null && Object.hasOwn(table, name)
    ? table[name as keyof object]
    : undefined;
}

/** Keys that earlier versions named differently: the table, the former name, the current one. */
const FORMER_KEYS = [
  ['log', 'witness_file', 'last_checkpoint_file'],
  ['log', 'witness_interval', 'last_checkpoint_interval'],
] as const;

/** Renames former keys of a document and returns a sentence for each. A key that is set under both names keeps both. */
export function renameFormerKeys(document: object): string[] {
  return FORMER_KEYS.flatMap(([table, former, present]) => {
    const inside = memberOf(document, table);
    const found = memberOf(inside, former);
    if (found === undefined || memberOf(inside, present) !== undefined) return [];
    Object.assign(inside as object, { [present]: found });
    delete (inside as Record<string, unknown>)[former];
    return [`${table}.${former} is now called ${table}.${present}: rename it in the configuration`];
  });
}

/** Makes every path absolute in a document that fits the schema: relative paths start at `folder`. */
export function makePathsAbsolute(document: object, folder: string): void {
  for (const { path, schema, found } of leavesOf(document)) {
    const { absolute } = noteOf(schema);
    if (absolute === undefined || typeof found !== 'string') continue;
    const table = path
      .slice(0, -1)
      .reduce<unknown>((around, name) => memberOf(around, String(name)), document);
    Object.assign(table as object, { [String(path.at(-1))]: absolute(found, folder) });
  }
}

/** The meaning of a document that fits the schema, for comparison: durations in milliseconds, defaults filled in. */
export function meaningOf(document: unknown): unknown {
  return meaning(configSchema, document);
}

function meaning(schema: Schema, found: unknown): unknown {
  const shape = shapeOf(schema);
  if (shape.kind === 'value') {
    const effective = found ?? shape.fallback;
    return effective === undefined ? undefined : z.parse(shape.schema, effective);
  }
  if (shape.kind === 'table' && shape.isOptional && found === undefined) return undefined;
  const members =
    shape.kind === 'table'
      ? shape.members
      : Object.keys(found ?? {}).map((name): [string, Schema] => [name, shape.of]);
  const entries = members.map(([name, member]) => [name, meaning(member, memberOf(found, name))]);
  const set = entries.filter(([, value]) => value !== undefined);
  return shape.kind === 'list' ? set.map(([, value]) => value) : Object.fromEntries(set);
}

/** A key as the manual describes it. */
export interface ConfigKey {
  /** Header of its table: `[http.tls]`, `[[kms.partitions]]`, `[quotas.<name>]`; empty for the top of the file. */
  table: string;
  name: string;
  /** Completes the sentence "expected …". */
  expected: string;
  /** The form of the value: the part of `expected` that the name of the key does not state. */
  form: string;
  /** Spelled as in the file. Undefined for a key without a default, and if `unset` describes it. */
  fallback: unknown;
  /** The effect of leaving it out, in words. Undefined for a key that is required, or has a default. */
  unset: string | undefined;
}

/** Every key that exists, in the order of the schema. */
export function everyKey(schema: Schema = configSchema, path = '', isList = false): ConfigKey[] {
  const shape = shapeOf(schema);
  if (shape.kind !== 'table') return [];
  const keys = shape.members.flatMap(([name, member]): ConfigKey[] => {
    const inner = shapeOf(member);
    if (inner.kind !== 'value') return [];
    const { expected = '', form = expected } = noteOf(inner.schema);
    const table = path === '' ? '' : isList ? `[[${path}]]` : `[${path}]`;
    const fallback = inner.unset === undefined ? inner.fallback : undefined;
    return [{ table, name, expected, form, fallback, unset: inner.unset }];
  });
  const below = shape.members.flatMap(([name, member]): ConfigKey[] => {
    const inner = shapeOf(member);
    const at = path === '' ? name : `${path}.${name}`;
    if (inner.kind === 'table') return everyKey(member, at);
    if (inner.kind === 'value') return [];
    return everyKey(inner.of, inner.kind === 'list' ? at : `${at}.<name>`, inner.kind === 'list');
  });
  return [...keys, ...below];
}
