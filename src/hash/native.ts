import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import type { Engine, Hashed, Piece } from './engine.ts';

/** The add-on built from `native/`, whose README says what it keeps and for how long. One per thread. */
export interface NativeAddon {
  /** {@link Engine.hash}; a TypeError for a state of another engine or version. */
  hash(pieces: readonly Piece[]): Hashed[];
  /** The kernels that run on this processor, slowest first. */
  kernels(): string[];
  /** The kernel in use: at first the fastest. */
  kernel(): string;
  /** Uses another kernel from now on, in this thread. */
  force(kernel: string): void;
  /** Whether the kernel in use knows its known answers. Takes less than a millisecond. */
  selfTest(): boolean;
}

/** Where node-gyp puts it: as far from `src/` as from `dist/`, in a checkout as in the package. */
export const ADDON = new URL('../../native/build/Release/pdfseal_hash.node', import.meta.url);

/** Throws when the add-on was not built or does not load. */
export function loadNativeAddon(addon = ADDON): NativeAddon {
  return createRequire(import.meta.url)(fileURLToPath(addon)) as NativeAddon;
}

/** The engine made of this processor's own instructions. Throws when it is missing or does not know its known answers. */
export function openNativeEngine(addon = ADDON): Engine {
  const { hash, kernel, selfTest } = loadNativeAddon(addon);
  if (!selfTest()) throw new Error(`the native hash kernel ${kernel()} computes wrong digests`);
  return { hash };
}
