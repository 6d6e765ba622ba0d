/**
 * Strips documents that are made to hide XMP, and looks at every copy with other people's tools:
 * `node test/pdf/hostile.ts --documents 100000 --seed 1` (Node 24; qpdf, mupdf-tools and libimage-exiftool-perl). What is found is printed,
 * and ends it with 1.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { NotStrippable } from '../../src/pdf/notStrippable.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { applyEdits, findXmp } from '../../src/pdf/xmp.ts';
import { hostileDocument, secretOf } from './generate.ts';
import { look } from './witnesses.ts';

export interface Trial {
  documents: number;
  /** Of the first document; the next ones have the next seeds. */
  seed: number;
  /** A fault of the strip, to see that the tools would find it. */
  mutant?: Mutant;
  make?: (seed: number) => Buffer;
  onBatch?: (outcome: Outcome) => void;
}

/** Leaves the last piece of XMP in; releases what it ought to refuse. */
export type Mutant = 'leaves-one' | 'releases-refused';

export interface Outcome {
  documents: number;
  released: number;
  refused: number;
  /** Pieces of XMP removed. */
  edits: number;
  /** How many copies each tool sees XMP in. */
  seen: { qpdf: number; mutool: number; exiftool: number };
  /** Seeds of documents whose copies have XMP, with the tools that see it, and of those that the strip failed at. */
  faults: string[];
}

const BATCH = 500;
const FAULTS_MAX = 100;

export async function tryHostile(trial: Trial): Promise<Outcome> {
  const outcome: Outcome = {
    documents: 0,
    released: 0,
    refused: 0,
    edits: 0,
    seen: { qpdf: 0, mutool: 0, exiftool: 0 },
    faults: [],
  };
  for (let done = 0; done < trial.documents; done += BATCH) {
    const count = Math.min(BATCH, trial.documents - done);
    await tryBatch({ ...trial, seed: trial.seed + done, documents: count }, outcome);
    trial.onBatch?.(outcome);
  }
  return outcome;
}

async function tryBatch(
  { seed: first, documents, mutant, make = hostileDocument }: Trial,
  outcome: Outcome,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'pdfseal-hostile-'));
  try {
    mkdirSync(join(folder, 'copies'));
    const paths: string[] = [];
    for (let seed = first; seed < first + documents; seed += 1) {
      outcome.documents += 1;
      const copy = await copyOf(seed, make(seed), mutant, outcome);
      if (copy === undefined) continue;
      const path = join(folder, 'copies', `${seed}.pdf`);
      writeFileSync(path, copy);
      paths.push(path);
    }
    const seen = await look(paths, folder);
    for (let seed = first; seed < first + documents; seed += 1) {
      const tools = (['qpdf', 'mutool', 'exiftool'] as const).filter((tool) =>
        seen[tool].has(secretOf(seed)),
      );
      for (const tool of tools) outcome.seen[tool] += 1;
      if (tools.length > 0) fault(outcome, `${seed}: ${tools.join(', ')} see XMP`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The copy that is released; undefined when there is none. */
async function copyOf(
  seed: number,
  document: Buffer,
  mutant: Mutant | undefined,
  outcome: Outcome,
): Promise<Buffer | undefined> {
  try {
    const edits = await findXmp(bufferSource(document));
    const copy = Buffer.from(document);
    applyEdits(copy, 0, mutant === 'leaves-one' ? edits.slice(0, -1) : edits);
    if (mutant === undefined && edits.length > 0 && (await findXmp(bufferSource(copy))).length > 0)
      throw new NotStrippable('its copy would not be without XMP');
    outcome.released += 1;
    outcome.edits += edits.length;
    return copy;
  } catch (error) {
    outcome.refused += 1;
    if (!(error instanceof NotStrippable)) fault(outcome, `${seed}: ${error}`);
    return mutant === 'releases-refused' ? document : undefined;
  }
}

function fault({ faults }: Outcome, text: string): void {
  if (faults.length < FAULTS_MAX) faults.push(text);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      documents: { type: 'string', default: '1000' },
      seed: { type: 'string', default: '1' },
      mutant: { type: 'string' },
    },
  });
  const trial: Trial = { documents: Number(values.documents), seed: Number(values.seed) };
  if (values.mutant === 'leaves-one' || values.mutant === 'releases-refused') trial.mutant = values.mutant;
  const print = (outcome: Outcome) => console.log(JSON.stringify(outcome));
  const { faults } = await tryHostile({ ...trial, onBatch: print });
  process.exitCode = faults.length > 0 ? 1 : 0;
}
