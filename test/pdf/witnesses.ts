/** What other people's tools see of documents: qpdf, mutool and exiftool, many documents at a time. */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SCRIPT = join(import.meta.dirname, 'show.mutool');
/** A tool that hangs is a fault of its own; so much time no batch needs. */
const TIMEOUT_MS = 600_000;
const OPTIONS = {
  timeout: TIMEOUT_MS,
  maxBuffer: 1 << 30,
  env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' },
};

/** The beginning of an element of XMP: a piece of one without it is none. */
const XMP = /<\?xpacket begin|<\w+:(?:RDF|xmpmeta)[\s>]|<[^<>]{0,999}(?:adobe:ns:meta\/|rdf-syntax-ns#)/;
const SECRET = /SECRET\d{10}X/g;

/** The secrets that each tool shows beside words of XMP, in the documents of these paths. */
export interface Seen {
  qpdf: Set<string>;
  mutool: Set<string>;
  exiftool: Set<string>;
}

/** `folder` takes what the tools write. */
export async function look(paths: readonly string[], folder: string): Promise<Seen> {
  if (paths.length === 0) return { qpdf: new Set(), mutool: new Set(), exiftool: new Set() };
  const list = join(folder, 'list');
  writeFileSync(list, `${paths.join('\n')}\n`);
  const [qpdf, mutool, exiftool] = await Promise.all([
    qpdfShows(list, join(folder, 'qpdf')),
    mutoolShows(paths, join(folder, 'mutool')),
    exiftoolShows(list),
  ]);
  return { qpdf, mutool, exiftool };
}

/** Every stream decoded, each object in a line or more. */
async function qpdfShows(list: string, output: string): Promise<Set<string>> {
  const qpdf = 'qpdf --no-warn --qdf --object-streams=disable {} - 2>/dev/null';
  await accepting(
    [1, 2, 3, 123],
    run('sh', ['-c', `xargs -a "$1" -I{} ${qpdf} > "$2"`, 'sh', list, output], OPTIONS),
  );
  return secretsIn(readFileSync(output));
}

async function mutoolShows(paths: readonly string[], output: string): Promise<Set<string>> {
  await run('mutool', ['run', SCRIPT, output, ...paths], OPTIONS);
  return secretsIn(readFileSync(output));
}

/** The XMP of the document and of what is embedded in it. */
async function exiftoolShows(list: string): Promise<Set<string>> {
  const args = ['-q', '-q', '-a', '-ee', '-XMP:all', '-@', list];
  const { stdout } = await accepting([1], run('exiftool', args, OPTIONS));
  return new Set(stdout.match(SECRET));
}

/** Tools end with these when a document is damaged; what they printed counts all the same. */
async function accepting<T extends { stdout: string }>(
  codes: readonly number[],
  running: Promise<T>,
): Promise<{ stdout: string }> {
  try {
    return await running;
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && 'stdout' in error)) throw error;
    if (!codes.includes(Number(error.code))) throw error;
    return { stdout: String(error.stdout) };
  }
}

/** Of lines that look like XMP, in whatever width of characters. */
function secretsIn(shown: Buffer): Set<string> {
  const text = Buffer.from(shown.filter((byte) => byte !== 0)).toString('latin1');
  const lines = text.split('\n').filter((line) => line.includes('SECRET') && XMP.test(line));
  return new Set(lines.flatMap((line) => line.match(SECRET) ?? []));
}
