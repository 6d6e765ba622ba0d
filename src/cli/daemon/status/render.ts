import type { AdminStatus } from '../../../admin/statusSchema.ts';
import { escapeControls } from '../../../base/controls.ts';
import type { CommandFailure } from '../../report.ts';
import { type Mark, marked } from '../../terminal.ts';
import { counted, describeSeconds, fromNow } from '../../times.ts';
import { type Row, rowsOf } from './rows.ts';

/** The state of one environment, or why it could not be read. */
export type Look = { file: string } & (
  | { status: AdminStatus; trouble: string[] }
  | { failure: CommandFailure }
);

/** How many columns and rows there are; all that it takes where that is left out. */
export interface ScreenSize {
  columns?: number | undefined;
  rows?: number | undefined;
}

/** One environment in full, several with a line for each and its problems below it. `now`: milliseconds since the epoch. */
export function render(looks: readonly Look[], now: number, size: ScreenSize = {}): string[] {
  const [only] = looks;
  const lines =
    looks.length === 1 && only ? renderOne(only, now) : looks.flatMap((look) => renderLine(look, now));
  return fit(lines, size);
}

/** Its mark is apart from the text, which alone is cut where the line is too long. */
interface Line {
  mark: Mark;
  text: string;
  /** Whether it is shown where there is no room for all. */
  isUrgent: boolean;
}

function renderOne(look: Look, now: number): Line[] {
  if ('failure' in look) return failureLines(look.failure, look.file);
  const { status, trouble } = look;
  const rows = rowsOf(status, trouble, now);
  const width = Math.max(...rows.map(({ name }) => name.length));
  const head = `pdfseald ${status.version}  ${status.environment}  process ${status.pid}  up ${describeSeconds(status.uptime_seconds)}`;
  const { mark, text } = state(status);
  return [{ mark, text: `${text}  ${head}`, isUrgent: true }, ...rows.flatMap((row) => linesOf(row, width))];
}

function linesOf({ mark, name, text, remedy }: Row, width: number): Line[] {
  const line = { mark, text: `${name.padEnd(width)}  ${text}`, isUrgent: mark === 'bad' };
  if (remedy === undefined || remedy === '') return [line];
  return [line, { mark: 'plain', text: `${' '.repeat(width)}  → ${remedy}`, isUrgent: true }];
}

function state({ ready, draining }: AdminStatus): { mark: Mark; text: string } {
  if (draining) return { mark: 'warning', text: 'STOPPING' };
  return ready ? { mark: 'good', text: 'READY' } : { mark: 'bad', text: 'NOT READY' };
}

function failureLines({ message, remedy }: CommandFailure, file: string): Line[] {
  return [
    { mark: 'bad', text: message.startsWith(file) ? message : `${file}: ${message}`, isUrgent: true },
    { mark: 'plain', text: `  → ${remedy}`, isUrgent: true },
  ];
}

function renderLine(look: Look, now: number): Line[] {
  if ('failure' in look) return failureLines(look.failure, look.file);
  const { status, trouble } = look;
  const { partitions, queue, log, uptime_seconds: up } = status;
  const signing = partitions.members.filter((one) => one.state === 'ready').length;
  const summary = [
    status.environment,
    state(status).text,
    `up ${describeSeconds(up)}`,
    `${signing} of ${partitions.members.length} partitions sign`,
    counted(queue.queued + queue.hashing + queue.sealing, 'waiting job'),
    `${counted(log.tree_size, 'leaf', 'leaves')}${log.sealed_at ? `, the newest ${fromNow(log.sealed_at, now)}` : ''}`,
  ];
  const unwell = rowsOf(status, trouble, now).filter(({ mark }) => mark === 'bad' || mark === 'warning');
  return [
    { mark: state(status).mark, text: summary.join('  '), isUrgent: true },
    ...unwell.flatMap((row) => linesOf({ ...row, name: `  ${row.name.trim()}` }, 0)),
  ];
}

/** Cuts lines at the right edge. Where they are too many, only the urgent ones are left. */
function fit(lines: readonly Line[], { columns = Infinity, rows = Infinity }: ScreenSize): string[] {
  const shown = lines.length <= rows ? lines : lines.filter(({ isUrgent }) => isUrgent).slice(0, rows);
  return shown.map(({ mark, text }) => {
    const characters = [...escapeControls(text)];
    const width = columns - 2;
    if (characters.length > width) characters.splice(Math.max(0, width - 1), characters.length, '…');
    return marked(mark, characters.join(''));
  });
}
