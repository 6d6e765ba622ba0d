/** `npm run mutants` shows that the quick tests catch each mutant. Here only that it can. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { applies, fileOf, mutantNames, patchOf, ROOT } from './patches.ts';

t.test('every mutant still applies to the sources, and says what is wrong with it', async (t) => {
  for (const name of mutantNames()) {
    t.ok(existsSync(join(ROOT, fileOf(name))), `${name} changes ${fileOf(name)}`);
    t.ok(applies(name), `${name} applies; if not, test/README.md says how to renew it`);
    t.match(readFileSync(patchOf(name), 'utf8'), /^[^\n]{40,300}\.\n\ndiff --git a\/src\//, name);
  }
});

t.test('20 rooms have a mutant', async (t) => {
  const rooms = new Set(mutantNames().map((name) => fileOf(name).split('/')[1]));
  t.ok(rooms.size >= 20, [...rooms].join(', '));
});
