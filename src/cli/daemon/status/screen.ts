import type { Room } from './render.ts';

// ECMA-48 and what xterm added to it; terminals leave alone what they do not know.
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[H\u001b[J';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const END_OF_LINE = '\u001b[K';
const END_OF_SCREEN = '\u001b[J';
/** Between these the terminal shows nothing half drawn. */
const [BEGIN_FRAME, END_FRAME] = ['\u001b[?2026h', '\u001b[?2026l'];

const INTERRUPT = '\u0003';
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * The whole terminal, drawn over again and again without a flicker, and given back as it was, however this ends. `draw` says what
 * there is to show in a given room; q, Ctrl-C and signals abort `closed`.
 */
export class Screen {
  readonly closed: AbortSignal;
  readonly #draw: (room: Room) => string[];
  readonly #abort = new AbortController();

  constructor(draw: (room: Room) => string[]) {
    this.#draw = draw;
    this.closed = this.#abort.signal;
    process.stdout.write(ENTER);
    process.stdout.on('resize', this.redraw);
    for (const signal of SIGNALS) process.on(signal, this.#close);
    process.on('exit', this.#leave);
    if (!process.stdin.isTTY) return;
    process.stdin.setRawMode(true).setEncoding('utf8').on('data', this.#onKeys);
  }

  readonly redraw = (): void => {
    const { columns, rows } = process.stdout;
    // What is written into the last column would be erased with the rest of its line.
    const lines = this.#draw({ columns: columns - 1, rows: rows - 1 });
    const text = [...lines.map((line) => `${line}${END_OF_LINE}`), `q ends this${END_OF_LINE}`].join('\n');
    process.stdout.write(`${BEGIN_FRAME}${HOME}${text}${END_OF_SCREEN}${END_FRAME}`);
  };

  [Symbol.dispose](): void {
    process.stdout.off('resize', this.redraw);
    for (const signal of SIGNALS) process.off(signal, this.#close);
    process.off('exit', this.#leave);
    process.stdin.off('data', this.#onKeys).pause();
    this.#leave();
  }

  readonly #leave = (): void => {
    if (process.stdin.isTTY) process.stdin.setRawMode(false);
    process.stdout.write(LEAVE);
  };

  readonly #close = (): void => this.#abort.abort();

  readonly #onKeys = (keys: Buffer | string): void => {
    if (/[qQ]/.test(String(keys)) || String(keys).includes(INTERRUPT)) this.#close();
  };
}
