/** Runs test files with tap, and shows how far that is. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Parser, type Result } from 'tap-parser';
import { programFile } from '../support/programs.ts';
import { expectedSeconds } from './suiteCosts.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const FOLDER = join(ROOT, 'node_modules/.cache/suite');
const TICK_MS = 1_000;
/** Without a terminal, a line of progress each so often. */
const LINE_EVERY_MS = 20_000;
/** What is shown of one failure. */
const LINES_MAX = 40;
const LINE_CHARS_MAX = 300;

export interface RunOptions {
  /** The share of its random inputs that each property tries, at most 1. */
  share: number;
  /** Files under way at a time; default: as `.taprc` says. */
  jobs?: number;
  seed?: string;
}

export interface Totals {
  passed: number;
  failed: number;
  /** Each file that failed, and the seed of its random inputs if it had any. */
  failures: Map<string, string | undefined>;
  /** Processor seconds of each file, with the processes that it started and saw end. */
  costs: Map<string, number>;
}

/** Runs the files, and prints each failure with the command that repeats it. */
export async function runFiles(files: string[], { share, jobs, seed }: RunOptions): Promise<Totals> {
  mkdirSync(FOLDER, { recursive: true });
  // Two runs may be under way.
  const events = join(FOLDER, `events-${process.pid}`);
  rmSync(events, { force: true });
  const options = ['--reporter=tap', ...(jobs === undefined ? [] : [`--jobs=${jobs}`])];
  const tap = spawn(process.execPath, [join(ROOT, 'node_modules/.bin/tap'), ...options, ...files], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      // Programs whose first line asks for node get this one.
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/compiled'),
      PDFSEALD_EVENTS: events,
      PDFSEALD_PROGRAMS: dirname(await programFile('main', 'src')),
      PDFSEALD_SHARE: String(share),
      ...(seed !== undefined && { PDFSEALD_SEED: seed }),
    },
  });
  // Nothing goes on without whoever reads its results.
  const stop = () => tap.kill('SIGTERM');
  process.once('exit', stop);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));
  const progress = new Progress(files, events);
  const seeds = new Map<string, string>();
  createInterface({ input: tap.stderr }).on('line', (line) => {
    const [, drawn, file] = /^# PDFSEALD_SEED=(\d+) (\S+)$/.exec(line) ?? [];
    if (drawn !== undefined && file !== undefined) seeds.set(file, drawn);
    else if (!/^# .* failed; again, with the same choices/.test(line)) progress.say(line);
  });
  const found: Found = { passed: 0, broken: [] };
  const parser = new Parser();
  collect(parser, [], found);
  tap.stdout.pipe(createWriteStream(join(FOLDER, 'last.tap')));
  tap.stdout.pipe(parser);
  await once(parser, 'complete');
  progress.end();
  process.off('exit', stop);
  rmSync(events, { force: true });
  const { passed, broken } = found;
  for (const one of broken) console.log(describe(one, seeds));
  // A runner that ends early names no assertion.
  const failed = Math.max(broken.length, parser.ok ? 0 : 1);
  if (failed > 0) console.log(`\nEverything that the tests wrote: ${join(FOLDER, 'last.tap')}`);
  console.log(
    `\n${files.length} files in ${minutes(progress.elapsedMs)}, ${progress.cpuSeconds()} s of processor`,
  );
  const failures = new Map(broken.map(({ path: [file = ''] }) => [file, seeds.get(file)]));
  return { passed, failed, failures, costs: progress.costs };
}

interface Found {
  /** Assertions. */
  passed: number;
  broken: Broken[];
}

/** An assertion that failed: file, titles, and its own name. */
interface Broken {
  path: string[];
  result: Result;
}

/** Counts the assertions in the tests below `parser`, and keeps those that fail. */
function collect(parser: Parser, path: string[], found: Found): void {
  // The result of a test stands behind its assertions, and repeats them.
  let inner: { brokenBefore: number } | undefined;
  parser.on('child', (child: Parser) => {
    inner = { brokenBefore: found.broken.length };
    collect(child, [...path, child.name], found);
  });
  parser.on('assert', (result: Result) => {
    const isKnown = inner !== undefined && (result.ok || found.broken.length > inner.brokenBefore);
    inner = undefined;
    if (isKnown) return;
    if (result.ok || result.todo || result.skip) found.passed += 1;
    else found.broken.push({ path: [...path, result.name], result });
  });
}

