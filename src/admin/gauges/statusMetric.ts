/** A metric that is read from the status at each scrape: how things stand, and totals the parts keep themselves. */
import type { AdminStatus } from '../statusSchema.ts';

type Labels = Record<string, string>;

/** One value of a metric. */
export interface Sample {
  labels?: Labels;
  value: number;
}

export interface StatusMetric {
  name: string;
  help: string;
  labelNames?: string[];
  /** A total that the daemon keeps itself since its start. */
  isTotal?: true;
  samples(status: AdminStatus): Sample[];
}

/** None where there is nothing to say. */
export function one(value: number | boolean | undefined): Sample[] {
  return value === undefined ? [] : [{ value: Number(value) }];
}

export function epochSeconds(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time) / 1000;
}
