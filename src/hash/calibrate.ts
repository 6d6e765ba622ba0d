/** Numbers of streams that are measured. Others use the kernel of the next one below. */
export const WIDTHS = [1, 2, 4, 8, 16] as const;

/** What of the add-on can be measured. */
export interface Kernels {
  /** Names of those that run on this processor; OpenSSL's own code comes first, where Node exports it. */
  kernels(): string[];
  /** Whether a kernel knows its known answers. Takes less than a millisecond. */
  selfTest(kernel: string): boolean;
  /** Megabytes per second of both digests over 1 to 16 streams: one slice of a tenth of a millisecond of processor time. */
  measure(kernel: string, streams: number): number;
}

/** What a kernel makes of so many streams side by side, both digests, on one core; megabytes are 10⁶ bytes. */
export interface KernelRate {
  streams: number;
  kernel: string;
  megabytesPerSecond: number;
}

export interface Calibration {
  /** The fastest kernel of each width, in their order. */
  chosen: KernelRate[];
  /** All that was measured. */
  rates: KernelRate[];
  /** Kernels that do not know their known answers: this processor, hypervisor or compiler breaks them. */
  unsound: string[];
}

/** Enough for ten rounds on a slow core; all of it stays below 100 ms. */
const BUDGET_MS = 60;

/**
 * Measures every kernel of this processor that knows its known answers, OpenSSL among them, and chooses: what a processor is good at is not
 * in its flags. The best of several short slices counts, so that noise does not decide. Throws when no kernel is sound.
 */
export function calibrate(addon: Kernels, budgetMs = BUDGET_MS): Calibration {
  const endMs = performance.now() + budgetMs;
  const { true: sound = [], false: unsound = [] } = Object.groupBy(addon.kernels(), (kernel) =>
    addon.selfTest(kernel) ? 'true' : 'false',
  );
  const [first, ...others] = sound;
  if (first === undefined)
    throw new Error(`the native hash kernels compute wrong digests: ${unsound.join(', ')}`);
  // The first, OpenSSL, is measured even without time: it is good enough. Then those that ask most of a processor.
  const rates = slots([first, ...others.toReversed()]);
  for (let round = 0; round === 0 || performance.now() < endMs; round += 1) {
    for (const rate of rates) {
      if (performance.now() >= endMs && (round > 0 || rate.kernel !== first)) break;
      rate.megabytesPerSecond = Math.max(rate.megabytesPerSecond, addon.measure(rate.kernel, rate.streams));
    }
  }
  const measured = rates.filter(({ megabytesPerSecond }) => megabytesPerSecond > 0);
  return { chosen: WIDTHS.map((streams) => fastest(measured, streams)), rates: measured, unsound };
}

function slots(kernels: readonly string[]): KernelRate[] {
  return kernels.flatMap((kernel) => WIDTHS.map((streams) => ({ streams, kernel, megabytesPerSecond: 0 })));
}

function fastest(rates: readonly KernelRate[], streams: number): KernelRate {
  return rates
    .filter((rate) => rate.streams === streams)
    .reduce((best, rate) => (rate.megabytesPerSecond > best.megabytesPerSecond ? rate : best));
}
