/** Mistakes of an administrator: each answer names what is wrong, where, and what to do, as `mistakes.md` and `remedies.md` show it. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { parseConfig } from '../../src/config/config.ts';
import { everyKey } from '../../src/config/document.ts';
import { ROOT } from '../support/manual.ts';
import { openSandbox } from '../support/sandbox.ts';
import { answerTo, MISTAKES, type Mistake, pageOf, remediesOf, type Said } from './mistakes.ts';

const answers = new Map<Mistake, Said>();

for (const [title, mistakes] of Object.entries(MISTAKES))
  t.test(`${title}: each answer names the place, and says what to do`, async (t) => {
    for (const mistake of mistakes)
      await t.test(mistake.name, async (t) => {
        const sandbox = await openSandbox(mistake.options ?? {});
        t.teardown(() => sandbox.close());
        await mistake.make?.(sandbox, t);
        const args = [...mistake.command.split(' '), '--config', sandbox.configFile];
        const run = await (mistake.run?.(sandbox, t) ?? sandbox.pdfseal(args));
        const output = `${run.stdout}${run.stderr}`;
        t.equal(run.status, mistake.status, output);
        t.notMatch(output, /^ +at /m, 'without a stack trace');
        const said = answerTo(mistake, run);
        if (said === undefined) t.fail('the answer names the place and the remedy', { output });
        else answers.set(mistake, said);
      });
  });

t.test('a key that is misspelt is named with its table and line, in every table', (t) => {
  const tables = [...new Set(everyKey().map(({ table }) => table))].filter((table) => table !== '');
  t.ok(tables.length > 20, `${tables.length} tables`);
  for (const header of tables) {
    const table = header.replaceAll('<name>', 'one');
    const text = `environment = "test"\n\n${table}\nmispelt = 1\n`;
    const path = table.replaceAll(/[[\]]/g, '');
    const place = table.startsWith('[[') ? `${path}[0]` : path;
    try {
      parseConfig(text, 'test.toml');
      t.fail(`${place}: it was accepted`);
    } catch (error) {
      const line = String(error)
        .split('\n')
        .find((one) => one.includes(`test.toml:4: ${place}.mispelt: unknown key; expected one of: `));
      t.ok(line !== undefined, `${place}: ${error}`);
    }
  }
  t.end();
});

t.test('the page shows at least 35 mistakes, with what the product says', (t) => {
  t.ok(answers.size >= 35, `${answers.size} mistakes`);
  const folder = join(ROOT, 'node_modules/.cache');
  mkdirSync(folder, { recursive: true });
  for (const [path, expected] of [
    ['test/docs/mistakes.md', pageOf(answers)],
    ['test/docs/remedies.md', remediesOf(answers)],
  ] as const) {
    const file = join(folder, basename(path));
    writeFileSync(file, expected);
    t.equal(readFileSync(join(ROOT, path), 'utf8'), expected, `${file} is how ${path} must be`);
  }
  t.end();
});
