import type { PresentedPartition } from '../../../admin/status/partitionsSection.ts';
import type { AdminStatus } from '../../../admin/statusSchema.ts';
import { formatBytes } from '../../../base/units.ts';
import type { Mark } from '../../terminal.ts';
import { counted, describeSeconds, fromNow } from '../../times.ts';

/** One line of the status. */
export interface Row {
  mark: Mark;
  name: string;
  text: string;
  /** What to do; printed on a line of its own. */
  remedy?: string | undefined;
}

/** The status of one environment; `trouble` is what the command itself found (see `loadedOtherwise`). */
export function rowsOf(status: AdminStatus, trouble: readonly string[], now: number): Row[] {
  return [
    ...status.parts.flatMap(({ name, ready, detail, remedy }): Row[] => [
      { mark: ready ? 'good' : 'bad', name, text: detail, remedy },
      ...(name === 'partitions' ? status.partitions.members.map((one) => partitionRow(one, now)) : []),
    ]),
    ...trouble.map((text): Row => ({ mark: 'warning', name: 'config', text })),
    certificates(status),
    plain('jobs', jobs(status)),
    webhooks(status),
    plain('log', log(status, now)),
    plain('upkeep', upkeep(status, now)),
    plain('hashing', hashing(status)),
    plain('event loop', eventLoop(status)),
  ];
}

function plain(name: string, text: string): Row {
  return { mark: 'plain', name, text };
}

function partitionRow(member: PresentedPartition, now: number): Row {
  const { name, state, since, signatures, restarts, last_error: error, returns_at: back } = member;
  const more = [
    `${state} since ${since.slice(0, 19)}Z (${fromNow(since, now)})`,
    counted(signatures, 'signature'),
    ...(restarts > 0 ? [counted(restarts, 'restart')] : []),
    ...(error ? [`last error ${error}`] : []),
    ...(back ? [`back ${fromNow(back, now)}`] : []),
  ];
  return { mark: state === 'ready' ? 'plain' : 'warning', name: `  ${name}`, text: more.join(', ') };
}

function jobs({ queue }: AdminStatus): string {
  const { queued, hashing, sealing, oldest_age_seconds: age } = queue;
  const waits =
    queued + hashing + sealing === 0 ? 'none waits' : `the oldest has waited ${describeSeconds(age)}`;
  return `${queued} queued, ${hashing} hashing, ${sealing} sealing; ${waits}`;
}

function webhooks({ webhooks: { endpoints, failing, pending, dead_letters, dropped } }: AdminStatus): Row {
  const text =
    endpoints === 0
      ? 'no endpoints'
      : `${counted(endpoints, 'endpoint')}, ${failing} failing; ${pending} waiting, ${counted(dead_letters, 'dead letter')}, ${dropped} dropped`;
  return { mark: failing > 0 ? 'warning' : 'plain', name: 'webhooks', text };
}

function log({ log: { tree_size: size, sealed_at: at, origin } }: AdminStatus, now: number): string {
  return `${counted(size, 'leaf', 'leaves')}${at ? `, the newest sealed ${fromNow(at, now)}` : ''} (${origin})`;
}

function upkeep({ upkeep: { backup, check } }: AdminStatus, now: number): string {
  const last = (name: string, done: typeof check) =>
    `last ${name} ${done ? `${done.good ? '' : 'bad, '}${fromNow(done.finished_at, now)}` : 'not on record'}`;
  return `${last('backup', backup)}; ${last('check', check)}`;
}

function hashing({ hash: { engine, kernels } }: AdminStatus): string {
  return engine === 'native' ? describeKernels(kernels) : engine;
}

/** For each number of documents at once, the kernel and its speed on one core: `1: avx512-sha 431 MB/s`. */
export function describeKernels(kernels: AdminStatus['hash']['kernels']): string {
  return kernels
    .map(({ streams, kernel, megabytes_per_second: speed }) => `${streams}: ${kernel} ${speed} MB/s`)
    .join(', ');
}

function eventLoop({ event_loop_delay_ms: { p50, p99, max }, store }: AdminStatus): string {
  return `delay ${p50} ms (median), ${p99} ms (99 %), ${max} ms (maximum); store ${formatBytes(store.bytes)}`;
}

function certificates({ certificates: all }: AdminStatus): Row {
  const [next] = all.toSorted((a, b) => (a.days_left ?? -1) - (b.days_left ?? -1));
  const name = 'certificates';
  if (next === undefined) return plain(name, 'none in use');
  const { authority, role, days_left: days, urgency } = next;
  const remedy = 'list them all with pdfseal hsm certificates';
  if (days === undefined || days < 0)
    return { mark: 'bad', name, text: `${authority}: ${next.detail ?? next.state}`, remedy };
  const mark = urgency === 'urgent' ? 'bad' : urgency === 'none' ? 'good' : 'warning';
  const text = `${days} days until the first expires: ${authority}, ${role}`;
  return { mark, name, text, remedy: mark === 'good' ? undefined : remedy };
}
