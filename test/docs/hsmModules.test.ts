/** The manual's table of modules has what `pdfseal hsm acceptance` reported. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { AcceptanceReport } from '../../src/cli/hsm/acceptanceReport.ts';
import { KEY_ALGORITHMS } from '../../src/kms/keyAlgorithm.ts';
import { MODULES_FOLDER, manualSources } from '../../systemd/bundle/sources.ts';
import { ROOT } from '../support/manual.ts';
import { MODULES } from '../support/modules.ts';

type Report = AcceptanceReport & { name: string };

const reports = readdirSync(join(ROOT, MODULES_FOLDER)).map(
  (file) => JSON.parse(readFileSync(join(ROOT, MODULES_FOLDER, file), 'utf8')) as Report,
);
const page = manualSources().find(({ path }) => path === 'docs/hsm/README.md')?.markdown ?? '';

t.test('each report is of a module that the tests live with, and left nothing behind if it works', (t) => {
  const names = MODULES.map(({ name }) => name);
  t.ok(reports.length > 2);
  for (const { name, schema, outcome, trials, left_behind: left, algorithms, module } of reports) {
    t.ok(names.includes(name), name);
    t.equal(schema, 'pdfseal-acceptance/1');
    t.equal(trials.length, 6, name);
    if (outcome === 'works') t.strictSame(left, [], name);
    t.ok(algorithms.every(({ algorithm }) => KEY_ALGORITHMS.includes(algorithm)));
    t.notMatch(module.file, /\.cache|\/tmp/, 'no path of the machine that tried it');
  }
  t.end();
});

t.test('the table has a row for each report, and for nothing else', (t) => {
  const rows = page.split('\n').filter((line) => /\| \d{4}-\d\d-\d\d \|$/.test(line));
  t.equal(rows.length, reports.length);
  for (const { name, date, outcome, module, algorithms, remark } of reports) {
    const row = rows.find((line) => line.startsWith(`| ${name} `)) ?? '';
    t.match(row, ` | ${outcome} | ${date.slice(0, 10)} |`, name);
    t.match(row, `| ${module.version} |`, name);
    if (remark !== undefined) t.match(row, `(${remark})`);
    for (const one of algorithms) {
      const isShown = row.split(/[ ,|]+/).includes(one.algorithm);
      t.equal(isShown, one.outcome === 'works', `${name}: ${one.algorithm}`);
    }
  }
  t.end();
});

t.test('a mock is called a mock', (t) => {
  for (const { name, remark } of reports) if (/YubiHSM|NetHSM/.test(name)) t.match(remark, /mock/, name);
  t.end();
});
