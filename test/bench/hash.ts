import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { calibrate, type KernelRate, WIDTHS } from '../../src/hash/calibrate.ts';
import type { Hashed } from '../../src/hash/engine.ts';
import { loadNativeAddon, type NativeThreads } from '../../src/hash/native.ts';
import { number, ratio, table } from './format.ts';
import { describeProcessor, type Processor, resultsFile } from './machine.ts';

export interface HashPlan {
  rounds: number;
}

/** Of one kind of processor; a file of `processors/` is this. */
export interface HashReport {
  /** RFC 3339. */
  measuredAt: string;
  /** What sets these figures apart from those of the other processors. */
  note?: string;
  processor: Processor;
  node: string;
  openssl: string;
  rounds: number;
  /** Of OpenSSL (`node:crypto`), SHA-256 and then SHA-512 of one stream. */
  opensslMegabytesPerSecond: number;
  rows: KernelRate[];
  /** The kernels a daemon would choose here, measured again beside the others. */
  calibrated: KernelRate[];
}

type Run = () => Promise<void>;

const RUN_BYTES = 1024 * 1024;
const CHUNKS = 16;
const CHUNK_BYTES = RUN_BYTES / CHUNKS;
const chunks = Array.from({ length: CHUNKS }, () => new Uint8Array(CHUNK_BYTES));

/**
 * Both digests on one core: every kernel of this processor, on one thread of the add-on, and those that calibration chooses. Tasks are as large
 * as the pool makes them, whatever the number of streams. The cases take turns, and the best of many short runs counts: what else the machine
 * does can only take away.
 */
export async function benchHash({ rounds }: HashPlan): Promise<HashReport> {
  const addon = loadNativeAddon();
  const { chosen } = calibrate(addon);
  const plans = addon.kernels().map((kernel) => WIDTHS.map(() => kernel));
  const opened = [...plans, chosen.map(({ kernel }) => kernel)].map((kernels) => ({
    kernels,
    threads: new addon.Threads(1, kernels),
  }));
  const cases = opened.flatMap(({ kernels, threads }) =>
    WIDTHS.map((streams, i) => ({
      rate: { streams, kernel: kernels[i] ?? '', megabytesPerSecond: 0 },
      run: () => native(threads, streams),
    })),
  );
  let openssl = 0;
  for (let round = 0; round < rounds; round++) {
    openssl = Math.max(openssl, await speedOf(bothByOpenssl));
    for (const { rate, run } of cases)
      rate.megabytesPerSecond = Math.max(rate.megabytesPerSecond, await speedOf(run));
  }
  for (const { threads } of opened) threads.close();
  const rates = cases.map(({ rate }) => rate);
  return {
    measuredAt: new Date().toISOString(),
    processor: describeProcessor(),
    node: process.version,
    openssl: process.versions.openssl,
    rounds,
    opensslMegabytesPerSecond: openssl,
    rows: rates.slice(0, -WIDTHS.length),
    calibrated: rates.slice(-WIDTHS.length),
  };
}

/** Beside those of other kinds of processors. */
export function keepHash(report: HashReport): void {
  writeFileSync(resultsFile('processors'), `${JSON.stringify(report, undefined, 2)}\n`);
}

export function renderHash(report: HashReport): string {
  const { processor, openssl, opensslMegabytesPerSecond: sequential, rounds, rows, calibrated } = report;
  const { name, vendor, family, model, features } = processor;
  return [
    `Hashing on ${name} (${vendor}, family ${family}, model ${model}; ${features.join(' ')})`,
    `Both digests on one core, best of ${rounds} runs; OpenSSL ${openssl}, one after the other: ${number(sequential)} MB/s`,
    table(
      ['kernel', 'streams', 'MB/s', 'to OpenSSL'],
      [...rows, ...calibrated.map((rate) => ({ ...rate, kernel: `calibrated: ${rate.kernel}` }))].map(
        ({ kernel, streams, megabytesPerSecond: speed }) => [
          kernel,
          String(streams),
          number(speed),
          ratio(speed, sequential),
        ],
      ),
    ),
  ].join('\n');
}

async function bothByOpenssl(): Promise<void> {
  const [sha256, sha512] = [createHash('sha256'), createHash('sha512')];
  for (const chunk of chunks) {
    sha256.update(chunk);
    sha512.update(chunk);
  }
}

async function native(threads: NativeThreads, streams: number): Promise<void> {
  const share = CHUNKS / streams;
  const pieces = Array.from({ length: streams }, (_, i) => ({
    chunks: chunks.slice(i * share, (i + 1) * share),
    last: false,
  }));
  const answers: readonly Hashed[] = await threads.hash(pieces);
  if (answers.length !== streams) throw new Error('an answer is missing');
}

/** Megabytes per second. */
async function speedOf(run: Run): Promise<number> {
  const startMs = performance.now();
  await run();
  return RUN_BYTES / 1000 / (performance.now() - startMs);
}
