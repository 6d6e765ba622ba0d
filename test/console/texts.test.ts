/** Every text of the console is in the tables of English, so that a site can put its language in their place. */
import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';

const CONSOLE = new URL('../../src/console/', import.meta.url);
/** Words of a template, between what it puts in and its tags. */
const BETWEEN = />([\p{L}\p{N}\s.,;:’'!?–-]*)</gu;
const ATTRIBUTE = / (?:alt|aria-label|placeholder|title)="([^"$]*)"/g;
/** A literal that reads like a sentence, or like the beginning of one. */
const SENTENCE = /'([A-Z][a-z]+ [a-z]+[^']*)'/g;

t.test('no page has texts of its own', (t) => {
  const files = readdirSync(CONSOLE).filter((name) => !name.startsWith('english'));
  t.ok(files.length > 30);
  for (const name of files) {
    const source = readFileSync(new URL(name, CONSOLE), 'utf8').replaceAll(/^ *(?:\/\*\*?|\*|\/\/).*$/gm, '');
    const templates = source.split(/html`/).slice(1);
    const said = [
      ...templates.flatMap((text) => [...text.matchAll(BETWEEN), ...text.matchAll(ATTRIBUTE)]),
      ...source.matchAll(SENTENCE),
    ].flatMap(([, text = '']) => (/\p{L}{2}/u.test(text) ? [text.trim()] : []));
    t.strictSame(said, [], name);
  }
  t.end();
});
