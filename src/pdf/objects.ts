import type { Lexer, Token } from './lexer.ts';

/** The values that matter here; strings, booleans and null are none. A name begins with a slash. */
export type Value = number | string | Reference | Value[] | Dictionary | undefined;
export type Dictionary = Map<string, Value>;

export class Reference {
  readonly objectNumber: number;

  constructor(objectNumber: number) {
    this.objectNumber = objectNumber;
  }
}

/** Told of what is met at any depth, while {@link walk} keeps only what was asked for. */
export interface Visitor {
  /** An entry of a dictionary begins. */
  key(name: string): void;
  /** A reference, and the key whose value it is; no key for one in an array. */
  reference(objectNumber: number, key: string | undefined): void;
  /** Objects lie within objects deeper than any document needs. */
  tooDeep(): never;
}

export interface Walked {
  /** The entries that were asked for of a dictionary at the top; undefined if something else was there. */
  dictionary?: Dictionary;
  /** Whether it has less than was asked for, because that was more than any document needs. */
  cut: boolean;
  /** The word that ended it: `endobj`, `stream`, … ; empty at the end of the file. */
  keyword: string;
}

/** Words that no value contains: what came before them is over, whole or not. */
const ENDS = new Set(['endobj', 'stream', 'endstream', 'obj', 'xref', 'trailer', 'startxref']);
const DEPTH_MAX = 500;
/** Of values that are kept. Filters have a handful. */
const KEPT_VALUES_MAX = 100;

interface Frame {
  isDictionary: boolean;
  key?: string;
  /** Whether the key has its value. */
  filled: boolean;
  kept?: Value[] | Dictionary;
}

/** Reads values up to the word that ends them, without recursion. Of the first dictionary it keeps the entries in `wanted`. */
export function walk(lexer: Lexer, wanted: ReadonlySet<string>, visitor: Visitor): Walked {
  return new Walk(lexer, wanted, visitor).run();
}

class Walk {
  readonly #lexer: Lexer;
  readonly #wanted: ReadonlySet<string>;
  readonly #visitor: Visitor;
  readonly #frames: Frame[] = [];
  /** Whole numbers that directly precede: of a reference these are object and generation. */
  #numbers: number[] = [];
  #top: Dictionary | undefined;
  #isFirst = true;
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
      this.#isFirst = false;
    }
  }

  #end(keyword: string): Walked {
    return { keyword, cut: this.#keptValues > KEPT_VALUES_MAX, ...(this.#top && { dictionary: this.#top }) };
  }

  #take(token: Token): void {
    const numbers = this.#numbers;
    this.#numbers = [];
    if (token.kind === '<<' || token.kind === '[') this.#open(token.kind === '<<');
    else if (token.kind === '>>' || token.kind === ']') this.#frames.pop();
    else if (token.kind === 'name') this.#name(token.value);
    else if (token.kind === 'number') {
      this.#numbers = [...numbers.slice(-1), token.value];
      this.#value(token.value);
    } else if (token.kind === 'keyword' && token.value === 'R') this.#reference(numbers);
    else this.#value(undefined);
  }

  #open(isDictionary: boolean): void {
    if (this.#frames.length === DEPTH_MAX) this.#visitor.tooDeep();
    const frame: Frame = { isDictionary, filled: false };
    if (this.#isFirst && isDictionary) {
      this.#top = new Map();
      frame.kept = this.#top;
    } else if (this.#isKept()) frame.kept = isDictionary ? new Map() : [];
    this.#value(frame.kept);
    this.#frames.push(frame);
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

  /** The two numbers before it have been taken for values of their own. */
  #reference([objectNumber, generation]: number[]): void {
    if (objectNumber === undefined || generation === undefined) return;
    const frame = this.#frames.at(-1);
    this.#visitor.reference(objectNumber, frame?.isDictionary ? frame.key : undefined);
    if (Array.isArray(frame?.kept)) frame.kept.splice(-2);
    this.#value(new Reference(objectNumber));
  }

  #value(value: Value): void {
    const frame = this.#frames.at(-1);
    if (frame === undefined) return;
    frame.filled = true;
    if (!this.#isKept()) return;
    this.#keptValues += 1;
    if (this.#keptValues > KEPT_VALUES_MAX) return;
    if (frame.kept instanceof Map) frame.kept.set(frame.key ?? '', value);
    else frame.kept?.push(value);
  }

  /** Whether the value that comes now is kept: all of what is kept, and of the first dictionary what is wanted. */
  #isKept(): boolean {
    const frame = this.#frames.at(-1);
    if (frame?.kept === undefined) return false;
    return this.#frames.length > 1 || (frame.key !== undefined && this.#wanted.has(frame.key));
  }
}
