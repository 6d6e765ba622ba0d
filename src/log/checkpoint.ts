import { assert } from '../base/assert.ts';
import { fromBase64, toBase64 } from '../base/bytes.ts';
import { HASH_BYTES } from './tiles.ts';

/** A log's statement about itself at one size (C2SP tlog-checkpoint, "Note text"). */
export interface Checkpoint {
  /** Name of the log: the first line. */
  origin: string;
  /** Number of leaves. */
  treeSize: number;
  /** Root hash at that size, 32 bytes. */
  root: Uint8Array;
}

/** The note text to sign: origin, tree size and root hash, one line each. */
export function encodeCheckpoint({ origin, treeSize, root }: Checkpoint): string {
  const text = `${origin}\n${treeSize}\n${toBase64(root)}\n`;
  assert(parseCheckpoint(text) !== undefined, `no checkpoint of "${origin}" at ${treeSize} can be written`);
  return text;
}

/** Parses the text of a checkpoint. Ignores extension lines. Undefined if malformed. Any input is safe. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const [origin, size, rootBase64, ...rest] = text.split('\n');
  if (!origin || size === undefined || rootBase64 === undefined) return undefined;
  // The final newline gives one empty string. Any other empty string is an empty line.
  if (rest.pop() !== '' || rest.includes('')) return undefined;
  const treeSize = parseCount(size);
  const root = fromBase64(rootBase64);
  if (treeSize === undefined || root?.length !== HASH_BYTES) return undefined;
  return { origin, treeSize, root };
}

/** A number of leaves, or the index of one, in decimal without leading zeros. */
export function parseCount(text: string): number | undefined {
  const count = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(count) ? count : undefined;
}
