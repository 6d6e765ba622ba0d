/** The reference of the configuration file for pdfseald.toml(5): each key of the schema, with the comment of the example. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ConfigKey, everyKey } from '../../src/config/document.ts';
import { isLive } from '../../src/config/reload.ts';
import { bold, literal, prose } from './troff.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Explanations {
  /** What stands above all keys. */
  heading: string;
  /** By the path of a key or of a table, in which names of an administrator's choice are `<name>`. */
  byPath: Map<string, string>;
}

/**
 * Takes the commented example apart: a comment explains the key or the table header right below it, also where that is commented out.
 * Throws for a key or a table that the schema does not have, and for a comment that belongs to nothing.
 */
export function explanationsOf(example: string): Explanations {
  const paths = new Set(everyKey().flatMap((key) => [pathOf(key), tableOf(key)]));
  const byPath = new Map<string, string>();
  const [first = '', ...blocks] = example.split(/\n\n+/);
  let table: string[] = [];
  for (const block of blocks) {
    let comments: string[] = [];
    for (const line of block.trimEnd().split('\n')) {
      const [, header, key] = /^(?:# )?(?:\[\[?([\w."<>-]+)\]\]?|([a-z_0-9]+) = .*)$/.exec(line) ?? [];
      if (header !== undefined) table = header.split('.');
      if (header === undefined && key === undefined) {
        if (!line.startsWith('#')) throw new Error(`neither a comment nor a key: ${line}`);
        comments.push(line.replace(/^# ?/, ''));
        continue;
      }
      const path = knownPath([...table, ...(key === undefined ? [] : [key])], paths);
      if (comments.length > 0) byPath.set(path, comments.join(' '));
      comments = [];
    }
    if (comments.length > 0) throw new Error(`a comment that explains nothing: ${comments.join(' ')}`);
  }
  return { heading: first.replaceAll(/^# /gm, ''), byPath };
}

function knownPath(parts: readonly string[], paths: ReadonlySet<string>): string {
  const found = [...paths].find((path) => {
    const known = path.split('.');
    return known.length === parts.length && known.every((one, n) => one === '<name>' || one === parts[n]);
  });
  if (found === undefined) throw new Error(`no key of the schema: ${parts.join('.')}`);
  return found;
}

function tableOf({ table }: ConfigKey): string {
  return table.replaceAll(/[[\]]/g, '');
}

function pathOf(key: ConfigKey): string {
  return [...tableOf(key).split('.'), key.name].filter((part) => part !== '').join('.');
}

/** The keys of each table, in the order of the schema; a table whose keys are those of an earlier one names that instead. */
function tables(): { header: string; path: string; keys: ConfigKey[]; same?: string }[] {
  const seen = new Map<string, string>();
  return [...Map.groupBy(everyKey(), ({ table }) => table)].map(([header, keys]) => {
    const like = JSON.stringify(keys.map(({ table: _, ...key }) => key));
    const same = seen.get(like);
    seen.set(like, same ?? header);
    const [first] = keys;
    return { header, path: first ? tableOf(first) : '', keys, ...(same !== undefined && { same }) };
  });
}

function example(): Explanations {
  return explanationsOf(readFileSync(join(ROOT, 'config/production.toml'), 'utf8'));
}

/** What holds for the file as a whole: the words above the keys of the example, but for its first sentence, which is of the example. */
export function configHeading(): string {
  return example().heading.replace(/^.*?\. /s, '');
}

/** Lines of troff: each table as a subsection, each key as a definition. */
export function keysAsTroff(): string {
  const { byPath } = example();
  const definition = (key: ConfigKey) => [
    '.TP',
    bold(nameWithDefault(key)),
    ...(byPath.has(pathOf(key)) ? [prose(byPath.get(pathOf(key)) ?? ''), '.br'] : []),
    prose(describeValue(key)),
  ];
  return tables()
    .flatMap(({ header, path, keys, same }) => {
      const introduction = [byPath.get(path) ?? '', same ? `The keys are those of ${same}.` : ''];
      return [
        `.SS ${literal(header === '' ? 'At the top of the file' : header)}`,
        ...(introduction.join('') === '' ? [] : [prose(introduction.join('\n\n').trim())]),
        ...(same === undefined ? keys.flatMap(definition) : []),
      ];
    })
    .join('\n');
}

function nameWithDefault({ name, fallback }: ConfigKey): string {
  return fallback === undefined ? name : `${name} = ${inToml(fallback)}`;
}

function inToml(fallback: unknown): string {
  return JSON.stringify(fallback).replaceAll('","', '", "');
}

function describeValue(key: ConfigKey): string {
  const isRequired = key.fallback === undefined && key.unset === undefined;
  return [
    `Expected: ${key.form}.`,
    ...(isRequired ? ['Required.'] : []),
    ...(key.unset === undefined ? [] : [`Default: ${key.unset}.`]),
    ...(isLive(pathOf(key)) ? ['A change takes effect on a reload.'] : []),
  ].join(' ');
}
