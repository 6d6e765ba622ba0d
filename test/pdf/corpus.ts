/** Proves of documents that they can be stripped: `node test/pdf/corpus.ts FILE...` prints a line for each. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NotStrippable } from '../../src/pdf/notStrippable.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { applyEdits, findXmp } from '../../src/pdf/xmp.ts';

export interface Proof {
  edits: number;
  /** Why it cannot be stripped; then nothing else is known. */
  refused?: string;
  /** What other tools find that they must not. */
  faults: string[];
}

/** Enough to see a difference in, and quick. */
const PAGES = ['-r', '30', '-l', '8'];

/** Strips a document into `copyPath`, and holds the copy against it. With `make`, the copy is made by
 * that instead, of one character for each byte. */
export async function prove(
  path: string,
  copyPath: string,
  make?: (document: string) => string,
): Promise<Proof> {
  const document = readFileSync(path);
  try {
    const edits = await findXmp(bufferSource(document));
    const copy = Buffer.from(document);
    applyEdits(copy, 0, edits);
    writeFileSync(
      copyPath,
      make === undefined ? copy : Buffer.from(make(document.toString('latin1')), 'latin1'),
    );
    return { edits: edits.length, faults: faultsOf(path, copyPath) };
  } catch (error) {
    if (!(error instanceof NotStrippable)) throw error;
    return { edits: 0, refused: error.message, faults: [] };
  }
}

function faultsOf(path: string, copyPath: string): string[] {
  const faults: string[] = [];
  if (checkOf(path) !== checkOf(copyPath)) faults.push('qpdf --check says something else');
  const [pages, copied] = [pagesOf(path), pagesOf(copyPath)];
  for (let page = 0; page < Math.max(pages.length, copied.length); page += 1) {
    if (pages[page] !== copied[page]) faults.push(`page ${page + 1} looks different`);
  }
  // Without its warnings, which are about the document.
  if (run('exiftool', ['-q', '-q', '-a', '-ee', '-XMP:all', copyPath]).output !== '')
    faults.push('exiftool finds XMP');
  if (/^Metadata Stream: *yes/m.test(run('pdfinfo', [copyPath]).output)) {
    faults.push('pdfinfo finds a metadata stream');
  }
  const shown = run('qpdf', ['--qdf', '--object-streams=disable', copyPath, '-']).output;
  if (/<\?xpacket begin=[^>]*\?>\s*</.test(shown)) faults.push('qpdf shows a packet');
  return faults;
}

function checkOf(path: string): string {
  const { status, output } = run('qpdf', ['--check', path]);
  return `${status} ${output.replaceAll(path, '')}`;
}

/** A digest of each page as it looks. */
function pagesOf(path: string): string[] {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-pages-'));
  try {
    run('pdftoppm', [...PAGES, path, join(dir, 'page')]);
    return readdirSync(dir)
      .sort()
      .map((name) =>
        createHash('sha256')
          .update(readFileSync(join(dir, name)))
          .digest('hex'),
      );
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** Runs a program; `output` is what it printed, errors too, one character for each byte. */
export function run(program: string, args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    encoding: 'latin1',
    timeout: 60_000,
    maxBuffer: 1 << 30,
    env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' },
  });
  if (error) throw error;
  return { status, output: stdout + stderr };
}

if (import.meta.main) {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-corpus-'));
  for (const path of process.argv.slice(2)) {
    const { edits, refused, faults } = await prove(path, join(dir, 'copy.pdf'));
    console.log(
      `${path}: ${refused === undefined ? `${edits} removed` : `refused, ${refused}`}${faults.map((fault) => `; ${fault}`).join('')}`,
    );
  }
  rmSync(dir, { recursive: true });
}
