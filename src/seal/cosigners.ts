import type { ReadTile } from '../log/tiles.ts';

/** The witnesses of the log, if their quorum must have cosigned each batch. */
export interface Cosigners {
  /** Whether they can accept the signatures of that note. */
  accept(checkpoint: string): boolean;
  /**
   * Resolves to true once their quorum has cosigned the checkpoint, or to false if `signal` aborts first. `readTile` returns the tiles of
   * its tree. Never rejects.
   */
  cosign(checkpoint: string, readTile: ReadTile, signal: AbortSignal): Promise<boolean>;
  /** The batch that they cosigned last is now part of the log. */
  released(): void;
  /** Whether the quorum could be asked when it was last needed. */
  canCosign(): boolean;
  /** Resolves as soon as {@link canCosign}, or when the signal aborts. Never rejects. */
  recovered(signal: AbortSignal): Promise<void>;
}
