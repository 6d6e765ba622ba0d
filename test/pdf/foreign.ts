/**
 * Attaches a receipt to every PDF of some folders, and compares what programs of other projects say before and after:
 * `node test/pdf/foreign.ts FOLDER...` prints a table (Node 24; the programs of foreignJudges.ts). The exit status is 1 if anything became worse, or
 * if the planner failed in another way than with NotSealable.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { planAttachment } from '../../src/pdf/update/attach.ts';
import { NotSealable } from '../../src/pdf/update/notSealable.ts';
import { suffixOf } from '../../src/pdf/update/suffix.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { FEW, JUDGES, type Judge, LINES, type View } from './foreignJudges.ts';

/** The receipt of another document: what it says does not matter to those that only list it. */
const VECTORS = readFileSync(new URL('../vectors/receipts/2026-11-22.json', import.meta.url), 'utf8');
const RECEIPT = Buffer.from(JSON.parse(VECTORS).sealed[0].receipt);
const SEALED_AT = Date.UTC(2026, 10, 28);
/** The judges that take a second for each document see one sealed PDF in so many. */
const SAMPLE = 5;

export interface Outcome {
  sealed: boolean;
  /** Why it was not sealed, without the numbers of objects. */
  refused?: string;
  /** Whether qpdf finds no fault in a document that is not encrypted. */
  clean: boolean;
  judged: string[];
  /** Programs that show the document itself in two ways, if they look twice. */
  unsteady: string[];
  faults: string[];
}

/** Seals the document into `sealedPath`, and holds it against the document. The first judge says whether the document is clean. */
export async function tryForeign(
  path: string,
  sealedPath: string,
  [first, ...others]: readonly [Judge, ...Judge[]],
): Promise<Outcome> {
  const document = readFileSync(path);
  const checked = await first.look(path);
  const clean = checked?.complaints === 0 && checked.isEncrypted === false;
  const outcome: Outcome = { sealed: false, clean, judged: [], unsteady: [], faults: [] };
  let name: string;
  try {
    const plan = await planAttachment(readerOf(bufferSource(document)));
    writeFileSync(sealedPath, Buffer.concat([document, suffixOf(plan, RECEIPT, SEALED_AT)]));
    name = plan.name;
  } catch (error) {
    return error instanceof NotSealable
      ? { ...outcome, refused: withoutNumbers(error.message) }
      : { ...outcome, faults: [`the planner failed: ${error}`] };
  }
  outcome.sealed = true;
  const compare = async (judge: Judge, before: View | undefined) => {
    const after = await judge.look(sealedPath);
    if (before === undefined || after === undefined) return;
    const isSteady = before.shows === after.shows || (await judge.look(path))?.shows === before.shows;
    if (!isSteady) outcome.unsteady.push(judge.name);
    const { shows } = isSteady ? after : before;
    outcome.judged.push(judge.name);
    outcome.faults.push(...worse(before, { ...after, shows }, name).map((what) => `${judge.name}: ${what}`));
  };
  await compare(first, checked);
  for (const judge of others) await compare(judge, await judge.look(path));
  return outcome;
}

/** What a program says of a sealed PDF that is worse than what it said of the document. */
function worse(before: View, after: View, name: string): string[] {
  const faults: string[] = [];
  if (after.complaints > before.complaints)
    faults.push(`${after.complaints} complaints after ${before.complaints}: ${after.said}`);
  if (before.shows !== after.shows) faults.push('it shows something else');
  if (before.files && after.files) {
    // A program that repairs a document in its own way may find no receipt, and what it found before.
    const wanted = before.complaints === 0 ? [...before.files, name] : before.files;
    const missing = wanted.filter((file) => !after.files?.includes(file));
    if (missing.length > 0) faults.push(`it does not find ${missing.join(', ')}`);
  }
  return faults;
}

function withoutNumbers(reason: string): string {
  return reason.replace(/\d+/g, (number, at: number) =>
    reason.slice(0, at).endsWith('PDF/A-') ? number : 'N',
  );
}

async function tryFolder(folder: string, work: string) {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.pdf$/i.test(path))
    .sort()
    .map((path) => join(folder, path));
  const outcomes: Outcome[] = [];
  let next = 0;
  const worker = async (_: unknown, number: number) => {
    for (let at = next++; at < paths.length; at = next++) {
      const path = paths[at] as string;
      const judges = at % SAMPLE === 0 ? ([...JUDGES, ...FEW] as const) : JUDGES;
      const outcome = await tryForeign(path, join(work, `${number}.pdf`), judges);
      for (const fault of outcome.faults) console.log(`${path}: ${fault}`);
      outcomes.push(outcome);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  return outcomes;
}

/** Rows of a table in Markdown: what was counted, and a number for each folder. */
function rowsOf(all: Outcome[][]): [what: string, ...counts: number[]][] {
  const count = (holds: (outcome: Outcome) => boolean) =>
    all.map((outcomes) => outcomes.filter(holds).length);
  const clean = ({ clean }: Outcome) => clean;
  const reasons = [...new Set(all.flat().flatMap(({ refused = [] }) => refused))];
  const refusals = reasons
    .map((reason): [string, ...number[]] => [
      `refused: ${reason}`,
      ...count(({ refused }) => refused === reason),
    ])
    .sort((a, b) => sum(b) - sum(a) || a[0].localeCompare(b[0]));
  const cleanRefusals = reasons.flatMap((reason): [string, ...number[]][] => {
    const row: [string, ...number[]] = [
      `clean, and refused: ${reason}`,
      ...count((outcome) => clean(outcome) && outcome.refused === reason),
    ];
    return sum(row) > 0 ? [row] : [];
  });
  return [
    ['documents', ...count(() => true)],
    ['sealed', ...count(({ sealed }) => sealed)],
    ['clean for `qpdf --check`, and not encrypted', ...count(clean)],
    ['of these, sealed', ...count((outcome) => clean(outcome) && outcome.sealed)],
    ...[...JUDGES, ...FEW].map(({ name }): [string, ...number[]] => [
      `sealed, and judged by ${name} before and after`,
      ...count(({ judged }) => judged.includes(name)),
    ]),
    ['shown in another way each time, also the document', ...count(({ unsteady }) => unsteady.length > 0)],
    ['worse than before', ...count(({ faults }) => faults.length > 0)],
    ...refusals,
    ...cleanRefusals.sort((a, b) => sum(b) - sum(a)),
  ];
}

const sum = ([, ...counts]: [string, ...number[]]) => counts.reduce((total, one) => total + one, 0);

if (import.meta.main) {
  const folders = process.argv.slice(2);
  if (folders.length === 0) {
    console.error('usage: node test/pdf/foreign.ts FOLDER...');
    process.exit(64);
  }
  const work = mkdtempSync(join(tmpdir(), 'pdfseal-foreign-'));
  const all: Outcome[][] = [];
  for (const folder of folders) all.push(await tryFolder(folder, work));
  for (const lines of LINES) lines.end();
  rmSync(work, { recursive: true });
  console.log(
    `| | ${folders.map((folder) => basename(folder)).join(' | ')} |\n| --- |${' ---: |'.repeat(folders.length)}`,
  );
  for (const [what, ...counts] of rowsOf(all)) console.log(`| ${what} | ${counts.join(' | ')} |`);
  const outcomes = all.flat();
  const sealed = outcomes.filter((outcome) => outcome.sealed).length;
  const faulty = outcomes.filter(({ faults }) => faults.length > 0).length;
  console.log(`${outcomes.length} documents, ${sealed} sealed, ${faulty} worse than before`);
  if (faulty > 0) process.exitCode = 1;
}
