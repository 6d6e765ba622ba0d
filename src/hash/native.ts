import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Calibration, calibrate, type Kernels } from './calibrate.ts';
import { type Engine, type Hashed, type Piece, TASKS_PER_THREAD } from './engine.ts';

/** The add-on built from `native/`. Its README describes what it stores and for how long. One instance per thread. */
export interface NativeAddon extends Kernels {
  /** Starts the threads. They use these kernels, one for each width (see `calibrate.ts`). */
  Threads: new (
    count: number,
    kernels: readonly string[],
  ) => NativeThreads;
}

export interface NativeThreads {
  /** {@link Engine.hash} in any of the threads. Throws a TypeError for a state of another engine or version. */
  hash(pieces: readonly Piece[]): Promise<Hashed[]>;
  /** Waits for the tasks in progress, which are still answered. Later tasks are rejected. */
  close(): void;
}

/** The path where node-gyp puts the add-on. It is the same from `src/` and from `dist/`, in a checkout and in the package. */
export const ADDON = new URL('../../native/build/Release/pdfseal_hash.node', import.meta.url);

/** As much as Node.js reads from a socket at once, so that no chunk is split. */
const SHARE_BYTES_MIN = 64 * 1024;
/** For all 16 lanes; less than a millisecond of work. */
const TASK_BYTES_MAX = 16 * SHARE_BYTES_MIN;

/** Throws if the add-on was not built or does not load. */
export function loadNativeAddon(addon = ADDON): NativeAddon {
  return createRequire(import.meta.url)(fileURLToPath(addon)) as NativeAddon;
}

/** Throws if the add-on is missing, or if no kernel gives correct answers. */
export function calibrateAddon(addon = ADDON): Calibration {
  return calibrate(loadNativeAddon(addon));
}

/** The native engine. For each number of streams it uses the kernel that calibration chose. It reads the chunks without a copy. */
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
