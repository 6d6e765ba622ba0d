import { readFileSync } from 'node:fs';
import t from 'tap';
import { fromUtf8 } from '../../src/base/bytes.ts';
import { encodeCanonical, parseUniqueJson } from '../../src/manifest/jcs.ts';
import { fc } from '../support/seed.ts';

const vector = (path: string) => readFileSync(new URL(`../vectors/jcs/${path}`, import.meta.url), 'utf8');

for (const name of ['arrays', 'french', 'structures', 'unicode', 'values', 'weird']) {
  t.test(`RFC 8785 test data: ${name}`, async (t) => {
    t.strictSame(
      encodeCanonical(JSON.parse(vector(`input/${name}.json`))),
      fromUtf8(vector(`output/${name}.json`)),
    );
  });
}

t.test('a value without a canonical form is refused', async (t) => {
  for (const value of [Number.NaN, [Number.POSITIVE_INFINITY], { a: '\ud800' }, { '\udc00': 1 }, undefined]) {
    t.throws(() => encodeCanonical(value));
  }
});

t.test('any JSON without duplicate members is read unchanged', async (t) => {
  fc.assert(fc.property(fc.json(), (text) => t.strictSame(parseUniqueJson(text), JSON.parse(text))));
  t.strictSame(
    parseUniqueJson('{"a:":":","\\"":"\\\\","b":[{"a:":1},{"a:":2}]}'),
    JSON.parse('{"a:":":","\\"":"\\\\","b":[{"a:":1},{"a:":2}]}'),
  );
});

const doubled = [
  '{"a":1,"a":1}',
  '{"a":1,"b":{"c":[{"d":1,"d":2}]}}',
  '{"a":1,"\\u0061":2}',
  '{"__proto__":1,"__proto__":2}',
  '{"a":{"b":1,"c":2},"a":3}',
];
for (const text of doubled) {
  t.test(`a repeated name throws: ${text}`, async (t) => t.throws(() => parseUniqueJson(text), SyntaxError));
}

t.test('deep nesting is refused without exhausting the stack', async (t) => {
  const deep = `${'['.repeat(200_000)}{"a":1,"a":1}${']'.repeat(200_000)}`;
  t.throws(() => parseUniqueJson(deep));
});
