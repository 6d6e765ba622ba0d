import type { AdminStatus } from '../../../admin/statusSchema.ts';
import { escapeControls } from '../../../base/controls.ts';
import type { CommandFailure } from '../../report.ts';
import { type Mark, marked } from '../../terminal.ts';
import { counted, describeSeconds, fromNow } from '../../times.ts';
import { type Row, rowsOf } from './rows.ts';

/** What there was to see of one environment. */
export type Look = { file: string } & (
  | { status: AdminStatus; trouble: string[] }
  | { failure: CommandFailure }
);

/** Room for text; endless where nobody looks. */
export interface Room {
  columns: number;
  rows: number;
}

export const ENDLESS: Room = { columns: Number.POSITIVE_INFINITY, rows: Number.POSITIVE_INFINITY };

/** One environment in full, several with a line for each and below it what is not well. */
export function render(looks: readonly Look[], room: Room, now: number): string[] {
  const [only] = looks;
  if (looks.length === 1 && only) return renderOne(only, room, now);
  const lines = looks.flatMap((look) => renderLine(look, now));
  return fit(lines, room);
}

/** A line, its mark apart from the text, which alone is cut where there is no room. */
interface Line {
  mark: Mark;
  text: string;
  rank: number;
}

function renderOne(look: Look, room: Room, now: number): string[] {
  if ('failure' in look) return fit(failureLines(look.failure, look.file), room);
  const { status, trouble } = look;
  const rows = rowsOf(status, trouble, now);
  const width = Math.max(...rows.map(({ name }) => name.length));
  const head = `pdfseald ${status.version}  ${status.environment}  process ${status.pid}  up ${describeSeconds(status.uptime_seconds)}`;
  return fit(
    [
      { ...state(status), text: `${state(status).text}  ${head}` },
      ...rows.flatMap((row) => linesOf(row, width)),
    ],
    room,
  );
}

function linesOf({ mark, name, text, remedy, rank }: Row, width: number): Line[] {
  const line = { mark, text: `${name.padEnd(width)}  ${text}`, rank: mark === 'bad' ? 0 : rank };
  if (remedy === undefined || remedy === '') return [line];
  return [line, { mark: 'plain', text: `${' '.repeat(width)}  → ${remedy}`, rank: 0 }];
}

function state({ ready, draining }: AdminStatus): Line {
  if (draining) return { mark: 'warning', text: 'STOPPING', rank: 0 };
  return ready ? { mark: 'good', text: 'READY', rank: 0 } : { mark: 'bad', text: 'NOT READY', rank: 0 };
}

function failureLines({ message, remedy }: CommandFailure, file: string): Line[] {
  return [
    { mark: 'bad', text: message.startsWith(file) ? message : `${file}: ${message}`, rank: 0 },
    { mark: 'plain', text: `  → ${remedy}`, rank: 0 },
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
    { mark: state(status).mark, text: summary.join('  '), rank: 0 },
    ...unwell.flatMap((row) => linesOf({ ...row, name: `  ${row.name.trim()}` }, 0)),
  ];
}

/** Cuts lines at the right edge, and leaves out the least needed where they are too many. */
function fit(lines: readonly Line[], { columns, rows }: Room): string[] {
  const shown = [...lines];
  while (shown.length > Math.max(1, rows)) {
    const rank = Math.max(...shown.map((line) => line.rank));
    shown.splice(
      shown.findLastIndex((line) => line.rank === rank),
      1,
    );
  }
  return shown.map(({ mark, text }) => marked(mark, cut(escapeControls(text), columns - 2)));
}

function cut(text: string, columns: number): string {
  const characters = [...text];
  return characters.length <= columns ? text : `${characters.slice(0, Math.max(0, columns - 1)).join('')}…`;
}
