/** Checkpoints that a monitor refused, each in a file next to its state file: they are evidence. */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { unusable, writeFileAtomically } from '../../base/atomicFile.ts';
import { toHex } from '../../base/bytes.ts';
import { OperatorError } from '../../base/errors.ts';
import { NOTE_LENGTH_MAX } from '../../log/note.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { type EpochCheckpoint, readEarlier } from '../../prove/trail/history.ts';
import { readTextFile } from '../files.ts';

/** A checkpoint as the log showed it, signed by enough of its keys. So only the log itself can fill the folder. */
export interface Shown extends EpochCheckpoint {
  note: string;
}

type Kind = 'contradiction' | 'unproven';

/** Maximum number of files of each kind: a hostile log must not fill the disk. */
const KEPT_MAX = 16;
/** A character of a note has at most 3 bytes in UTF-8. */
const NOTE_BYTES_MAX = 3 * NOTE_LENGTH_MAX;

/** Keeps the checkpoints that contradict the one in `other`, and reports where. Without `other`, they contradict each other. */
export function keepContradiction(state: string, other: string | undefined, shown: readonly Shown[]): string {
  const { files, fault } = keep(state, 'contradiction', shown);
  const evidence = [...(other === undefined ? [] : [other]), ...files];
  return `Keep ${evidence.length === 2 ? 'both checkpoints' : 'as evidence'}: ${evidence.join(' and ')}${fault}`;
}

/** Keeps checkpoints that the log has not proved, for the next run, and reports where. */
export function keepUnproven(state: string, shown: readonly Shown[]): string {
  const { files, fault } = keep(state, 'unproven', shown);
  return files.length === 0
    ? `The checkpoint is not kept${fault}`
    : `The next run compares ${files.join(' and ')} with the log${fault}`;
}

/** The checkpoints that the log showed and has not proved since. Throws OperatorError if one cannot be read. */
export function readUnproven(state: string, trust: TrustFile): (EpochCheckpoint & { file: string })[] {
  return keptFiles(state, 'unproven').map((file) => ({
    ...readEarlier({ text: readTextFile(file, NOTE_BYTES_MAX), from: file }, trust),
    file,
  }));
}

/** Removes them, only after the log proved that it contains them: then the state file covers them. */
export function removeUnproven(state: string): void {
  for (const file of keptFiles(state, 'unproven')) rmSync(file, { force: true });
}

/** A contradiction must be reported even if it cannot be written, so this does not throw OperatorError. `fault` ends a sentence. */
function keep(state: string, kind: Kind, shown: readonly Shown[]): { files: string[]; fault: string } {
  const files: string[] = [];
  try {
    for (const { treeSize, root, note } of shown) {
      const file = `${state}.${kind}-${treeSize}-${toHex(root)}`;
      const isKept = existsSync(file);
      if (!isKept && keptFiles(state, kind).length >= KEPT_MAX)
        return { files, fault: `; ${KEPT_MAX} files ${state}.${kind}-* are kept already` };
      if (!isKept) writeFileAtomically(file, note);
      files.push(file);
    }
    return { files, fault: '' };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { files, fault: `; ${error.message}` };
  }
}

function keptFiles(state: string, kind: Kind): string[] {
  const prefix = `${basename(state)}.${kind}-`;
  try {
    return readdirSync(dirname(state))
      .filter((name) => name.startsWith(prefix) && /^\d+-[0-9a-f]{64}$/.test(name.slice(prefix.length)))
      .map((name) => join(dirname(state), name))
      .sort();
  } catch (cause) {
    throw unusable('read', dirname(state), cause);
  }
}
