/**
 * Both digests on one core: every kernel, on one thread of the add-on, against OpenSSL (`node:crypto`), SHA-256 then SHA-512 of
 * the same stream. Tasks are as large as the pool makes them, whatever the number of streams.
 * `node test/native/bench.ts [bytes per chunk]` prints the medians of interleaved runs, so that whatever else the machine does
 * befalls all alike.
 */
import { createHash } from 'node:crypto';
import { cpus } from 'node:os';
import type { Hashed } from '../../src/hash/engine.ts';
import { loadNativeAddon, type NativeThreads } from '../../src/hash/native.ts';

const RUNS = 15;
const RUN_BYTES = 4 * 1024 * 1024;
const STREAMS = [1, 2, 4, 8, 16];
const CHUNKS_PER_TASK = 16;
const chunkBytes = Number(process.argv[2] ?? 64 * 1024);

const addon = loadNativeAddon();
const chunks = Array.from({ length: CHUNKS_PER_TASK }, () => new Uint8Array(chunkBytes));

async function openssl(): Promise<void> {
  const [sha256, sha512] = [createHash('sha256'), createHash('sha512')];
  for (let done = 0; done < RUN_BYTES; done += chunkBytes) {
    const chunk = chunks[(done / chunkBytes) % chunks.length] as Uint8Array;
    sha256.update(chunk);
    sha512.update(chunk);
  }
}

async function native(threads: NativeThreads, streams: number): Promise<void> {
  const share = CHUNKS_PER_TASK / streams;
  let answers: (Hashed | undefined)[] = Array(streams).fill(undefined);
  for (let done = 0; done < RUN_BYTES; done += CHUNKS_PER_TASK * chunkBytes) {
    const pieces = answers.map((answer, i) => {
      const state = answer && 'state' in answer ? { state: answer.state } : {};
      return { ...state, chunks: chunks.slice(i * share, (i + 1) * share), last: false };
    });
    answers = await threads.hash(pieces);
  }
}

/** Megabytes per second. */
async function speed(run: () => Promise<void>): Promise<number> {
  const start = process.hrtime.bigint();
  await run();
  return (RUN_BYTES * 1000) / Number(process.hrtime.bigint() - start);
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number;
}

const cases = [{ name: 'OpenSSL', streams: 1, run: openssl, speeds: [] as number[] }].concat(
  addon.kernels().flatMap((kernel) => {
    addon.force(kernel);
    const threads = new addon.Threads(1);
    return STREAMS.map((streams) => ({
      name: kernel,
      streams,
      speeds: [] as number[],
      run: () => native(threads, streams),
    }));
  }),
);

for (let i = 0; i < RUNS; i++) for (const { run, speeds } of cases) speeds.push(await speed(run));

const base = median(cases[0]?.speeds ?? []);
console.log(`${cpus()[0]?.model}, OpenSSL ${process.versions.openssl}, chunks of ${chunkBytes} bytes`);
console.log('kernel       streams    MB/s  × OpenSSL');
for (const { name, streams, speeds } of cases) {
  const value = median(speeds);
  const columns = [
    String(streams).padStart(7),
    value.toFixed(0).padStart(7),
    (value / base).toFixed(2).padStart(10),
  ];
  console.log(name.padEnd(12), ...columns);
}
