/** Every regular expression of the program runs in linear time, whatever text a stranger chooses for it. */
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Node, parse } from 'acorn';
import t from 'tap';
import { superLinear } from './regexCost.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

interface Found {
  /** File and line. */
  at: string;
  /** Undefined where it is made of text that only the running program knows. */
  literal: RegExp | undefined;
}

function* regularExpressions(folder: string): Iterable<Found> {
  for (const path of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts')) continue;
    const file = join(folder, path);
    const script = stripTypeScriptTypes(readFileSync(join(ROOT, file), 'utf8'));
    const program = parse(script, {
      ecmaVersion: 'latest',
      sourceType: 'module',
      allowHashBang: true,
      locations: true,
    });
    for (const node of nodesOf(program)) {
      const at = `${file}:${node.loc?.start.line}`;
      if ('value' in node && node.value instanceof RegExp) yield { at, literal: node.value };
      else if ('name' in node && node.name === 'RegExp') yield { at, literal: undefined };
    }
  }
}

function* nodesOf(found: unknown): Iterable<Node> {
  if (typeof found !== 'object' || found === null || found instanceof RegExp) return;
  if ('type' in found && typeof found.type === 'string') yield found as Node;
  for (const inner of Object.values(found)) yield* nodesOf(inner);
}

t.test('the check finds slow regular expressions, and no others', async (t) => {
  const slow = [
    /^(a|a)*$/,
    /^(?:a+)+$/,
    /"(?:[^"\\]+|\\.)*"|:/g,
    /\s+$/,
    /\/+$/,
    /0+$/,
    /^\s*([^=]+)=(.*?)\s*$/,
    /^[+-]?(\d+\.?\d*|\.\d+)$/,
    /^ *([1-9][0-9]?) +of +(.+)$/,
    / FLOCK .* [0-9a-f]+:(\d+) /,
    /"((?:[^"\\]|\\.)*)"/g,
    /<x:xmpmeta[\s\S]*?<\/x:xmpmeta>/g,
    /^\S+@\S+\.\S+$/,
    /^(.{0,2000})(.{0,2000})$/,
    /(?:é+)*ü/iu,
  ];
  for (const { source, flags } of slow) t.ok(superLinear(source, flags), `slow: /${source}/${flags}`);
  const fast = [
    /^[0-9a-f]{64}$/,
    /^(?:[^"\\]|\\.)*$/s,
    /"(?:[^"\\]|\\.)*"?|:/g,
    /^ *([1-9][0-9]?) +of +([^ ].*)$/,
    /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/,
    /\r\n(?![ \t])/,
    /(?<=[.:]) |\n/,
    /^[a-z0-9][a-z0-9-]{0,62}$/,
  ];
  for (const { source, flags } of fast)
    t.equal(superLinear(source, flags), undefined, `fast: /${source}/${flags}`);
});

for (const folder of ['src', 'page']) {
  t.test(`regular expressions of ${folder} take linear time`, async (t) => {
    const found = [...regularExpressions(folder)];
    t.ok(found.some(({ literal }) => literal !== undefined));
    for (const { at, literal } of found) {
      if (literal === undefined) t.fail(`${at}: write it as a literal, which can be looked at`);
      else t.strictSame(superLinear(literal.source, literal.flags), undefined, `${at}: ${literal}`);
    }
  });
}
