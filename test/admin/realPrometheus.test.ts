/** The metrics of a real daemon, as promtool and a real Prometheus read them. */
import t from 'tap';
import { until } from '../support/until.ts';
import { openBusyDaemon } from './busyDaemon.ts';
import { expressionsOf, readDashboard } from './dashboard.ts';
import { startPrometheus } from './prometheus.ts';
import { promtool } from './promtool.ts';

/** It answers no 5xx, and was not started twice. */
const MAY_BE_EMPTY = /clock_error_bound|status=~"5|^changes\(process_start/;

t.test('metrics', async (t) => {
  const { port, monitorKey, text } = await openBusyDaemon(t);

  await t.test('are named, bounded and explained', async (t) => {
    t.strictSame(promtool(['check', 'metrics'], text), { status: 0, output: '' });
  });

  await t.test('include every metric that alerts and dashboard use', async (t) => {
    const dashboard = readDashboard();
    const prometheus = await startPrometheus(t, port, monitorKey);
    for (const expression of expressionsOf(dashboard)) {
      if (MAY_BE_EMPTY.test(expression)) await prometheus.count(expression);
      else t.ok(await prometheus.count(expression), expression);
    }
    await until('every rule was evaluated', async () => {
      return (await prometheus.rules()).every(({ health }) => health !== 'unknown');
    });
    t.strictSame(
      (await prometheus.rules()).filter(({ health }) => health !== 'ok'),
      [],
    );
  });
});
