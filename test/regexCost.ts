import { type AST, RegExpParser } from '@eslint-community/regexpp';

/**
 * What a regular expression costs an engine that backtracks, counted in steps: a count is the same on every machine, busy or
 * not, and shows growth that a clock would hide.
 */
export interface Growth {
  /** Steps for twice the text, divided by those for the text: 2 for linear time, 4 for quadratic, endless for more than can be counted. */
  ratio: number;
  /** The text that costs most, as prefix, what is repeated, and suffix. */
  attack: [prefix: string, pump: string, suffix: string];
}

const PUMPED = 192;
const SCREENED = 24;
const STEPS_MAX = 400_000;
/** Repetition up to more than this counts as endless: texts of thousands of characters are cheap to send. */
const ENDLESS_FROM = 32;
const LINEAR_RATIO_MAX = 2.6;

type Test = (char: string) => boolean;
/** Goes on at a position; whether the rest matches from there. */
type Next = (at: number) => boolean;

class TooMany extends Error {}

/** The worst growth that can be found; undefined where time is linear for every text that was tried. */
export function superLinear(source: string, flags: string): Growth | undefined {
  const expression = new Expression(source, flags);
  let worst: Growth | undefined;
  for (const attack of attacksOn(expression)) {
    if (growth(expression, attack, SCREENED) < LINEAR_RATIO_MAX - 0.4) continue;
    const ratio = growth(expression, attack, PUMPED);
    if (ratio > Math.max(LINEAR_RATIO_MAX, worst?.ratio ?? 0)) worst = { ratio, attack };
    if (worst !== undefined && worst.ratio > 3.5) break;
  }
  return worst;
}

function growth(expression: Expression, [prefix, pump, suffix]: Growth['attack'], length: number): number {
  const times = Math.ceil(length / pump.length);
  const once = expression.steps(prefix + pump.repeat(times) + suffix);
  const twice = expression.steps(prefix + pump.repeat(2 * times) + suffix);
  return twice > STEPS_MAX ? Number.POSITIVE_INFINITY : twice / once;
}

/** An expression that can be run step by step. */
class Expression {
  readonly flags: string;
  readonly pattern: AST.Pattern;
  readonly #tests = new Map<string, Test>();
  #text: readonly string[] = [];
  #steps = 0;

  constructor(source: string, flags: string) {
    this.flags = flags;
    const [unicode, unicodeSets] = [flags.includes('u'), flags.includes('v')];
    this.pattern = new RegExpParser().parsePattern(source, 0, source.length, { unicode, unicodeSets });
  }

