import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import type { AdminStatus } from '../admin/status.ts';
import { formatBytes } from '../base/units.ts';
import { loadConfig } from '../config.ts';
import { askAdministration } from './adminClient.ts';
import { EXIT } from './exit.ts';
import { explain } from './help.ts';
import { configOption, jsonOption, parseDurationArgument } from './options.ts';
import { print, printJson } from './terminal.ts';

const WATCH_MS = 2_000;
/** Clears the screen and goes to its first line (ECMA-48: ED, CUP). */
const CLEAR = '\u001b[2J\u001b[H';

export function statusCommand(): Command {
  return explain(
    new Command('status')
      .description(
        'Shows how the running daemon is: its parts, partitions, queue, log and store, on one screen.',
      )
      .addOption(configOption())
      .addOption(
        new Option(
          '--watch [interval]',
          'again and again, until interrupted (2s where no interval is given)',
        ).argParser(parseDurationArgument),
      )
      .addOption(jsonOption())
      .action(showStatus),
    {
      exit: { 0: 'ready', 1: 'not ready, or no daemon answers' },
      examples: [
        'pdfseal status --config /etc/pdfseal/production.toml',
        'pdfseal status --config /etc/pdfseal/production.toml --watch',
        'pdfseal status --config /etc/pdfseal/production.toml --json | jq .queue',
      ],
    },
  );
}

interface StatusOptions {
  config: string;
  /** Milliseconds, or true for the default. */
  watch?: number | true;
  json?: true;
}

async function showStatus({ config: file, watch, json }: StatusOptions): Promise<void> {
  const { listen } = loadConfig(file, { files: 'unused' }).admin;
  const intervalMs = watch === true ? WATCH_MS : watch;
  for (;;) {
    const status = await askAdministration<AdminStatus>(listen, 'GET', '/status');
    process.exitCode = status.ready ? EXIT.ok : EXIT.failed;
    if (intervalMs !== undefined && process.stdout.isTTY && !json) process.stdout.write(CLEAR);
    if (json) printJson(status);
    else for (const line of overview(status)) print(line);
    if (intervalMs === undefined) return;
    await sleep(intervalMs);
  }
}

function overview(status: AdminStatus): string[] {
  const { queue, log, store, event_loop_delay_ms: delay } = status;
  const rows: [string, string][] = [
    ...status.parts.map(({ name, ready, detail }): [string, string] => [
      name,
      `${ready ? '✓' : '✗'} ${detail}`,
    ]),
    ...partitionRows(status),
    ['jobs', `${queue.queued} queued, ${queue.hashing} hashing, ${queue.sealing} sealing; ${ageOf(status)}`],
    ['log', `${log.tree_size} leaves${log.sealed_at ? `, sealed ${log.sealed_at}` : ''} (${log.origin})`],
    [
      'disk',
      `store ${formatBytes(store.bytes)}, ${formatBytes(store.disk_free_bytes)} of ${formatBytes(store.disk_bytes)} free`,
    ],
    ['certificates', nextExpiry(status)],
    ['event loop', `late by ${delay.p50} ms (median), ${delay.p99} ms (99 %), ${delay.max} ms (most)`],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const head = `pdfseald ${status.version}  ${status.environment}  process ${status.pid}  up ${describeSeconds(status.uptime_seconds)}`;
  return [
    `${head}  ${status.ready ? 'READY' : 'NOT READY'}`,
    '',
    ...rows.map(([name, text]) => `${name.padEnd(width)}  ${text}`),
  ];
}

function partitionRows({ partitions: { members } }: AdminStatus): [string, string][] {
  return members.map(({ name, state, since, signatures, restarts, last_error: error, returns_at: back }) => {
    const more = [
      `${signatures} signatures`,
      `${restarts} restarts`,
      ...(error ? [`last error ${error}`] : []),
      ...(back ? [`back at ${back}`] : []),
    ];
    return [`  ${name}`, `${state} since ${since}, ${more.join(', ')}`];
  });
}

function ageOf({ queue }: AdminStatus): string {
  const waiting = queue.queued + queue.hashing + queue.sealing;
  return waiting === 0 ? 'none waits' : `the oldest waits for ${describeSeconds(queue.oldest_age_seconds)}`;
}

function nextExpiry({ certificates }: AdminStatus): string {
  const [next] = certificates.toSorted((a, b) => (a.days_left ?? -1) - (b.days_left ?? -1));
  if (next === undefined) return 'none are in use';
  if (next.days_left === undefined) return `${next.authority}: ${next.detail ?? next.state}`;
  return `${next.days_left} days until the first ends: ${next.authority}, ${next.role}`;
}

/** `3d 4h`, `4h 5m`, `5m 6s` or `6s`. */
export function describeSeconds(seconds: number): string {
  const units: [string, number][] = [
    ['d', Math.floor(seconds / 86_400)],
    ['h', Math.floor(seconds / 3600) % 24],
    ['m', Math.floor(seconds / 60) % 60],
    ['s', Math.floor(seconds) % 60],
  ];
  const first = units.findIndex(([, count]) => count > 0);
  if (first < 0) return '0s';
  return units
    .slice(first, first + 2)
    .map(([unit, count]) => `${count}${unit}`)
    .join(' ');
}
