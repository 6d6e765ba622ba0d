import type { Lexer, Token } from './lexer.ts';
import { NotStrippable } from './notStrippable.ts';

/** A value that is not of interest: a string, a boolean, an unexpected word. */
export const OTHER = Symbol('other');
/** A name begins with a slash; null is undefined. */
export type Value = number | string | Reference | Value[] | Dictionary | typeof OTHER | undefined;
export type Dictionary = Map<string, Value>;

export class Reference {
  readonly objectNumber: number;

  constructor(objectNumber: number) {
    this.objectNumber = objectNumber;
  }
}

/** Receives what is found at any depth, while {@link walk} keeps only the requested entries. */
export interface Visitor {
  /** An entry of a dictionary begins. */
  key(name: string): void;
  /** A reference, and the key whose value it is; `key` is undefined for a reference in an array. */
  reference(objectNumber: number, key: string | undefined): void;
  /** A string that contains XMP. */
  xmpString(): void;
}

export interface Walked {
  /** The first value; if it is a dictionary, only the requested entries. */
  value: Value;
  /** Why readers may interpret the first value differently. */
  ambiguity: string | undefined;
  /** The word that ended the value: `endobj`, `stream`, …; empty at the end of the file. */
  keyword: string;
}

/** Words that no value contains: they end the current value, complete or not. */
const ENDS = new Set(['endobj', 'stream', 'endstream', 'obj', 'xref', 'trailer', 'startxref']);
const DEPTH_MAX = 500;
/** Limit on kept values. Filters have a handful. */
const KEPT_VALUES_MAX = 100;

interface Frame {
  isDictionary: boolean;
  key?: string;
  /** Whether the key already has its value. */
  filled: boolean;
  kept?: Value[] | Dictionary;
}

/** Reads values up to the word that ends them, without recursion. If the first is a dictionary, it keeps the entries in `wanted`. */
export function walk(lexer: Lexer, wanted: ReadonlySet<string>, visitor: Visitor): Walked {
  return new Walk(lexer, wanted, visitor).run();
}

class Walk {
  readonly #lexer: Lexer;
  readonly #wanted: ReadonlySet<string>;
  readonly #visitor: Visitor;
  readonly #frames: Frame[] = [];
  /** Numbers that may turn out to be the object and generation of a reference. */
  #numbers: number[] = [];
  /** The first value; empty until it is read. */
  #first: [] | [Value] = [];
  #ambiguity: string | undefined;
  #keptValues = 0;

  constructor(lexer: Lexer, wanted: ReadonlySet<string>, visitor: Visitor) {
    this.#lexer = lexer;
    this.#wanted = wanted;
    this.#visitor = visitor;
  }

  run(): Walked {
    for (;;) {
      const token = this.#lexer.next();
      if (token.kind === 'end') return this.#end('');
      if (token.kind === 'keyword' && ENDS.has(token.value)) return this.#end(token.value);
      this.#take(token);
    }
  }

  #end(keyword: string): Walked {
    this.#flush();
    if (this.#frames.length > 0) this.#doubt('it is not closed');
    if (this.#keptValues > KEPT_VALUES_MAX) this.#doubt('it is longer than any needs to be');
    return { keyword, value: this.#first[0], ambiguity: this.#ambiguity };
  }

  #take(token: Token): void {
    if (token.kind === 'number') {
      if (this.#numbers.length === 2) this.#value(this.#numbers.shift());
      this.#numbers.push(token.value);
      return;
    }
    const [objectNumber, generation] = this.#numbers;
    if (token.kind === 'keyword' && token.value === 'R' && generation !== undefined) {
      this.#numbers = [];
      this.#reference(objectNumber ?? 0);
      return;
    }
    this.#flush();
    if (token.kind === '<<' || token.kind === '[') this.#open(token.kind === '<<');
    else if (token.kind === '>>' || token.kind === ']') this.#close(token.kind === '>>');
    else if (token.kind === 'name') this.#name(token.value);
    else if (token.kind === 'string') this.#string(token.isXmp);
    else this.#value(token.kind === 'keyword' && token.value === 'null' ? undefined : OTHER);
  }

  #flush(): void {
    for (const number of this.#numbers.splice(0)) this.#value(number);
  }

  #open(isDictionary: boolean): void {
    if (this.#frames.length === DEPTH_MAX)
      throw new NotStrippable('its objects are nested deeper than any document needs');
    const frame: Frame = { isDictionary, filled: false };
    if (this.#isKept()) frame.kept = isDictionary ? new Map() : [];
    this.#value(frame.kept ?? OTHER);
    this.#frames.push(frame);
  }

  #close(isDictionary: boolean): void {
    if (this.#frames.pop()?.isDictionary !== isDictionary) this.#doubt('its brackets do not match');
  }

  #name(name: string): void {
    const frame = this.#frames.at(-1);
    const isKey = frame?.isDictionary && (frame.key === undefined || frame.filled);
    if (!isKey) this.#value(`/${name}`);
    else {
      frame.key = name;
      frame.filled = false;
      this.#visitor.key(name);
    }
  }

  #string(isXmp: boolean): void {
    if (isXmp) this.#visitor.xmpString();
    this.#value(OTHER);
  }

  #reference(objectNumber: number): void {
    const frame = this.#frames.at(-1);
    this.#visitor.reference(objectNumber, frame?.isDictionary ? frame.key : undefined);
    this.#value(new Reference(objectNumber));
  }

  #value(value: Value): void {
    const frame = this.#frames.at(-1);
    if (frame === undefined) {
      if (this.#first.length === 0) this.#first = [value];
      return;
    }
    const isKept = this.#isKept();
    const isExtra = frame.isDictionary && (frame.key === undefined || frame.filled);
    if (isExtra && frame.kept !== undefined) this.#doubt('it has values without a key');
    frame.filled = true;
    if (isKept && !isExtra) this.#keep(frame, value);
  }

  #keep({ kept, key = '' }: Frame, value: Value): void {
    this.#keptValues += 1;
    if (this.#keptValues > KEPT_VALUES_MAX) return;
    if (Array.isArray(kept)) kept.push(value);
    else if (kept?.has(key) && !areSame(kept.get(key), value)) this.#doubt(`it has /${key} twice`);
    else kept?.set(key, value);
  }

  /** Whether the next value is kept: the first value, everything within a kept one, and the wanted entries of a first dictionary. */
  #isKept(): boolean {
    const frame = this.#frames.at(-1);
    if (frame === undefined) return this.#first.length === 0;
    if (frame.kept === undefined) return false;
    const isOfFirst = this.#frames.length === 1 && frame.isDictionary;
    return !isOfFirst || (frame.key !== undefined && this.#wanted.has(frame.key));
  }

  #doubt(why: string): void {
    this.#ambiguity ??= why;
  }
}

/** Arrays and dictionaries are never compared, and count as different. */
function areSame(a: Value, b: Value): boolean {
  if (a instanceof Reference && b instanceof Reference) return a.objectNumber === b.objectNumber;
  return a === b && typeof a !== 'symbol';
}
