/** Objects with the places of their parts, for a planner that copies their bytes (ISO 32000-2, 7.3). */
import { hexDigit, isWhitespace, Lexer } from '../lexer.ts';
import { type ByteSource, Window } from '../window.ts';
import { NotSealable } from './notSealable.ts';

/** A value, and where its bytes begin and end in its source. */
export type Node = { start: number; end: number } & (
  | { kind: 'number'; value: number }
  | { kind: 'name'; value: string }
  | { kind: 'reference'; number: number; generation: number }
  | { kind: 'array'; items: Node[] }
  | { kind: 'dictionary'; entries: ReadonlyMap<string, Node> }
  | { kind: 'string' | 'boolean' | 'null' }
);
type Value = Node extends infer One ? (One extends unknown ? Omit<One, 'start' | 'end'> : never) : never;
export type NodeOf<Kind extends Node['kind']> = Extract<Node, { kind: Kind }>;

/** Objects are small, and lie far apart. */
const READ_BYTES = 1024;
const OBJECT_BYTES_MAX = 4 << 20;
const DEPTH_MAX = 100;

const CONSTANTS = new Map([
  ['true', 'boolean'],
  ['false', 'boolean'],
  ['null', 'null'],
] as const);

/** Reads values one after the other, and refuses what readers might read differently. Throws NotSealable; `name` is in its message. */
export class TreeReader {
  readonly #lexer: Lexer;
  readonly #name: string;
  readonly #start: number;

  constructor(source: ByteSource, start: number, name: string) {
    this.#lexer = new Lexer(new Window(source, READ_BYTES), start);
    this.#name = name;
    this.#start = start;
  }

  /** Where the next token may begin. */
  get position(): number {
    return this.#lexer.position;
  }

  value(): Node {
    return this.#value(DEPTH_MAX);
  }

  /** Takes the next token if it is that word. */
  takes(word: string): boolean {
    const before = this.#lexer.position;
    const token = this.#lexer.next();
    if (token.kind === 'keyword' && token.value === word) return true;
    this.#lexer.position = before;
    return false;
  }

  /** A whole number that is not negative. */
  natural(): number {
    return this.#natural() ?? this.refuse('is damaged');
  }

  refuse(why: string): never {
    throw new NotSealable(`${this.#name} ${why}`);
  }

  #value(depth: number): Node {
    if (depth === 0) this.refuse('is nested deeper than any object needs');
    this.#lexer.skipWhitespace();
    const start = this.#lexer.position;
    if (start - this.#start > OBJECT_BYTES_MAX) this.refuse('is larger than any object needs');
    const value = this.#read(depth);
    return { ...value, start, end: this.#lexer.position };
  }

  #read(depth: number): Value {
    const token = this.#lexer.next();
    switch (token.kind) {
      case 'number':
        return this.#reference(token.value) ?? { kind: 'number', value: token.value };
      case 'name':
        return { kind: 'name', value: token.value };
      case 'string':
        return { kind: 'string' };
      case '[':
        return { kind: 'array', items: this.#items(depth) };
      case '<<':
        return { kind: 'dictionary', entries: this.#entries(depth) };
      case 'keyword': {
        const kind = CONSTANTS.get(token.value as 'null');
        if (kind !== undefined) return { kind };
      }
    }
    return this.refuse('is damaged');
  }

  /** The rest of `12 0 R`, if that is what follows. */
  #reference(number: number): Value | undefined {
    const before = this.#lexer.position;
    const generation = Number.isInteger(number) && number > 0 ? this.#natural() : undefined;
    if (generation !== undefined && this.takes('R')) return { kind: 'reference', number, generation };
    this.#lexer.position = before;
    return undefined;
  }

  #natural(): number | undefined {
    const token = this.#lexer.next();
    return token.kind === 'number' && Number.isSafeInteger(token.value) && token.value >= 0
      ? token.value
      : undefined;
  }

  #items(depth: number): Node[] {
    const items: Node[] = [];
    while (!this.#closes(']')) items.push(this.#value(depth - 1));
    return items;
  }

  #entries(depth: number): Map<string, Node> {
    const entries = new Map<string, Node>();
    while (!this.#closes('>>')) {
      const key = this.#lexer.next();
      if (key.kind !== 'name') return this.refuse('is damaged');
      if (entries.has(key.value)) return this.refuse(`has /${key.value} twice`);
      entries.set(key.value, this.#value(depth - 1));
    }
    return entries;
  }

  #closes(bracket: ']' | '>>'): boolean {
    const before = this.#lexer.position;
    if (this.#lexer.next().kind === bracket) return true;
    this.#lexer.position = before;
    return false;
  }
}

const ESCAPED: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' };

/** The bytes that the text of a string stands for, one character each (7.3.4). */
export function stringOf(text: string): string {
  if (text.startsWith('<')) {
    const digits = [...text.slice(1, -1)].filter((char) => !isWhitespace(char.charCodeAt(0)));
    const values = digits.map((char) => hexDigit(char.charCodeAt(0)) ?? 0);
    return Array.from({ length: Math.ceil(values.length / 2) }, (_, n) =>
      String.fromCharCode((values[2 * n] ?? 0) * 16 + (values[2 * n + 1] ?? 0)),
    ).join('');
  }
  return text
    .slice(1, -1)
    .replaceAll(/\\(?:([0-7]{1,3})|\r\n|([\s\S]))|\r\n?/g, (whole, octal?: string, char?: string) => {
      if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8) & 255);
      if (char === undefined) return whole.startsWith('\\') ? '' : '\n';
      return char === '\n' || char === '\r' ? '' : (ESCAPED[char] ?? char);
    });
}
