import { createHash } from 'node:crypto';
import type { Hashed } from '../../src/hash/engine.ts';
import { loadNativeAddon, type NativeThreads } from '../../src/hash/native.ts';
import { number, ratio, table } from './format.ts';
import { median } from './stats.ts';

export interface HashPlan {
  rounds: number;
}

export interface HashReport {
  rounds: number;
  /** Of OpenSSL (`node:crypto`), SHA-256 and then SHA-512 of one stream; medians. */
  opensslMegabytesPerSecond: number;
  rows: HashRow[];
}

interface HashRow {
  kernel: string;
  streams: number;
  megabytesPerSecond: number;
}

type Run = () => Promise<void>;

const ROUND_BYTES = 4 * 1024 * 1024;
const STREAMS = [1, 2, 4, 8, 16];
const CHUNKS_PER_TASK = 16;
const CHUNK_BYTES = 64 * 1024;
const chunks = Array.from({ length: CHUNKS_PER_TASK }, () => new Uint8Array(CHUNK_BYTES));

/**
 * Both digests on one core: every kernel of this processor, on one thread of the add-on. Tasks are as large as the pool makes them,
 * whatever the number of streams. The cases take turns: what else the machine does befalls all of them.
 */
export async function benchHash({ rounds }: HashPlan): Promise<HashReport> {
  const addon = loadNativeAddon();
  const openThreads = addon.kernels().map((kernel) => {
    addon.force(kernel);
    return { kernel, threads: new addon.Threads(1) };
  });
  const cases = openThreads.flatMap(({ kernel, threads }) =>
    STREAMS.map((streams) => ({ kernel, streams, run: () => native(threads, streams) })),
  );
  const openssl: number[] = [];
  const speeds = new Map<object, number[]>(cases.map((one) => [one, []]));
  for (let round = 0; round < rounds; round++) {
    openssl.push(await speedOf(bothByOpenssl));
    for (const one of cases) speeds.get(one)?.push(await speedOf(one.run));
  }
  for (const { threads } of openThreads) threads.close();
  return {
    rounds,
    opensslMegabytesPerSecond: median(openssl),
    rows: cases.map((one) => ({
      kernel: one.kernel,
      streams: one.streams,
      megabytesPerSecond: median(speeds.get(one) ?? []),
    })),
  };
}

export function renderHash({ rounds, opensslMegabytesPerSecond: openssl, rows }: HashReport): string {
  return [
    `Both digests on one core, medians of ${rounds}; OpenSSL ${process.versions.openssl}, one after the other: ${number(openssl)} MB/s`,
    table(
      ['kernel', 'streams', 'MB/s', 'to OpenSSL'],
      rows.map(({ kernel, streams, megabytesPerSecond }) => [
        kernel,
        String(streams),
        number(megabytesPerSecond),
        ratio(megabytesPerSecond, openssl),
      ]),
    ),
  ].join('\n');
}

async function bothByOpenssl(): Promise<void> {
  const [sha256, sha512] = [createHash('sha256'), createHash('sha512')];
  for (let done = 0; done < ROUND_BYTES; done += CHUNK_BYTES) {
    const chunk = chunks[(done / CHUNK_BYTES) % chunks.length] as Uint8Array;
    sha256.update(chunk);
    sha512.update(chunk);
  }
}

async function native(threads: NativeThreads, streams: number): Promise<void> {
  const share = CHUNKS_PER_TASK / streams;
  let answers: (Hashed | undefined)[] = Array(streams).fill(undefined);
  for (let done = 0; done < ROUND_BYTES; done += CHUNKS_PER_TASK * CHUNK_BYTES) {
    const pieces = answers.map((answer, i) => {
      const state = answer && 'state' in answer ? { state: answer.state } : {};
      return { ...state, chunks: chunks.slice(i * share, (i + 1) * share), last: false };
    });
    answers = await threads.hash(pieces);
  }
}

/** Megabytes per second. */
async function speedOf(run: Run): Promise<number> {
  const startMs = performance.now();
  await run();
  return ROUND_BYTES / 1000 / (performance.now() - startMs);
}
