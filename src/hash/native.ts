import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Engine, type Hashed, type Piece, TASKS_PER_THREAD } from './engine.ts';

/** The add-on built from `native/`, whose README says what it keeps and for how long. One per thread. */
export interface NativeAddon {
  /** Starts so many threads, which use the kernel in use now. */
  Threads: new (
    count: number,
  ) => NativeThreads;
  /** The kernels that run on this processor, slowest first. */
  kernels(): string[];
  /** The kernel in use: at first the fastest. */
  kernel(): string;
  /** Uses another kernel from now on, in this thread. */
  force(kernel: string): void;
  /** Whether the kernel in use knows its known answers. Takes less than a millisecond. */
  selfTest(): boolean;
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

/** Throws when the add-on is missing or does not know its known answers. */
export function loadSoundAddon(addon = ADDON): NativeAddon {
  const loaded = loadNativeAddon(addon);
  if (!loaded.selfTest()) throw new Error(`the native hash kernel ${loaded.kernel()} computes wrong digests`);
  return loaded;
}

/** The engine made of this processor's own instructions. It reads the chunks where they are. Throws as {@link loadSoundAddon}. */
export function openNativeEngine(threads: number): Engine {
  const { Threads } = loadSoundAddon();
  const open = new Threads(threads);
  return {
    tasksMax: threads * TASKS_PER_THREAD,
    taskBytesMax: TASK_BYTES_MAX,
    shareBytesMin: SHARE_BYTES_MIN,
    hash: async (pieces) => open.hash(pieces),
    close: async () => open.close(),
  };
}
