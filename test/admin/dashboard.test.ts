/** The Grafana dashboard in config/, as far as it can be judged without Grafana. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { expressionsOf, readDashboard } from './dashboard.ts';
import { promtool } from './promtool.ts';

const dashboard = readDashboard();

t.test('panels have unique ids and do not overlap', async (t) => {
  const ids = dashboard.panels.map(({ id }) => id);
  t.equal(new Set(ids).size, ids.length);
  const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) => {
    t.ok(x + w <= 24);
    return Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`);
  });
  t.equal(new Set(cells).size, cells.length);
});

t.test('the dashboard works with any Prometheus, environment and instance', async (t) => {
  const names = dashboard.templating.list.map(({ name }) => name);
  t.strictSame(names, ['datasource', 'environment', 'instance']);
  for (const panel of dashboard.panels) {
    if (panel.type === 'row') continue;
    const refIds = panel.targets.map(({ refId }) => refId);
    t.equal(new Set(refIds).size, refIds.length, panel.title);
    for (const { expr } of panel.targets) {
      t.match(expr, 'environment=~"$environment",instance=~"$instance"', panel.title);
      t.notMatch(
        expr.replaceAll(/\$(environment|instance|__rate_interval)\b/g, ''),
        '$',
        'no other variable',
      );
    }
  }
});

t.test('Prometheus accepts every query of the dashboard', async (t) => {
  const file = join(t.testdir(), 'rules.json');
  const write = (expressions: string[]) => {
    const rules = expressions.map((expr, n) => ({ record: `panel:${n}`, expr }));
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
  };
  write(expressionsOf(dashboard));
  const { status, output } = promtool(['check', 'rules', file]);
  t.equal(status, 0, output);
  write(['sum(']);
  t.equal(promtool(['check', 'rules', file]).status, 1, 'a wrong one is seen');
});
