import { Lexer } from './lexer.ts';
import { positionsOf } from './needles.ts';
import { NotStrippable, Undecodable } from './notStrippable.ts';
import { isObjectNumber, NumberSet } from './numberSet.ts';
import { OTHER, Reference, type Value, type Visitor, walk } from './objects.ts';
import { PARAMETER_KEYS } from './streams.ts';
import { isWord, objectNumberBefore } from './syntax.ts';
import { type ByteSource, Window } from './window.ts';

const READ_BYTES = 256 * 1024;
/** How far a word may reach into the next piece, in bytes. */
const OVERLAP_BYTES = 3;
/** More objects than any document contains. The position of each definition is held in memory. */
const DEFINITIONS_MAX = 2_000_000;
/** Maximum revisions of one object. */
const SAME_MAX = 1_000;
const WANTED: ReadonlySet<string> = new Set(PARAMETER_KEYS);

/**
 * Values that a stream's dictionary refers to in other objects. The document is searched for all definitions when the first value is
 * needed.
 */
export class Definitions {
  readonly #source: ByteSource;
  readonly #window: Window;
  readonly #spend: (bytes: number) => void;
  readonly #resolved = new NumberSet();
  #positions: Map<number, number[]> | undefined;

  /** `spend` is called with the number of bytes searched. */
  constructor(source: ByteSource, spend: (bytes: number) => void) {
    this.#source = source;
    this.#window = new Window(source);
    this.#spend = spend;
  }

  /** The numbers of the objects read so far. */
  get resolved(): NumberSet {
    return this.#resolved;
  }

  /** The object in each revision, in file order, except those in object streams. */
  valuesOf({ objectNumber }: Reference): Value[] {
    this.#positions ??= this.#search();
    const positions = this.#positions.get(objectNumber) ?? [];
    if (positions.length > SAME_MAX) throw new NotStrippable(`it defines object ${objectNumber} too often`);
    return positions.map((at) => {
      const lexer = new Lexer(this.#window, at);
      const { value, ambiguity } = walk(lexer, WANTED, IGNORING);
      this.#spend(lexer.position - at);
      return ambiguity === undefined ? value : OTHER;
    });
  }

  /** The value, or the value that it refers to. Throws Undecodable unless all revisions agree. */
  resolve(value: Value): Value {
    if (!(value instanceof Reference)) return value;
    const values = this.valuesOf(value);
    const shown = new Set(values.map(describe));
    const [only] = values;
    if (values.length === 0 || shown.size > 1 || only === OTHER || only instanceof Reference)
      throw new Undecodable(`what it says in object ${value.objectNumber} cannot be told`);
    this.#resolved.add(value.objectNumber);
    return only;
  }

  #search(): Map<number, number[]> {
    const positions = new Map<number, number[]>();
    let count = 0;
    for (let start = 0; start < this.#source.bytes; start += READ_BYTES) {
      const data = this.#source.read(start, READ_BYTES + OVERLAP_BYTES);
      for (const at of positionsOf('obj', data, 0, READ_BYTES)) {
        const number = isWord(this.#window, start + at, 'obj')
          ? objectNumberBefore(this.#window, start + at)
          : undefined;
        if (number === undefined || !isObjectNumber(number)) continue;
        const known = positions.get(number);
        if (known === undefined) positions.set(number, [start + at + 'obj'.length]);
        else known.push(start + at + 'obj'.length);
        count += 1;
        if (count > DEFINITIONS_MAX) throw new NotStrippable('it has more objects than any document needs');
      }
    }
    this.#spend(this.#source.bytes);
    return positions;
  }
}

/** Equal for equal values. */
function describe(value: Value): string {
  if (value instanceof Map)
    return `<<${[...value].map(([key, own]) => `/${key} ${describe(own)}`).join(' ')}>>`;
  if (Array.isArray(value)) return `[${value.map(describe).join(' ')}]`;
  if (value instanceof Reference) return `${value.objectNumber} R`;
  return String(value);
}

/** Reports nothing: the object itself is scanned elsewhere. */
const IGNORING: Visitor = {
  key() {},
  reference() {},
  xmpString() {},
};
