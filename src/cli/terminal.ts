import { styleText } from 'node:util';
import { Presets, SingleBar } from 'cli-progress';
import { escapeControls } from '../base/controls.ts';
import { ownProcess } from '../base/env.ts';
import { formatBytes } from '../base/units.ts';

/** With --json each note on standard error is a JSON object. */
export function isJson(): boolean {
  return ownProcess().argv.includes('--json');
}

/** Prints one line of results on standard output. Control characters are written as \uXXXX, which JSON reads back. */
export function print(line: string): void {
  clearBar();
  ownProcess().stdout.write(`${escapeControls(line)}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** Prints a result: for programs with --json, otherwise as a line, or with `people`. */
export function printResult(value: unknown, people: string | (() => void)): void {
  if (isJson()) printJson(value);
  else if (typeof people === 'string') print(people);
  else people();
}

/** Prints one line on standard error: progress and problems. */
export function note(line: string): void {
  clearBar();
  if (isJson()) noteJson({ note: line });
  else ownProcess().stderr.write(`${escapeControls(line)}\n`);
}

/** Prints one object on standard error, for --json. */
export function noteJson(value: unknown): void {
  ownProcess().stderr.write(`${escapeControls(JSON.stringify(value))}\n`);
}

/** `plain` is neither good nor bad. */
export type Mark = 'good' | 'warning' | 'bad' | 'plain';

const GLYPHS: Record<Mark, string> = { good: '✓', warning: '!', bad: '✗', plain: ' ' };
const COLOURS = { good: 'green', warning: 'yellow', bad: 'red', plain: 'reset' } as const;

/** A line that begins with a mark; in colour on a terminal, unless NO_COLOR is in the environment. */
export function marked(mark: Mark, text: string): string {
  const glyph =
    mark === 'plain' ? ' ' : styleText(COLOURS[mark], GLYPHS[mark], { stream: ownProcess().stdout });
  return `${glyph} ${escapeControls(text)}`;
}

/** Prints rows below their headings, each column as wide as its widest cell; only the headings if there are no rows. */
export function printTable(headings: string[], rows: string[][]): void {
  const table = [headings, ...rows];
  const widths = headings.map((_, column) => Math.max(...table.map((row) => (row[column] ?? '').length)));
  for (const row of table)
    print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
}

/** Prints a list: a line of JSON for each row, or a table with columns computed from each row. */
export function printRows<Row>(
  rows: readonly Row[],
  columns: Readonly<Record<string, (row: Row) => string>>,
): void {
  if (isJson()) for (const row of rows) printJson(row);
  else {
    const cells = rows.map((row) => Object.values(columns).map((cell) => cell(row)));
    printTable(Object.keys(columns), cells);
  }
}

/** Prints the members of an object, one line each; members of inner objects as `document.sha256`. Undefined members are left out. */
export function printFields(fields: object): void {
  const rows = rowsOf(fields);
  const width = Math.max(...rows.map(([name]) => name.length));
  for (const [name, value] of rows) print(`${name.padEnd(width)}  ${value}`);
}

function rowsOf(fields: object, prefix = ''): [name: string, value: string][] {
  return Object.entries(fields).flatMap(([key, value]): [string, string][] => {
    if (value === undefined) return [];
    const name = `${prefix}${key}`;
    if (Array.isArray(value)) return [[name, value.join(', ')]];
    return typeof value === 'object' && value !== null ? rowsOf(value, `${name}.`) : [[name, String(value)]];
  });
}

export interface Progress extends Disposable {
  /** Done so far, in the unit of `total`. */
  update(done: number): void;
  /** Changes the label in front of the bar when the next part of the work begins. */
  rename(label: string): void;
  stop(): void;
}

export interface CountProgress {
  /** Number of documents that are done, and how many of these were skipped. */
  update(done: number, skipped: number): void;
  stop(): void;
}

export const SILENT: Progress = {
  update: () => {},
  rename: () => {},
  stop: () => {},
  [Symbol.dispose]: () => {},
};

/** Shows how many of `total` documents are done, the rate, and the time left: a bar on a terminal, else a line every few seconds. */
export function showCount(total: number): CountProgress {
  const startedAt = performance.now();
  let skipped = 0;
  // Skipped documents take no time, so they do not count towards the rate.
  const pace = (done: number): string => {
    const perSecond = ((done - skipped) * 1000) / (performance.now() - startedAt);
    const rate = perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond).toLocaleString('en');
    return done === skipped ? '' : `, ${rate}/s, ${formatTime((total - done) / perSecond)} left`;
  };
  const isTerminal = ownProcess().stderr.isTTY;
  const bar = isTerminal ? showBar('documents', total, (value) => value.toLocaleString('en'), pace) : SILENT;
  let told = startedAt;
  const update = (done: number, skippedSoFar: number): void => {
    skipped = skippedSoFar;
    bar.update(done);
    if (isTerminal || performance.now() - told < COUNT_LINE_MS) return;
    told = performance.now();
    note(`${done.toLocaleString('en')} of ${total.toLocaleString('en')} documents${pace(done)}`);
  };
  return { update, stop: bar.stop };
}

const COUNT_LINE_MS = 5_000;

/** Hours, minutes and seconds: `1:02:03`, `2:03`. */
function formatTime(seconds: number): string {
  const whole = Math.round(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const [first, ...others] = parts[0] === 0 ? parts.slice(1) : parts;
  return [String(first), ...others.map((part) => String(part).padStart(2, '0'))].join(':');
}

/** A progress bar on standard error if that is a terminal; otherwise nothing is shown. */
export function showProgress(label: string, total: number, unit: 'bytes' | 'leaves' | 'entries'): Progress {
  if (isJson() || !ownProcess().stderr.isTTY) return SILENT;
  const amount = (value: number): string =>
    unit === 'bytes' ? formatBytes(value) : value.toLocaleString('en');
  return showBar(label, total, amount, () => '');
}

/** `pace`: text for the end of the line. */
function showBar(
  label: string,
  total: number,
  amount: (value: number) => string,
  pace: (done: number) => string,
): Progress {
  let shown = label;
  const bar = new SingleBar(
    {
      format: (options, { progress, value, total }) => {
        const filled = Math.round(progress * BAR_CELLS);
        const cells = (options.barCompleteString ?? '').slice(0, filled).padEnd(BAR_CELLS);
        return `${escapeControls(shown).slice(0, LABEL_CHARACTERS_MAX)} [${cells}] ${amount(value)} of ${amount(total)}${pace(value)}`;
      },
      stream: ownProcess().stderr,
      clearOnComplete: true,
      // After an interrupt, a hidden cursor would stay hidden.
      hideCursor: false,
      linewrap: true,
      // It has been cleared if a line was printed since.
      forceRedraw: true,
      // Its listener would swallow the first Ctrl-C.
      gracefulExit: false,
    },
    Presets.legacy,
  );
  bar.start(total, 0);
  active = bar;
  const update = (done: number): void => {
    if (bar.isActive) bar.update(done);
  };
  const rename = (next: string): void => {
    shown = next;
  };
  const stop = () => bar.stop();
  return { update, rename, stop, [Symbol.dispose]: stop };
}

/** The bar at the end of the terminal, if there is one. */
let active: SingleBar | undefined;

/** Makes room for a line; the bar is drawn again below it. */
function clearBar(): void {
  if (active?.isActive) ownProcess().stderr.write('\r\u001b[K');
}

/** Says what was done if a person or the system ends the command, which then ends by that signal. Dispose of it when the work is done. */
export function onInterrupt(said: () => string): Disposable {
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const interrupt = (signal: NodeJS.Signals) => {
    active?.stop();
    note(`interrupted: ${said()}`);
    stop();
    process.kill(process.pid, signal);
  };
  const stop = () => {
    for (const signal of signals) process.off(signal, interrupt);
  };
  for (const signal of signals) process.on(signal, interrupt);
  return { [Symbol.dispose]: stop };
}

const BAR_CELLS = 30;
/** Keeps the bar on one line of 80 characters. */
const LABEL_CHARACTERS_MAX = 20;