  /** Steps that all searches in the text take, from every start unless it is sticky. */
  steps(text: string): number {
    this.#text = [...text];
    this.#steps = 0;
    try {
      for (let start = 0; start <= this.#text.length; start += 1) {
        let end = start;
        const found = this.#alternatives(this.pattern.alternatives, start, (at) => {
          end = at;
          return true;
        });
        if (found && !this.flags.includes('g')) break;
        // A search goes on behind what it found.
        if (found) start = Math.max(start, end - 1);
        else if (this.flags.includes('y')) break;
      }
    } catch (error) {
      if (!(error instanceof TooMany)) throw error;
    }
    return this.#steps;
  }

  /** Whether the single character is one that the leaf takes. */
  test(leaf: AST.Node): Test {
    const key = leaf.raw;
    const known = this.#tests.get(key);
    if (known) return known;
    const flags = [...this.flags].filter((flag) => 'isuv'.includes(flag)).join('');
    const pattern = new RegExp(`^(?:${key})$`, flags);
    const answers = new Map<string, boolean>();
    const test = (char: string) => {
      const answer = answers.get(char) ?? pattern.test(char);
      answers.set(char, answer);
      return answer;
    };
    this.#tests.set(key, test);
    return test;
  }

  #alternatives(alternatives: readonly AST.Alternative[], at: number, next: Next): boolean {
    return alternatives.some(({ elements }) => this.#sequence(elements, 0, at, next));
  }

  #sequence(elements: readonly AST.Element[], index: number, at: number, next: Next): boolean {
    const element = elements[index];
    if (element === undefined) return next(at);
    return this.#match(element, at, (end) => this.#sequence(elements, index + 1, end, next));
  }

  #match(node: AST.Element, at: number, next: Next): boolean {
    this.#steps += 1;
    if (this.#steps > STEPS_MAX) throw new TooMany();
    switch (node.type) {
      case 'Group':
      case 'CapturingGroup':
        return this.#alternatives(node.alternatives, at, next);
      case 'Quantifier':
        return this.#repeat(node, 0, at, next);
      case 'Assertion':
        return this.#assert(node, at) && next(at);
      case 'Backreference':
        throw new Error(`no back references: ${node.raw}`);
      default: {
        const char = this.#text[at];
        return char !== undefined && this.test(node)(char) && next(at + 1);
      }
    }
  }

  #repeat(node: AST.Quantifier, done: number, at: number, next: Next): boolean {
    const max = node.max > ENDLESS_FROM ? Number.POSITIVE_INFINITY : node.max;
    const more = () =>
      done < max &&
      this.#match(node.element, at, (end) =>
        end === at && done >= node.min ? false : this.#repeat(node, done + 1, end, next),
      );
    if (done < node.min) return more();
    return node.greedy ? more() || next(at) : next(at) || more();
  }

  #assert(node: AST.Assertion, at: number): boolean {
    const multiline = this.flags.includes('m');
    switch (node.kind) {
      case 'start':
        return at === 0 || (multiline && this.#text[at - 1] === '\n');
      case 'end':
        return at === this.#text.length || (multiline && this.#text[at] === '\n');
      case 'word':
        return (isWord(this.#text[at - 1]) !== isWord(this.#text[at])) !== node.negate;
      case 'lookahead':
        return this.#alternatives(node.alternatives, at, () => true) !== node.negate;
      case 'lookbehind':
        return this.#lookBehind(node, at) !== node.negate;
    }
  }

  /** Tries every start before; dearer than the engine, never cheaper by more than a factor. */
  #lookBehind(node: AST.LookbehindAssertion, at: number): boolean {
    for (let start = at; start >= Math.max(0, at - ENDLESS_FROM); start -= 1) {
      if (this.#alternatives(node.alternatives, start, (end) => end === at)) return true;
    }
    return false;
  }
}

function isWord(char: string | undefined): boolean {
  return char !== undefined && /^\w$/.test(char);
}

/** Characters of which each stands for all that the expression does not tell apart. */
function alphabetOf(expression: Expression, leaves: readonly AST.Node[]): string[] {
  const characters = [...Array(128).keys()].map((code) => String.fromCharCode(code));
  characters.push('é', 'ÿ', '\u2028', '—', '\ufeff', '😀', '٣', 'ſ');
  const kinds = new Map<string, string>();
  for (const char of ['a', '0', ' ', '\n', ...characters]) {
    const kind = leaves.map((leaf) => Number(expression.test(leaf)(char))).join('');
    if (!kinds.has(kind)) kinds.set(kind, char);
  }
  return [...kinds.values()];
}

/** Texts made of the expression's own parts: what leads up to a repetition, what it repeats, and what lets the rest fail. */
function* attacksOn(expression: Expression): Iterable<Growth['attack']> {
  const nodes = [...nodesOf(expression.pattern)];
  const leaves = nodes.filter(
    (node) => node.type === 'Character' || node.type.endsWith('Set') || isClass(node),
  );
  const alphabet = alphabetOf(expression, leaves);
  const repetitions = nodes.filter(
    (node): node is AST.Quantifier => node.type === 'Quantifier' && node.max > ENDLESS_FROM,
  );
  const sample = (node: AST.Node) => sampleOf(expression, node, alphabet);
  const prefixes = new Set(['', ...repetitions.map((node) => before(node, sample))]);
  const whole = sample(expression.pattern);
  const pumps = new Set([...alphabet, whole, ...prefixes]);
  for (const node of nodes) if (isGroup(node)) for (const one of node.alternatives) pumps.add(sample(one));
  for (const node of repetitions) pumps.add(sample(node.element));
  for (const one of pairs(expression, repetitions, alphabet)) pumps.add(one);
  for (const one of alphabet) for (const prefix of prefixes) pumps.add(prefix + one).add(one + prefix);
  pumps.delete('');
  const suffixes = new Set(['', '\0', '\n', alphabet.at(-1) ?? '']);
  for (const prefix of prefixes)
    for (const pump of pumps) for (const suffix of suffixes) yield [prefix, pump, suffix];
}

/** Two characters of which each is repeated somewhere. */
function* pairs(expression: Expression, repetitions: readonly AST.Quantifier[], alphabet: readonly string[]) {
  const leaves = repetitions.flatMap((node) => [...nodesOf(node.element)]).filter(isLeaf);
  const repeated = alphabet.filter((char) => leaves.some((leaf) => expression.test(leaf)(char)));
  for (const one of repeated) for (const other of repeated) if (one !== other) yield one + other;
}

function isClass(node: AST.Node): boolean {
  return node.type === 'CharacterClass' || node.type === 'ExpressionCharacterClass';
}

function isLeaf(node: AST.Node): boolean {
  return node.type === 'Character' || node.type === 'CharacterSet' || isClass(node);
}

function isGroup(node: AST.Node): node is AST.Group | AST.CapturingGroup {
  return node.type === 'Group' || node.type === 'CapturingGroup';
}

/** The nodes of an expression; what is in a character class is not looked into. */
function* nodesOf(node: AST.Node): Iterable<AST.Node> {
  yield node;
  if ('alternatives' in node && !isClass(node)) {
    for (const one of node.alternatives) yield* nodesOf(one as AST.Node);
  } else if (node.type === 'Alternative') {
    for (const one of node.elements) yield* nodesOf(one);
  } else if (node.type === 'Quantifier') yield* nodesOf(node.element);
}

/** Some text that the node takes. */
function sampleOf(expression: Expression, node: AST.Node, alphabet: readonly string[]): string {
  const sample = (inner: AST.Node) => sampleOf(expression, inner, alphabet);
  if (node.type === 'Alternative') return node.elements.map(sample).join('');
  if (node.type === 'Quantifier')
    return sample(node.element).repeat(Math.max(node.min, Math.min(1, node.max)));
  if (node.type === 'Assertion' || node.type === 'Backreference') return '';
  if (node.type === 'Pattern' || isGroup(node)) return sample(node.alternatives[0] as AST.Node);
  return alphabet.find(expression.test(node)) ?? '';
}

/** Some text that leads up to the node. */
function before(node: AST.Node, sample: (node: AST.Node) => string): string {
  const { parent } = node;
  if (parent === null || parent.type === 'Pattern') return '';
  const earlier =
    parent.type === 'Alternative'
      ? parent.elements.slice(0, parent.elements.indexOf(node as AST.Element))
      : [];
  return before(parent, sample) + earlier.map(sample).join('');
}