function describe({ path: [file = '', ...titles], result }: Broken, seeds: Map<string, string>): string {
  const { at, diff, source, ...others } = (result.diag ?? {}) as Record<string, unknown>;
  const { fileName = file, lineNumber } = (at ?? {}) as { fileName?: string; lineNumber?: number };
  const { exitCode, signal } = others;
  const ending = exitCode === undefined ? undefined : `ended with ${signal ?? `status ${exitCode}`}`;
  const told = diff ?? ending ?? source ?? JSON.stringify(others, undefined, 2);
  const seed = seeds.get(file);
  const lines = String(told).trimEnd().split('\n');
  return [
    `\n✗ ${[file, ...titles].join(' › ')}`,
    `  at ${fileName}${lineNumber === undefined ? '' : `:${lineNumber}`}`,
    ...lines.slice(0, LINES_MAX).map((line) => `    ${line.slice(0, LINE_CHARS_MAX)}`),
    ...(lines.length > LINES_MAX ? [`    … and ${lines.length - LINES_MAX} more lines`] : []),
    `  again: ${seed === undefined ? '' : `PDFSEALD_SEED=${seed} `}npm test -- ${file}`,
  ].join('\n');
}

/** One line that says how far the run is: rewritten on a terminal, else written every few seconds. */
class Progress {
  readonly costs = new Map<string, number>();
  readonly #files: string[];
  readonly #events: string;
  readonly #running = new Map<string, number>();
  readonly #begunAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  #read = 0;
  #lineAt = performance.now();

  constructor(files: string[], events: string) {
    this.#files = files;
    this.#events = events;
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  get elapsedMs(): number {
    return performance.now() - this.#begunAt;
  }

  cpuSeconds(): number {
    return Math.round([...this.costs.values()].reduce((sum, seconds) => sum + seconds, 0));
  }

  /** A line of its own, which the line of progress does not overwrite. */
  say(line: string): void {
    process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}\n` : `${line}\n`);
  }

  end(): void {
    clearInterval(this.#timer);
    this.#readEvents();
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }

  #tick(): void {
    this.#readEvents();
    if (process.stderr.isTTY)
      process.stderr.write(`\r\x1b[K${this.#line().slice(0, process.stderr.columns)}`);
    else if (performance.now() - this.#lineAt >= LINE_EVERY_MS) {
      this.#lineAt = performance.now();
      console.error(this.#line());
    }
  }

  /** Each file appends a line when it begins and one when it ends (`leanTap.ts`). */
  #readEvents(): void {
    let text: string;
    try {
      text = readFileSync(this.#events, 'utf8').slice(this.#read);
    } catch {
      return; // No file has begun.
    }
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    this.#read += whole.length;
    for (const line of whole.split('\n').filter(Boolean)) {
      const { file, cpuMs } = JSON.parse(line) as { file: string; cpuMs?: number };
      if (cpuMs === undefined) this.#running.set(file, performance.now());
      else {
        this.#running.delete(file);
        this.costs.set(file, cpuMs / 1000);
      }
    }
  }

  #line(): string {
    const [slowest] = this.#running;
    const doing =
      slowest === undefined ? '' : ` · slowest: ${slowest[0]}, ${minutes(performance.now() - slowest[1])}`;
    return `${this.costs.size} of ${this.#files.length} files in ${minutes(this.elapsedMs)}${this.#left()}${doing}`;
  }

  /** By what the files cost when they were last recorded, at the pace of this run. */
  #left(): string {
    const expected = (files: Iterable<string>) =>
      [...files].reduce((sum, file) => sum + expectedSeconds(file), 0);
    const done = expected(this.costs.keys());
    const all = expected(this.#files);
    if (done < all / 20) return '';
    return `, about ${minutes((this.elapsedMs * (all - done)) / done)} left`;
  }
}

/** `1:05` */
function minutes(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
