/** Parts that the sections of the status share. A section is one file: the facts about a part of the daemon, how they are read, and which metrics show them. */
import * as z from 'zod';

/** Members of the status, in the spelling of the wire. */
export const WIRE = {
  count: z.int().min(0),
  seconds: z.number().min(0),
  bytes: z.int().min(0),
  time: z.iso.datetime(),
};

/** One value of a metric. */
export interface Sample {
  labels?: Record<string, string>;
  value: number;
}

/** A metric that is read from a section at each scrape: how things stand, and totals (`…_total`) that the parts keep themselves since the start. */
export interface StatusMetric<Section> {
  name: string;
  help: string;
  labelNames?: string[];
  samples(section: Section): Sample[];
}

const METRICS = z.registry<{ metrics: StatusMetric<never>[] }>();

/** Adds the metrics that show a section. */
export function showAs<Schema extends z.ZodType>(
  section: Schema,
  metrics: StatusMetric<z.infer<Schema>>[],
): void {
  METRICS.add(section, { metrics });
}

/** The metrics of a member of the status. One that can be absent has no values then. */
export function metricsOf<Schema extends z.ZodType>(member: Schema): StatusMetric<z.infer<Schema>>[] {
  const section = member instanceof z.ZodOptional ? member.unwrap() : member;
  return (METRICS.get(section as z.ZodType)?.metrics ?? []).map((metric) => ({
    ...metric,
    samples: (facts) => (facts === undefined ? [] : metric.samples(facts as never)),
  }));
}

/** None where there is nothing to say. */
type Value = number | boolean | undefined;

function sample(value: Value, labels?: Record<string, string>): Sample[] {
  return value === undefined ? [] : [{ labels, value: Number(value) }];
}

/** Members of a section that are a value. */
type ValueOf<Section> = {
  [Name in keyof Section]: Section[Name] extends Value ? Name : never;
}[keyof Section];

/** A metric of one value without labels: that member, or what is told from the section. */
export function plain<Section>(
  name: string,
  help: string,
  value: ValueOf<Section> | ((section: Section) => Value),
): StatusMetric<Section> {
  const read = (section: Section): Value =>
    typeof value === 'function' ? value(section) : (section[value] as Value);
  return { name, help, samples: (section) => sample(read(section)) };
}

/** A metric of one value for each of what the label tells apart. */
export function by<Section>(
  label: string,
  name: string,
  help: string,
  values: (section: Section) => Iterable<readonly [is: string, value: Value]>,
): StatusMetric<Section> {
  const samples = (section: Section) =>
    Array.from(values(section), ([is, value]) => sample(value, { [label]: is })).flat();
  return { name, help, labelNames: [label], samples };
}

export function epochSeconds(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time) / 1000;
}

export function ageSeconds(since: number, now: number): number {
  return Math.max(0, Math.round((now - since) / 1000));
}
