import { Counter, Gauge, type Registry } from 'prom-client';
import { EDGES } from './gauges/edgeGauges.ts';
import { SEALING } from './gauges/sealingGauges.ts';
import type { StatusMetric } from './gauges/statusMetric.ts';
import { UPKEEP } from './gauges/upkeepGauges.ts';
import type { AdminStatus } from './statusSchema.ts';

/** The metrics that say how things stand. */
export class StatusGauges {
  readonly #metrics: { metric: Gauge | Counter; isPlain: boolean; samples: StatusMetric['samples'] }[];

  constructor(registry: Registry) {
    this.#metrics = [...SEALING, ...EDGES, ...UPKEEP].map(
      ({ name, help, labelNames = [], isTotal, samples }) => {
        const options = { name, help, labelNames, registers: [registry] };
        const metric = isTotal ? new Counter(options) : new Gauge(options);
        return { metric, isPlain: labelNames.length === 0, samples };
      },
    );
  }

  /** What is not in the status any more is not in the metrics either. */
  set(status: AdminStatus): void {
    for (const { metric, isPlain, samples } of this.#metrics) {
      metric.reset();
      // Resetting gives a metric without labels the value 0, which it may not have.
      if (isPlain) metric.remove();
      for (const { labels = {}, value } of samples(status)) metric.inc(labels, value);
    }
  }
}
