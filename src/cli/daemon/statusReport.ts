import { escapeControls } from '../../base/controls.ts';
import { counted, describeSeconds, fromNow } from '../../base/phrases.ts';
import { formatBytes, formatDuration } from '../../base/units.ts';
import type { Found } from '../../health/healthFinding.ts';
import type { PresentedPartition } from '../../health/sections/partitionsSection.ts';
import type { PresentedWitness } from '../../health/sections/witnessesSection.ts';
import type { AdminStatus } from '../../health/statusSchema.ts';
import type { CommandFailure } from '../report.ts';
import { type Mark, marked } from '../terminal.ts';

/** The state of one environment, or the reason why it could not be read. */
export type Look = { file: string } & (
  | { status: AdminStatus; trouble: string | undefined }
  | { failure: CommandFailure }
);

/** Size of the screen in columns and rows; an absent one is not limited. */
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

/** A line with a separate mark: only the text is cut if the line is too long. */
interface Line {
  mark: Mark;
  text: string;
  /** If there is no room for all lines, those of the highest rank are dropped first. */
  rank: number;
}

function renderOne(look: Look, now: number): Line[] {
  if ('failure' in look) return failureLines(look.failure, look.file);
  const { status, trouble } = look;
  const rows = rowsOf(status, trouble, now);
  const width = Math.max(...rows.map(({ name }) => name.length));
  const head = `pdfseald ${status.version}  ${status.environment}  process ${status.pid}  up ${describeSeconds(status.uptime_seconds)}`;
  const { mark, text } = state(status);
  return [{ mark, text: `${text}  ${head}`, rank: 0 }, ...rows.flatMap((row) => linesOf(row, width))];
}

function linesOf({ mark, name, text, remedy }: Row, width: number): Line[] {
  const rank = ['bad', 'warning', 'good', 'plain'].indexOf(mark);
  const line = { mark, text: `${name.padEnd(width)}  ${text}`, rank };
  if (remedy === undefined || remedy === '') return [line];
  return [line, { mark: 'plain', text: `${' '.repeat(width)}  → ${remedy}`, rank }];
}

function state({ ready, draining }: AdminStatus): { mark: Mark; text: string } {
  if (draining) return { mark: 'warning', text: 'STOPPING' };
  return ready ? { mark: 'good', text: 'READY' } : { mark: 'bad', text: 'NOT READY' };
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
    status.sealing ? 'front' : `${signing} of ${partitions.members.length} partitions sign`,
    counted(queue.queued + queue.hashing + queue.sealing, 'waiting job'),
    `${counted(log.tree_size, 'leaf', 'leaves')}${log.sealed_at ? `, the newest ${fromNow(log.sealed_at, now)}` : ''}`,
  ];
  const unwell = rowsOf(status, trouble, now).filter(({ mark }) => mark === 'bad' || mark === 'warning');
  return [
    { mark: state(status).mark, text: summary.join('  '), rank: 0 },
    ...unwell.flatMap((row) => linesOf({ ...row, name: `  ${row.name.trim()}` }, 0)),
  ];
}

/** Cuts lines at the right edge. If there are too many, the least important are dropped, problems last. */
function fit(lines: readonly Line[], { columns = Infinity, rows = Infinity }: ScreenSize): string[] {
  const shown = [...lines];
  while (shown.length > Math.max(1, rows)) {
    const highest = Math.max(...shown.map(({ rank }) => rank));
    shown.splice(
      shown.findLastIndex(({ rank }) => rank === highest),
      1,
    );
  }
  return shown.map(({ mark, text }) => {
    const characters = [...escapeControls(text)];
    const width = columns - 2;
    if (characters.length > width) characters.splice(Math.max(0, width - 1), characters.length, '…');
    return marked(mark, characters.join(''));
  });
}

/** One line of the status. */
export interface Row {
  mark: Mark;
  name: string;
  text: string;
  /** The remedy; printed on a line of its own. */
  remedy?: string | undefined;
}

/** The status of one environment; `trouble` is what the command itself found (see `loadedOtherwise`). */
export function rowsOf(status: AdminStatus, trouble: string | undefined, now: number): Row[] {
  // A daemon of an earlier version sends none.
  const { findings = [] } = status;
  return [
    ...status.parts.flatMap(({ name, ready, detail, remedy }): Row[] => [
      { mark: ready ? 'good' : 'bad', name, text: detail, remedy },
      ...(name === 'partitions' ? status.partitions.members.map((one) => partitionRow(one, now)) : []),
      ...(name === 'witnesses' ? (status.witnesses?.members ?? []).map((one) => witnessRow(one, now)) : []),
    ]),
    ...(trouble === undefined ? [] : [{ mark: 'warning', name: 'config', text: trouble } as const]),
    ...findings.filter(({ part }) => part === undefined).map(findingRow),
    plain('certificates', certificates(status)),
    plain('jobs', jobs(status)),
    plain('webhooks', webhooks(status)),
    ...egress(status),
    plain('log', log(status, now)),
    ...nodes(status),
    plain('upkeep', upkeep(status, now)),
    plain('hashing', hashing(status)),
    plain('event loop', eventLoop(status)),
  ];
}

function findingRow({ severity, subject, detail, remedy }: Found): Row {
  return { mark: severity === 'critical' ? 'bad' : 'warning', name: subject, text: detail, remedy };
}

