import { type Chunks, CODECS, FILTERS, type Stage } from './filters.ts';
import type { Extent } from './images.ts';
import { Undecodable } from './notStrippable.ts';
import { type Dictionary, OTHER, Reference, type Value } from './objects.ts';
import type { ByteSource } from './window.ts';

/** The entries of a stream's dictionary that tell how to read it (ISO 32000-2, table 5), with the abbreviations readers take. */
export const STREAM_KEYS: readonly string[] = ['Length', 'Filter', 'F', 'DecodeParms', 'DP'];
/** Those of a filter's parameters. */
export const PARAMETER_KEYS: readonly string[] = [
  'Predictor',
  'Colors',
  'BitsPerComponent',
  'Columns',
  'EarlyChange',
];

/** How a stream is encoded: what can be undone, and the image codec that is left after that. */
export interface Encoding {
  stages: Stage[];
  codec: string | undefined;
}

/** What stands in another object; throws Undecodable when that cannot be told. */
export type Resolve = (value: Value) => Value;

const FILTERS_MAX = 8;
const READ_BYTES = 256 * 1024;

/** Throws Undecodable for what readers may understand differently. */
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
    else throw new Undecodable(`it goes through ${shown(name)}, past which nothing can be looked at`);
  }
  return encoding;
}

/** Some readers take `F` for the abbreviation that it is in inline images; otherwise it is a file elsewhere (table 5), and no name. */
function filtersOf(dictionary: Dictionary, resolve: Resolve): Value[] {
  const names = listOf(resolve(dictionary.get('Filter'))).map(resolve);
  if (names.length > 0) return names;
  const found = dictionary.get('F') === OTHER ? undefined : resolve(dictionary.get('F'));
  return found instanceof Map ? [] : listOf(found).map(resolve);
}

/** For each filter; one dictionary is that of the only filter, and readers do not agree whose it is of several. */
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

function shown(name: Value): string {
  return typeof name === 'string' ? name : 'a filter without a name';
}

function listOf(value: Value): Value[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value];
}

/** The bytes of a stream with every filter undone that can be. `onChunk` is told of what each of them makes. */
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
 * The lengths that a stream may have, of those that its dictionary names. What its reference leads to in other revisions may be
 * anything. Throws Undecodable for what is no length.
 */
export function lengthsOf(length: Value, valuesOf: (reference: Reference) => readonly Value[]): number[] {
  const values =
    length instanceof Reference ? valuesOf(length).filter((value) => typeof value === 'number') : [length];
  return values.flatMap((value) => {
    if (value === undefined) return [];
    if (typeof value !== 'number' || value < 0) throw new Undecodable('its /Length is no length');
    // Some readers cut a fraction off; others take none, and look for the end.
    return [Math.floor(value)];
  });
}
