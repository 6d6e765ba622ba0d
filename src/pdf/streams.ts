import { type Chunks, CODECS, FILTERS, type Stage } from './filters.ts';
import type { Extent } from './images.ts';
import { Undecodable } from './notStrippable.ts';
import { type Dictionary, OTHER, Reference, type Value } from './objects.ts';
import type { ByteSource } from './window.ts';

/**
 * The entries of a stream's dictionary that determine how to read it (ISO 32000-2, table 5), with the abbreviations that readers accept.
 */
export const STREAM_KEYS: readonly string[] = ['Length', 'Filter', 'F', 'DecodeParms', 'DP'];
/** The entries of a filter's parameters. */
export const PARAMETER_KEYS: readonly string[] = [
  'Predictor',
  'Colors',
  'BitsPerComponent',
  'Columns',
  'EarlyChange',
];

/** The encoding of a stream: the filters that can be reversed, and the remaining image codec. */
export interface Encoding {
  stages: Stage[];
  codec: string | undefined;
}

/** Resolves a reference to another object; throws Undecodable if its value is uncertain. */
export type Resolve = (value: Value) => Value;

const FILTERS_MAX = 8;
const READ_BYTES = 256 * 1024;

/** Throws Undecodable for entries that readers may understand differently. */
export function encodingOf(dictionary: Dictionary, resolve: Resolve): Encoding {
  const names = filtersOf(dictionary, resolve);
  if (names.length > FILTERS_MAX) throw new Undecodable('it goes through more filters than any needs');
  const parameters = names.length > 0 ? parametersOf(dictionary, names.length, resolve) : [];
  const encoding: Encoding = { stages: [], codec: undefined };
  for (const [i, name] of names.entries()) {
    const filter = FILTERS.get(name);
    if (encoding.codec !== undefined)
      throw new Undecodable(`it goes through ${encoding.codec}, but not last`);
    if (filter !== undefined) encoding.stages.push(...filter(dictionaryOf(parameters[i], resolve)));
    else if (CODECS.has(name)) encoding.codec = String(name);
    else {
      const shown = typeof name === 'string' ? name : 'a filter without a name';
      throw new Undecodable(`it goes through ${shown}, past which nothing can be looked at`);
    }
  }
  return encoding;
}

/**
 * Some readers treat `F` as the abbreviation that it is in inline images; otherwise it denotes an external file (table 5), and is not a
 * name.
 */
function filtersOf(dictionary: Dictionary, resolve: Resolve): Value[] {
  const names = listOf(resolve(dictionary.get('Filter'))).map(resolve);
  if (names.length > 0) return names;
  const found = dictionary.get('F') === OTHER ? undefined : resolve(dictionary.get('F'));
  return found instanceof Map ? [] : listOf(found).map(resolve);
}

/**
 * One set of parameters per filter. A single dictionary belongs to the only filter; with several filters, readers do not agree on which it
 * belongs to.
 */
function parametersOf(dictionary: Dictionary, count: number, resolve: Resolve): Value[] {
  if (dictionary.get('DP') !== undefined) throw new Undecodable('its filters have abbreviated parameters');
  const found = resolve(dictionary.get('DecodeParms'));
  if (found instanceof Map && count > 1 && found.size > 0)
    throw new Undecodable('it has several filters, and parameters of one');
  return listOf(found);
}

function dictionaryOf(parameters: Value, resolve: Resolve): Dictionary {
  const found = resolve(parameters) ?? new Map();
  if (!(found instanceof Map)) throw new Undecodable('its filters have parameters that are none');
  return new Map(PARAMETER_KEYS.map((key) => [key, resolve(found.get(key))]));
}

function listOf(value: Value): Value[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

/** The bytes of a stream after reversing every filter that can be reversed. `onChunk` receives the output of each filter. */
export function decoded(
  source: ByteSource,
  extent: Extent,
  { stages }: Encoding,
  onChunk: (chunk: Buffer, stage: number) => void,
): Chunks {
  return stages.reduce<Chunks>(
    (input, stage, i) => watched(stage(input), (chunk) => onChunk(chunk, i)),
    raw(source, extent),
  );
}

async function* watched(chunks: Chunks, onChunk: (chunk: Buffer) => void): Chunks {
  for await (const chunk of chunks) {
    onChunk(chunk);
    yield chunk;
  }
}

async function* raw(source: ByteSource, { start, end }: Extent): Chunks {
  for (let position = start; position < end; position += READ_BYTES) {
    yield source.read(position, Math.min(READ_BYTES, end - position));
  }
}

/**
 * The possible lengths of a stream, according to its dictionary. If the length is a reference, its target in other revisions may be
 * anything. Throws Undecodable if it is not a length.
 */
export function lengthsOf(length: Value, valuesOf: (reference: Reference) => readonly Value[]): number[] {
  const values =
    length instanceof Reference ? valuesOf(length).filter((value) => typeof value === 'number') : [length];
  return values.flatMap((value) => {
    if (value === undefined) return [];
    if (typeof value !== 'number' || value < 0) throw new Undecodable('its /Length is not a length');
    // Some readers truncate a fraction; others reject it, and search for the end.
    return [Math.floor(value)];
  });
}