function plain(name: string, text: string): Row {
  return { mark: 'plain', name, text };
}

function partitionRow(member: PresentedPartition, now: number): Row {
  const { name, state, since, signatures, restarts, last_error: error, returns_at: back } = member;
  const { sessions, sessions_refused: refusal, software, refusals, trees_given_up: givenUp } = member;
  const more = [
    `${state}${software ? ' (software)' : ''} since ${since.slice(0, 19)}Z (${fromNow(since, now)})`,
    counted(signatures, 'signature'),
    ...(refusals > 0 ? [counted(refusals, 'refusal')] : []),
    ...(givenUp > 0 ? [`${counted(givenUp, 'checkpoint')} given up`] : []),
    ...(restarts > 0 ? [counted(restarts, 'restart')] : []),
    ...(refusal ? [`only ${counted(sessions, 'session')} (${refusal})`] : []),
    ...(error ? [`last error ${error}`] : []),
    ...(back ? [`back ${fromNow(back, now)}`] : []),
  ];
  return plain(`  ${name}`, more.join(', '));
}

function witnessRow(member: PresentedWitness, now: number): Row {
  const { name, state, tree_size: size, cosigned_at: at, trouble, detail } = member;
  const held = `holds ${counted(size, 'leaf', 'leaves')}${at ? `, cosigned ${fromNow(at, now)}` : ''}`;
  const isWell = state !== 'failing' && state !== 'contradiction';
  const how = state === 'not_asked' ? 'asked by hand' : state;
  const text = isWell ? `${how}, ${held}` : `${trouble ?? state}: ${detail}; ${held}`;
  return plain(`  ${name}`, text);
}

function nodes({ nodes }: AdminStatus): Row[] {
  if (nodes === undefined) return [];
  const others = nodes.map(({ name, role, version }) => `${name} (${role}, ${version})`);
  return [plain('other nodes', others.join('; ') || 'none')];
}

function jobs({ queue }: AdminStatus): string {
  const { queued, hashing, sealing, oldest_age_seconds: age } = queue;
  const waits =
    queued + hashing + sealing === 0 ? 'none waits' : `the oldest has waited ${describeSeconds(age)}`;
  return `${queued} queued, ${hashing} hashing, ${sealing} sealing; ${waits}`;
}

function webhooks({ webhooks: { endpoints, failing, pending, dead_letters, dropped } }: AdminStatus): string {
  return endpoints === 0
    ? 'no endpoints'
    : `${counted(endpoints, 'endpoint')}, ${failing} failing; ${pending} waiting, ${counted(dead_letters, 'dead letter')}, ${dropped} dropped`;
}

/** No rows until a request was sent to another machine. */
function egress({ egress }: AdminStatus): Row[] {
  if (egress === undefined) return [];
  const { mode, answers, trouble, restarts } = egress;
  const text = [
    answers ? 'answers' : (trouble ?? 'does not answer yet'),
    mode === 'unit' ? 'a unit of its own' : 'a child of the daemon',
    ...(restarts > 0 ? [counted(restarts, 'restart')] : []),
  ].join(', ');
  return [plain('egress', text)];
}

function log({ log: { tree_size: size, sealed_at: at, origin } }: AdminStatus, now: number): string {
  return `${counted(size, 'leaf', 'leaves')}${at ? `, the newest sealed ${fromNow(at, now)}` : ''} (${origin})`;
}

function upkeep({ upkeep: { backup, check, renewal } }: AdminStatus, now: number): string {
  const last = (chore: string, note: typeof check) =>
    `last ${chore} ${note === undefined ? 'not on record' : fromNow(note.finished_at, now)}`;
  const until = renewal?.holds_until;
  const held = until ? [`all time-stamps hold until ${until.slice(0, 10)}`] : [];
  return [last('backup', backup), last('check', check), ...held].join('; ');
}

function hashing({ hash: { engine, kernels } }: AdminStatus): string {
  return engine === 'native' ? describeKernels(kernels) : engine;
}

/** The kernel for each number of documents at once, with its speed on one core: `1: avx512-sha 431 MB/s`. */
export function describeKernels(kernels: AdminStatus['hash']['kernels']): string {
  return kernels
    .map(({ streams, kernel, megabytes_per_second: speed }) => `${streams}: ${kernel} ${speed} MB/s`)
    .join(', ');
}

function eventLoop({ event_loop_delay_ms: { p50, p99, max }, store }: AdminStatus): string {
  return `delay ${p50} ms (median), ${p99} ms (99 %), ${max} ms (maximum); store ${formatBytes(store.bytes)}${heldBy(store)}`;
}

/** Describes the reader that keeps pages of the store from being reused. */
function heldBy({ oldest_reader: oldest }: AdminStatus['store']): string {
  return oldest ? `, read by process ${oldest.pid} for ${formatDuration(oldest.age_seconds * 1000)}` : '';
}

/** A revocation list always ends soon. */
function certificates({ certificates: all }: AdminStatus): string {
  const ending = all.filter(({ role }) => role !== 'client-crl');
  const [next] = ending.toSorted((a, b) => (a.days_left ?? -1) - (b.days_left ?? -1));
  if (next === undefined) return 'none in use';
  const { authority, role, days_left: days } = next;
  return days === undefined
    ? `missing: ${authority}, ${role}`
    : `${days} days until the first expires: ${authority}, ${role}`;
}
