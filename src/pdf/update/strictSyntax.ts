/**
 * Reads PDF syntax strictly (ISO 32000-2, 7.3): what two readers might read differently is refused. Text has one character for each byte,
 * and values have the places of their parts, so that their bytes can be copied.
 */
import { NotSealable } from './notSealable.ts';

/** A value, and where it begins and ends in its text. */
export type Node = { start: number; end: number } & (
  | { kind: 'number'; text: string }
  | { kind: 'name'; value: string }
  | { kind: 'reference'; number: number; generation: number }
  | { kind: 'array'; items: Node[] }
  | { kind: 'dictionary'; entries: ReadonlyMap<string, Node> }
  | { kind: 'string' | 'boolean' | 'null' }
);
export type NodeOf<Kind extends Node['kind']> = Extract<Node, { kind: Kind }>;

/** Thrown if a value may go on beyond the text that was read: it has to be read again, with more. */
export const SHORT = Symbol('short');

/** The highest that all readers accept, those of some years ago too. */
export const OBJECT_NUMBER_MAX = 4_194_303;
export const GENERATION_MAX = 65_535;
const DEPTH_MAX = 100;
/** The parts of one object are held in memory. */
const NODES_MAX = 250_000;
/** Longer than what any expression below looks at, except names, strings and white space. */
const AHEAD = 100;

const COMMENT = /%[^\r\n]*/y;
const PERCENT = 0x25;
const NAME = /\/([^\0\t\n\f\r ()<>[\]{}/%]*)/y;
const NO_HEX = /[^0-9A-Fa-f\0\t\n\f\r ]/;
const NUMBER = /[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?![^\0\t\n\f\r ()<>[\]{}/%])/y;
const REFERENCE = /(\d{1,10})[\0\t\n\f\r ]{1,20}(\d{1,10})[\0\t\n\f\r ]{1,20}R(?![^\0\t\n\f\r ()<>[\]{}/%])/y;
const CONSTANT = /(?:true|false|(null))(?![^\0\t\n\f\r ()<>[\]{}/%])/y;
const ESCAPED_NAME = /#([0-9A-Fa-f]{2})/g;

export class Parser {
  readonly text: string;
  /** Where the next token may begin. */
  position: number;
  /** Whether a comment was skipped. */
  hasComments = false;
  /** How many values were begun. */
  nodes = 0;
  readonly #isWhole: boolean;
  readonly #name: string;
  readonly #number: number | undefined;

  /** `isWhole`: nothing follows the text. Messages begin with the name; the object's number is reported with them. */
  constructor(text: string, position: number, isWhole: boolean, name: string, number?: number) {
    this.text = text;
    this.position = position;
    this.#isWhole = isWhole;
    this.#name = name;
    this.#number = number;
  }

  refuse(why: string): never {
    throw new NotSealable(`${this.#name} ${why}`, this.#number);
  }

  /** Takes what the sticky expression matches. */
  take(expression: RegExp): RegExpExecArray | undefined {
    expression.lastIndex = this.position;
    const found = expression.exec(this.text) ?? undefined;
    this.#moveTo(found === undefined ? this.position : expression.lastIndex);
    return found;
  }

  #moveTo(end: number): void {
    if (!this.#isWhole && (this.position > this.text.length - AHEAD || end === this.text.length)) throw SHORT;
    this.position = end;
  }

  /** Takes these characters, if they are next. */
  #takeText(characters: string): boolean {
    const isNext = this.text.startsWith(characters, this.position);
    this.#moveTo(this.position + (isNext ? characters.length : 0));
    return isNext;
  }

  /** Takes what the sticky expression matches, which must be there. */
  expect(expression: RegExp): RegExpExecArray {
    return this.take(expression) ?? this.refuse('is damaged');
  }

  skipSpace(): void {
    for (this.skipBlank(); this.text.charCodeAt(this.position) === PERCENT; this.skipBlank()) {
      this.take(COMMENT);
      this.hasComments = true;
    }
  }

  /** White space without comments, which some readers do not expect between cross-references. */
  skipBlank(): void {
    const { text } = this;
    let at = this.position;
    while (at < text.length && isBlank(text.charCodeAt(at))) at += 1;
    this.#moveTo(at);
  }

