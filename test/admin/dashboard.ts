import { readFileSync } from 'node:fs';
import { z } from 'zod';

/** Of Grafana's JSON model as much as the dashboard uses; anything else in it is a mistake. */
const datasource = z.strictObject({
  type: z.literal('prometheus'),
  uid: z.string().regex(/^\$\{datasource\}$/),
});
const gridPos = z.strictObject({
  x: z.int().min(0).max(23),
  y: z.int().min(0),
  w: z.int().min(1).max(24),
  h: z.int().min(1),
});
const target = z.strictObject({
  refId: z.string().regex(/^[A-Z]$/),
  expr: z.string().min(1),
  legendFormat: z.string(),
  instant: z.boolean(),
  range: z.boolean(),
  format: z.literal('table').optional(),
});
const thresholds = z.strictObject({
  mode: z.literal('absolute'),
  // The first has no value: it holds from minus infinity on.
  steps: z
    .tuple([z.strictObject({ color: z.string(), value: z.null() })])
    .rest(z.strictObject({ color: z.string(), value: z.number() })),
});
const defaults = z.strictObject({
  unit: z.enum(['short', 's', 'ops', 'reqps', 'bytes', 'percentunit', 'd']).optional(),
  decimals: z.int().optional(),
  min: z.number().optional(),
  max: z.number().optional(),
  noValue: z.string().optional(),
  color: z.strictObject({ mode: z.enum(['thresholds', 'palette-classic']) }).optional(),
  mappings: z.array(
    z.strictObject({
      type: z.literal('value'),
      options: z.record(z.string(), z.object({ text: z.string(), color: z.string(), index: z.int() })),
    }),
  ),
  thresholds,
  custom: z.record(z.string(), z.unknown()).optional(),
});
const panel = z.strictObject({
  id: z.int().min(1),
  type: z.enum(['stat', 'timeseries', 'state-timeline', 'bargauge', 'table']),
  title: z.string().min(1),
  description: z.string(),
  datasource,
  gridPos,
  targets: z.array(target).min(1),
  fieldConfig: z.strictObject({ defaults, overrides: z.tuple([]) }),
  options: z.record(z.string(), z.unknown()),
  transformations: z
    .array(z.strictObject({ id: z.string(), options: z.record(z.string(), z.unknown()) }))
    .optional(),
});
const row = z.strictObject({
  id: z.int().min(1),
  type: z.literal('row'),
  title: z.string().min(1),
  collapsed: z.literal(false),
  panels: z.tuple([]),
  gridPos,
});
const variable = z.looseObject({
  name: z.string(),
  label: z.string(),
  type: z.enum(['datasource', 'query']),
});
const dashboard = z.strictObject({
  // Grafana gives it a number of its own.
  id: z.null(),
  uid: z.string().regex(/^[\w-]{1,40}$/),
  title: z.string(),
  description: z.string(),
  tags: z.array(z.string()),
  timezone: z.enum(['browser', 'utc', '']),
  editable: z.boolean(),
  graphTooltip: z.union([z.literal(0), z.literal(1), z.literal(2)]),
  fiscalYearStartMonth: z.int(),
  liveNow: z.boolean(),
  weekStart: z.string(),
  // Grafana 10; newer ones bring it up to date when they read it.
  schemaVersion: z.literal(38),
  version: z.int(),
  refresh: z.string(),
  time: z.strictObject({ from: z.string(), to: z.string() }),
  timepicker: z.strictObject({}),
  links: z.tuple([]),
  annotations: z.strictObject({
    list: z.array(z.looseObject({ name: z.string(), expr: z.string().optional() })),
  }),
  templating: z.strictObject({ list: z.array(variable) }),
  panels: z.array(z.discriminatedUnion('type', [panel, row])),
});
export type Dashboard = z.infer<typeof dashboard>;

/** Throws unless the file is a dashboard as Grafana documents it. */
export function readDashboard(): Dashboard {
  return dashboard.parse(JSON.parse(readFileSync('config/grafana-dashboard.json', 'utf8')));
}

/** Everything Prometheus is asked, with Grafana's variables as they would be filled in. */
export function expressionsOf({ panels, annotations }: Dashboard): string[] {
  const ofPanels = panels.flatMap((one) => (one.type === 'row' ? [] : one.targets.map(({ expr }) => expr)));
  const ofAnnotations = annotations.list.flatMap(({ expr }) => expr ?? []);
  return [...ofPanels, ...ofAnnotations].map((expr) =>
    expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$(environment|instance)\b/g, '.*'),
  );
}
