import { assert } from '../base/assert.ts';
import { toBase64 } from '../base/bytes.ts';
import { parseCount } from './checkpoint.ts';
import { NOTE_LENGTH_MAX, type NoteSignature, parseNote, parseSignatureLines } from './note.ts';
import { parseProof } from './proof.ts';

/** A log's request to a witness: cosign a checkpoint (C2SP tlog-witness, "add-checkpoint"). */
export interface AddCheckpoint {
  /** Size of the newest tree that the witness has cosigned, as far as the log knows; 0 if it has not cosigned any. */
  oldSize: number;
  /** Consistency proof from that tree; empty if that size is 0, or the tree is the same. */
  proof: Uint8Array[];
  /** The signed note. */
  checkpoint: string;
}

/** The answer of a witness. */
export type WitnessAnswer =
  /** Not verified yet. */
  | { kind: 'cosigned'; lines: NoteSignature[] }
  /** The witness has cosigned a tree of that size: the proof must begin there. */
  | { kind: 'other_size'; size: number }
  /** The witness has cosigned a tree that contradicts the log: `POST` answered 422, or 409 without a size. */
  | { kind: 'contradiction' }
  /** The witness does not know the log, or none of the keys that signed. */
  | { kind: 'unknown_log' }
  | { kind: 'too_often' }
  /** Anything else: a fault of the witness, or of the request. */
  | { kind: 'fault'; message: string };

/** Media type of the answer that contains the size known to the witness. */
const SIZE_TYPE = 'text/x.tlog.size';

/** The body of `POST <prefix>/add-checkpoint`. */
export function encodeAddCheckpoint({ oldSize, proof, checkpoint }: AddCheckpoint): string {
  const body = `old ${oldSize}\n${proof.map((hash) => `${toBase64(hash)}\n`).join('')}\n${checkpoint}`;
  assert(parseAddCheckpoint(body) !== undefined, `no witness can be asked from ${oldSize} leaves`);
  return body;
}

/** Parses a body. Verifies only that the checkpoint is a well-formed note. Undefined if malformed. Any input is safe. */
export function parseAddCheckpoint(body: string): AddCheckpoint | undefined {
  const border = body.indexOf('\n\n');
  // `old` and the longest proof take less than 4 KiB.
  if (border < 0 || border > 4096 || body.length > NOTE_LENGTH_MAX + 4096) return undefined;
  const [first = '', ...hashes] = body.slice(0, border).split('\n');
  const oldSize = first.startsWith('old ') ? parseCount(first.slice(4)) : undefined;
  const proof = parseProof(hashes);
  if (oldSize === undefined || proof === undefined) return undefined;
  const checkpoint = body.slice(border + 2);
  return parseNote(checkpoint) && { oldSize, proof, checkpoint };
}

/** Parses an answer. `contentType`: the header, empty if there is none. Any input is safe. */
export function parseWitnessAnswer(status: number, contentType: string, body: string): WitnessAnswer {
  switch (status) {
    case 200: {
      const lines = parseSignatureLines(body);
      return lines
        ? { kind: 'cosigned', lines }
        : { kind: 'fault', message: 'answered without signature lines' };
    }
    case 403:
    case 404:
      return { kind: 'unknown_log' };
    case 409: {
      const isSize = contentType.split(';', 1).join('').trim().toLowerCase() === SIZE_TYPE;
      const size = isSize && body.endsWith('\n') ? parseCount(body.slice(0, -1)) : undefined;
      return size === undefined ? { kind: 'contradiction' } : { kind: 'other_size', size };
    }
    case 422:
      return { kind: 'contradiction' };
    case 429:
      return { kind: 'too_often' };
    default:
      return { kind: 'fault', message: `answered with status ${status}` };
  }
}
