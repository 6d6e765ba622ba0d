/** The measured numbers of streams. For other numbers, the kernel of the next lower one is used. */
export const WIDTHS = [1, 2, 4, 8, 16] as const;

/** The functions of the add-on that calibration uses. */
export interface Kernels {
  /** Names of the kernels that run on this processor. OpenSSL's code comes first, if Node.js exports it. */
  kernels(): string[];
  /** Whether a kernel gives the known answers. Takes less than a millisecond. */
  selfTest(kernel: string): boolean;
  /** Megabytes per second of both digests over 1 to 16 streams, from one slice of 0.1 ms of processor time. */
  measure(kernel: string, streams: number): number;
}

/** The speed of a kernel with `streams` parallel streams, both digests, on one core. A megabyte is 10⁶ bytes. */
export interface KernelRate {
  streams: number;
  kernel: string;
  megabytesPerSecond: number;
}

export interface Calibration {
  /** The fastest kernel for each width, in the order of the widths. */
  chosen: KernelRate[];
  /** All measurements. */
  rates: KernelRate[];
  /** Kernels that give wrong answers: this processor, hypervisor or compiler breaks them. */
  unsound: string[];
}

/** This many short slices of each kernel show which one is fastest. */
const ROUNDS_MAX = 10;
/** Enough for all rounds on a slow core. The whole calibration stays below 100 ms. */
const BUDGET_MS = 60;

/**
 * Measures every kernel that gives correct answers on this processor, including OpenSSL, and chooses the fastest. The processor's flags do
 * not show which kernel is fast. The best of several short slices counts, so that noise does not decide. Throws if no kernel is correct.
 */
export function calibrate(addon: Kernels, budgetMs = BUDGET_MS): Calibration {
  const endMs = performance.now() + budgetMs;
  const { true: sound = [], false: unsound = [] } = Object.groupBy(addon.kernels(), (kernel) =>
    addon.selfTest(kernel) ? 'true' : 'false',
  );
  const [first, ...others] = sound;
  if (first === undefined)
    throw new Error(`the native hash kernels compute wrong digests: ${unsound.join(', ')}`);
  // The first kernel, OpenSSL, is measured even if no time is left: it is good enough. The most demanding kernels come next.
  const rates = [first, ...others.toReversed()].flatMap((kernel) =>
    WIDTHS.map((streams): KernelRate => ({ streams, kernel, megabytesPerSecond: 0 })),
  );
  for (let round = 0; round < ROUNDS_MAX && (round === 0 || performance.now() < endMs); round += 1) {
    for (const rate of rates) {
      if (performance.now() >= endMs && (round > 0 || rate.kernel !== first)) break;
      rate.megabytesPerSecond = Math.max(rate.megabytesPerSecond, addon.measure(rate.kernel, rate.streams));
    }
  }
  const measured = rates.filter(({ megabytesPerSecond }) => megabytesPerSecond > 0);
  const chosen = WIDTHS.map((streams) =>
    measured
      .filter((rate) => rate.streams === streams)
      .reduce((best, rate) => (rate.megabytesPerSecond > best.megabytesPerSecond ? rate : best)),
  );
  return { chosen, rates: measured, unsound };
}
