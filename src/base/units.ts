const DURATION_UNITS_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZE_UNITS_BYTES: Record<string, number> = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** Parses `250ms`, `30s`, `5m`, `24h`, `90d` into milliseconds; undefined for anything else. */
export function parseDurationMs(text: string): number | undefined {
  return parseQuantity(text, /^(\d{1,9})(ms|s|m|h|d)$/, DURATION_UNITS_MS);
}

/** Parses `512B`, `64KiB`, `20MiB`, `1GiB` into bytes; undefined for anything else. */
export function parseBytes(text: string): number | undefined {
  return parseQuantity(text, /^(\d{1,9})(B|KiB|MiB|GiB|TiB)$/, SIZE_UNITS_BYTES);
}

function parseQuantity(text: string, pattern: RegExp, units: Record<string, number>): number | undefined {
  const [, digits = '', unit = ''] = pattern.exec(text) ?? [];
  const value = Number(digits) * (units[unit] ?? Number.NaN);
  return Number.isSafeInteger(value) ? value : undefined;
}

/** Bytes in the largest unit in which the number is at least 1: `1.5 MiB`. For people, not for parsing. */
export function formatBytes(bytes: number): string {
  const unit =
    Object.keys(SIZE_UNITS_BYTES).findLast((name) => bytes >= (SIZE_UNITS_BYTES[name] ?? 0)) ?? 'B';
  const value = bytes / (SIZE_UNITS_BYTES[unit] ?? 1);
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${unit}`;
}

/** A duration in the form that {@link parseDurationMs} accepts, in the largest unit without a remainder: `90s`, `1d`. */
export function formatDuration(durationMs: number): string {
  const [unit, unitMs] =
    Object.entries(DURATION_UNITS_MS).findLast(([, ms]) => durationMs % ms === 0) ?? (['ms', 1] as const);
  return `${durationMs / unitMs}${unit}`;
}
