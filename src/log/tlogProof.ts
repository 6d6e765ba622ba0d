import { assert } from '../base/assert.ts';
import { fromBase64, toBase64 } from '../base/bytes.ts';
import { parseCount } from './checkpoint.ts';
import { NOTE_LENGTH_MAX } from './note.ts';
import { parseProof } from './proof.ts';

/** The proof that an entry is in a log, as a single file (C2SP tlog-proof). */
export interface TlogProof {
  /** Additional information about the entry. It is not covered by any signature. */
  extra?: Uint8Array;
  /** The index of the leaf. */
  index: number;
  /** 32 bytes each, from the leaf's sibling upward (RFC 6962, section 2.1.1). */
  proof: readonly Uint8Array[];
  /** The signed checkpoint (C2SP tlog-checkpoint). */
  checkpoint: string;
}

const FIRST_LINE = 'c2sp.org/tlog-proof@v1';

/** Length of the longest proof that is read, in UTF-16 code units: twice the longest note, for a manifest has a kilobyte or two. */
export const TLOG_PROOF_LENGTH_MAX = 2 * NOTE_LENGTH_MAX;

/** The text of a proof (C2SP tlog-proof, "Format"). */
export function encodeTlogProof({ extra, index, proof, checkpoint }: TlogProof): string {
  const head = [
    FIRST_LINE,
    ...(extra === undefined ? [] : [`extra ${toBase64(extra)}`]),
    `index ${index}`,
    ...proof.map(toBase64),
  ];
  const text = `${head.join('\n')}\n\n${checkpoint}`;
  assert(parseTlogProof(text) !== undefined, `no proof of leaf ${index} can be written`);
  return text;
}

/** Whether a text claims to be a proof, of this version or another. */
export function isTlogProof(text: string): boolean {
  return text.startsWith('c2sp.org/tlog-proof@');
}

/** Parses a proof without verification; undefined if it is malformed. Any input is safe. */
export function parseTlogProof(text: string): TlogProof | undefined {
  if (text.length > TLOG_PROOF_LENGTH_MAX) return undefined;
  const border = text.indexOf('\n\n');
  if (border < 0) return undefined;
  const lines = text.slice(0, border).split('\n');
  if (lines.shift() !== FIRST_LINE) return undefined;
  const extraBase64 = lines[0]?.startsWith('extra ') ? lines.shift()?.slice('extra '.length) : undefined;
  const extra = extraBase64 === undefined ? undefined : fromBase64(extraBase64);
  if (extraBase64 !== undefined && extra === undefined) return undefined;
  const indexLine = lines.shift() ?? '';
  const index = indexLine.startsWith('index ') ? parseCount(indexLine.slice('index '.length)) : undefined;
  const proof = parseProof(lines);
  if (index === undefined || proof === undefined) return undefined;
  return { ...(extra && { extra }), index, proof, checkpoint: text.slice(border + 2) };
}
