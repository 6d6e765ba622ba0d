import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Calibration, calibrate, type Kernels } from './calibrate.ts';
import { type Engine, type Hashed, type Piece, TASKS_PER_THREAD } from './engine.ts';

/** The add-on built from `native/`, whose README says what it keeps and for how long. One per thread. */
export interface NativeAddon extends Kernels {
  /** Starts so many threads, which use these kernels for each of the widths (see `calibrate.ts`). */
  Threads: new (
    count: number,
    kernels: readonly string[],
  ) => NativeThreads;
}

export interface NativeThreads {
  /** {@link Engine.hash}, on any of the threads. Throws a TypeError for a state of another engine or version. */
  hash(pieces: readonly Piece[]): Promise<Hashed[]>;
  /** Waits for what is under way; that is still answered, and what was to follow is rejected. */
  close(): void;
}

/** Where node-gyp puts it: as far from `src/` as from `dist/`, in a checkout as in the package. */
export const ADDON = new URL('../../native/build/Release/pdfseal_hash.node', import.meta.url);

/** As much as Node reads from a socket at once, so that no chunk is cut. */
const SHARE_BYTES_MIN = 64 * 1024;
/** For all 16 lanes; less than a millisecond of work. */
const TASK_BYTES_MAX = 16 * SHARE_BYTES_MIN;

/** Throws when the add-on was not built or does not load. */
export function loadNativeAddon(addon = ADDON): NativeAddon {
  return createRequire(import.meta.url)(fileURLToPath(addon)) as NativeAddon;
}

/** Throws when the add-on is missing, or none of its kernels knows its known answers. */
export function calibrateAddon(addon = ADDON): Calibration {
  return calibrate(loadNativeAddon(addon));
}

/** The engine made of this processor's own instructions, each number of streams by the kernel chosen for it. It reads the chunks where they are. */
export function openNativeEngine(threads: number, { chosen }: Calibration): Engine {
  const { Threads } = loadNativeAddon();
  const open = new Threads(
    threads,
    chosen.map(({ kernel }) => kernel),
  );
  return {
    tasksMax: threads * TASKS_PER_THREAD,
    taskBytesMax: TASK_BYTES_MAX,
    shareBytesMin: SHARE_BYTES_MIN,
    hash: async (pieces) => open.hash(pieces),
    close: async () => open.close(),
  };
}