  /** Takes so many characters. */
  characters(count: number): string {
    const end = this.position + count;
    if (end > this.text.length) {
      if (!this.#isWhole) throw SHORT;
      this.refuse('goes on beyond the end of the file');
    }
    const characters = this.text.slice(this.position, end);
    this.position = end;
    return characters;
  }

  value(depth = DEPTH_MAX): Node {
    this.nodes += 1;
    if (depth === 0 || this.nodes > NODES_MAX) this.refuse('has more parts than any object needs');
    this.skipSpace();
    return this.#read(this.position, depth);
  }

  #read(start: number, depth: number): Node {
    const char = this.text[start];
    if (char === '/') {
      const value = this.#nameValue();
      return { kind: 'name', value, start, end: this.position };
    }
    if (char === '(') {
      this.#skipLiteralString();
      return { kind: 'string', start, end: this.position };
    }
    if (char === '[') {
      const items = this.#items(depth);
      return { kind: 'array', items, start, end: this.position };
    }
    if (char === '<') {
      if (this.#takeText('<<')) {
        const entries = this.#entries(depth);
        return { kind: 'dictionary', entries, start, end: this.position };
      }
      const end = this.#end('>');
      if (NO_HEX.test(this.text.slice(start + 1, end))) this.refuse('is damaged');
      this.position = end + 1;
      return { kind: 'string', start, end: this.position };
    }
    if (char === 't' || char === 'f' || char === 'n') {
      const [, isNull] = this.expect(CONSTANT);
      return { kind: isNull === undefined ? 'boolean' : 'null', start, end: this.position };
    }
    const reference = char !== undefined && char >= '0' && char <= '9' ? this.take(REFERENCE) : undefined;
    if (reference === undefined) {
      const [text] = this.expect(NUMBER);
      return { kind: 'number', text, start, end: this.position };
    }
    const [number, generation] = [Number(reference[1]), Number(reference[2])];
    if (number > OBJECT_NUMBER_MAX || generation > GENERATION_MAX)
      this.refuse('refers to a number that not all readers accept');
    return { kind: 'reference', number, generation, start, end: this.position };
  }

  /** Where the next such character is. */
  #end(char: string): number {
    const end = this.text.indexOf(char, this.position);
    if (end >= 0) return end;
    if (!this.#isWhole) throw SHORT;
    return this.refuse('is damaged');
  }

  #nameValue(): string {
    const [, name = ''] = this.expect(NAME);
    if (!name.includes('#')) return name;
    // For some readers a name ends there.
    if (name.includes('#00')) this.refuse('has a name that not all readers read alike');
    return name.replaceAll(ESCAPED_NAME, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  }

  #skipLiteralString(): void {
    let depth = 0;
    for (let at = this.position; at < this.text.length; at += 1) {
      const char = this.text[at];
      if (char === '\\') at += 1;
      else if (char === '(') depth += 1;
      else if (char === ')') {
        depth -= 1;
        if (depth > 0) continue;
        this.position = at + 1;
        return;
      }
    }
    if (!this.#isWhole) throw SHORT;
    this.refuse('is damaged');
  }

  #items(depth: number): Node[] {
    this.position += 1;
    const items: Node[] = [];
    for (this.skipSpace(); !this.#takeText(']'); this.skipSpace()) items.push(this.value(depth - 1));
    return items;
  }

  #entries(depth: number): Map<string, Node> {
    const entries = new Map<string, Node>();
    for (this.skipSpace(); !this.#takeText('>>'); this.skipSpace()) {
      const key = this.#nameValue();
      if (entries.has(key)) this.refuse(`has /${printableName(key)} twice`);
      entries.set(key, this.value(depth - 1));
    }
    return entries;
  }
}

/** White space of PDF. */
function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09 || code === 0 || code === 0x0c;
}

/** A name of a stranger's, for a message. */
export function printableName(name: string): string {
  return name.slice(0, 40).replaceAll(/[^!-~]/g, '?');
}

const ESCAPED: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' };

/** The bytes that the text of a string stands for, one character each (7.3.4). */
export function stringOf(text: string): string {
  if (text.startsWith('<')) {
    const digits = text.slice(1, -1).replaceAll(/[^0-9A-Fa-f]/g, '');
    return `${digits}0`.replaceAll(/(..)|.$/g, (_, pair?: string) =>
      pair === undefined ? '' : String.fromCharCode(Number.parseInt(pair, 16)),
    );
  }
  return text
    .slice(1, -1)
    .replaceAll(/\\(?:([0-7]{1,3})|\r\n|([\s\S]))|\r\n?/g, (whole, octal?: string, char?: string) => {
      if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8) & 255);
      if (char === undefined) return whole.startsWith('\\') ? '' : '\n';
      return char === '\n' || char === '\r' ? '' : (ESCAPED[char] ?? char);
    });
}

/** A whole number that is not negative, and written without a sign or a point; undefined for anything else. */
export function naturalOf(node: Node | undefined): number | undefined {
  const number = node?.kind === 'number' && /^\d+$/.test(node.text) ? Number(node.text) : undefined;
  return Number.isSafeInteger(number) ? number : undefined;
}

export function isNamed(node: Node | undefined, ...names: readonly string[]): boolean {
  return node?.kind === 'name' && names.includes(node.value);
}
