/** Programs of other projects that read a PDF, and what each says of it: qpdf, mutool, poppler; of few documents also PDFBox and pdf.js. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What a program says of a document. */
export interface View {
  /** How much is wrong with it: a count that only has a meaning beside that of another revision of the document. */
  complaints: number;
  /** The last complaint. */
  said: string;
  /** A digest of what it shows: pictures of pages, or their number. */
  shows?: string;
  /** The names of the attached files. */
  files?: string[];
  isEncrypted?: boolean;
}

export interface Judge {
  name: string;
  /** Undefined if the program takes too long. */
  look(path: string): Promise<View | undefined>;
}

const TIMEOUT_MS = 60_000;
/** Enough to see a difference in, and quick. */
const DPI = '30';
const PAGES_MAX = '20';
const ERROR_STATUS = 1_000_000;

export const JUDGES: readonly [Judge, ...Judge[]] = [
  {
    name: 'qpdf',
    async look(path) {
      const [check, list] = await Promise.all([
        run('qpdf', ['--check', path]),
        run('qpdf', ['--list-attachments', path]),
      ]);
      if (!check || !list) return undefined;
      const warnings = linesOf(check.errors).filter((line) => line.startsWith('WARNING'));
      return {
        // 2: errors, 3: warnings.
        complaints: warnings.length + (check.status === 2 ? ERROR_STATUS : 0),
        said: linesOf(check.errors).at(-1) ?? '',
        files: namesIn(list.output, /^(.+) -> \d+,\d+$/),
        isEncrypted: !check.output.includes('File is not encrypted'),
      };
    },
  },
  {
    name: 'mutool',
    async look(path) {
      const drawn = await run('mutool', ['draw', '-q', '-s', '5', '-r', DPI, path, `1-${PAGES_MAX}`]);
      if (!drawn) return undefined;
      const lines = linesOf(drawn.errors);
      const complaints = lines.filter((line) => /^(warning|error)/.test(line));
      const pages = lines.flatMap((line) => / (\d+ [0-9a-f]{32})$/.exec(line)?.[1] ?? []);
      return { complaints: complaints.length, said: complaints.at(-1) ?? '', shows: pages.join() };
    },
  },
  {
    name: 'poppler',
    async look(path) {
      const [drawn, list] = await Promise.all([
        run('pdftoppm', ['-r', DPI, '-l', PAGES_MAX, path]),
        run('pdfdetach', ['-list', path]),
      ]);
      if (!drawn || !list) return undefined;
      const complaints = linesOf(drawn.errors);
      return {
        complaints: complaints.length + (drawn.status === 0 ? 0 : ERROR_STATUS),
        said: complaints.at(-1) ?? '',
        shows: createHash('sha256').update(drawn.output, 'latin1').digest('hex'),
        files: namesIn(list.output, /^\d+: (.+)$/),
      };
    },
  },
];

/** A program that answers each line, a path, with a line of JSON: a view. */
class Lines {
  readonly #command: [string, ...string[]];
  #child: ChildProcess | undefined;
  #answers: AsyncIterator<string> | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(...command: [string, ...string[]]) {
    this.#command = command;
  }

  ask(line: string): Promise<View | undefined> {
    const answer = this.#turn.then(() => this.#ask(line));
    this.#turn = answer;
    return answer;
  }

  end(): void {
    this.#child?.kill('SIGKILL');
    this.#child = undefined;
  }

  async #ask(line: string): Promise<View | undefined> {
    const [program, ...args] = this.#command;
    if (this.#child === undefined) {
      const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'ignore'], env: ENVIRONMENT });
      this.#child = child;
      this.#answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    }
    this.#child.stdin?.write(`${line}\n`);
    const late = setTimeout(() => this.end(), TIMEOUT_MS);
    const answer = await this.#answers?.next();
    clearTimeout(late);
    if (answer?.done !== false) this.end();
    return answer?.done === false ? JSON.parse(answer.value) : undefined;
  }
}

const ENVIRONMENT = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
const JARS = ['pdfbox2', 'fontbox2', 'commons-logging', 'bcprov', 'bcpkix', 'bcutil'].map(
  (name) => `/usr/share/java/${name}.jar`,
);
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const pdfBox = new Lines(
  'java',
  '-Xmx1g',
  '-XX:+UseSerialGC',
  '-cp',
  JARS.join(':'),
  here('PdfBoxJudge.java'),
);
const pdfJs = new Lines(process.execPath, here('pdfJsJudge.ts'));

/** They must be ended. */
export const LINES = [pdfBox, pdfJs];

/** Those that take long to begin with, or for each document. */
export const FEW: readonly Judge[] = [
  { name: 'PDFBox', look: (path) => pdfBox.ask(path) },
  { name: 'pdf.js', look: (path) => pdfJs.ask(path) },
];

/** What a program printed, one character for each byte; undefined if it took too long. */
async function run(program: string, args: string[]) {
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: ENVIRONMENT,
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  const [output, errors] = [[], []] as [Buffer[], Buffer[]];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const { promise, resolve, reject } = Promise.withResolvers<[number | null, string | null]>();
  child.on('error', reject);
  child.on('close', (status, signal) => resolve([status, signal]));
  const [status, signal] = await promise;
  if (signal === 'SIGKILL') return undefined;
  const text = (chunks: Buffer[]) => Buffer.concat(chunks).toString('latin1');
  return { status, output: text(output), errors: text(errors) };
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

function namesIn(text: string, line: RegExp): string[] {
  return text.split('\n').flatMap((one) => line.exec(one)?.[1] ?? []);
}
