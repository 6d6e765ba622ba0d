/** The value below which `share` (0..1) of the samples lie, by nearest rank. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  const rank = Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1));
  return sorted[rank] ?? Number.NaN;
}

export function median(values: number[]): number {
  return percentile(Float64Array.from(values).sort(), 0.5);
}

export interface Latency {
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
}

export function latencyOf(samplesMs: number[]): Latency {
  const sorted = Float64Array.from(samplesMs).sort();
  return { p50Ms: percentile(sorted, 0.5), p95Ms: percentile(sorted, 0.95), p99Ms: percentile(sorted, 0.99) };
}

/** Field by field, the median of several rounds. */
export function medianOf<T extends { [K in keyof T]: number }>(rounds: T[]): T {
  const [first] = rounds;
  if (!first) throw new Error('no rounds to take a median of');
  const fields = Object.keys(first) as (keyof T)[];
  return Object.fromEntries(fields.map((field) => [field, median(rounds.map((one) => one[field]))])) as T;
}
