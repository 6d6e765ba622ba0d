import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import type { PresentedRun } from '../../admin/status/canarySection.ts';
import type { PresentedPartition } from '../../admin/status/partitionsSection.ts';
import type { AdminStatus } from '../../admin/statusSchema.ts';
import { OperatorError } from '../../base/errors.ts';
import { loadConfig } from '../../config/config.ts';
import type { SocketPath } from '../../net/address.ts';
import { askAdministration } from '../daemon/adminClient.ts';
import { EXIT } from '../exit.ts';
import { explain } from '../help.ts';
import { configOption, jsonOption, parseDurationArgument } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';

/** How long a partition may take until it signs again; a start of a slow token takes some seconds. */
const RETURN_MS_MAX = 60_000;
const LOOK_MS = 100;
/** The last canary is sealed so long before the daemon would put the partition back by itself. */
const LEAD_MS = 1_000;

export function drillCommand(): Command {
  return explain(
    new Command('drill')
      .summary('take a partition out and back on purpose')
      .description(
        'Has the running daemon take one partition out of service, as the loss of its token would, but in order; seals canaries ' +
          'meanwhile and says who signed them; puts it back and waits until it signs again. No request fails of it. Should this ' +
          'command be interrupted or die, the daemon puts the partition back after the given time.',
      )
      .addOption(configOption())
      .requiredOption('--partition <name>', 'its region, or <region>/<key label>')
      .addOption(
        new Option('--for <duration>', 'how long it is out, an hour at most')
          .argParser(parseDurationArgument)
          .default(30_000, '30s'),
      )
      .option('--below-quorum', 'also where nothing can be sealed meanwhile')
      .addOption(jsonOption())
      .action(drill),
    {
      exit: { 0: 'sealing went on, and the partition signs again', 1: 'not so, or refused' },
      examples: [
        'pdfseal hsm drill --config /etc/pdfseal/production.toml --partition eu-west',
        'pdfseal hsm drill --config /etc/pdfseal/production.toml --partition eu-north --for 5m --json',
      ],
    },
  );
}

interface DrillOptions {
  config: string;
  partition: string;
  /** Milliseconds. */
  for: number;
  belowQuorum?: true;
  json?: true;
}

interface Report {
  partition: string;
  /** From the request to the end of its child. */
  out_after_ms: number;
  out_for_ms: number;
  /** Sealed right after it was out, and right before it was back. */
  canaries: PresentedRun[];
  /** From the request to its first signature in a canary. */
  signs_after_ms: number;
  /** Whether every canary verified, and none of them by this partition. */
  sealing_went_on: boolean;
}

async function drill(options: DrillOptions): Promise<void> {
  const { socket } = loadConfig(options.config, { files: 'unused' }).admin;
  const report = await carryOut(socket, options);
  if (options.json) printJson(report);
  else for (const line of describe(report)) print(line);
  if (!report.sealing_went_on && !options.belowQuorum) process.exitCode = EXIT.failed;
}

async function carryOut(socket: SocketPath, options: DrillOptions): Promise<Report> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const startedAt = performance.now();
  const { name } = await takeOut(socket, options);
  const outAt = performance.now();
  note(`${name} is out; its process has ended`);
  const canaries: PresentedRun[] = [];
  try {
    canaries.push(await sing(socket));
    await sleep(Math.max(0, options.for - LEAD_MS - (performance.now() - outAt)), undefined, {
      signal: interrupted.signal,
    }).catch(() => note('interrupted: it goes back now'));
    if (await isOut(socket, name)) canaries.push(await sing(socket));
  } finally {
    await askAdministration(socket, 'POST', `/partitions/${encodeURIComponent(name)}/in`);
  }
  const backAt = performance.now();
  note(`${name} is put back`);
  await untilItSigns(socket, name);
  process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  return {
    partition: name,
    out_after_ms: Math.round(outAt - startedAt),
    out_for_ms: Math.round(backAt - outAt),
    canaries,
    signs_after_ms: Math.round(performance.now() - backAt),
    sealing_went_on: canaries.every(({ verified }) => verified),
  };
}

function takeOut(socket: SocketPath, options: DrillOptions): Promise<PresentedPartition> {
  const path = `/partitions/${encodeURIComponent(options.partition)}/out`;
  const query = `for=${options.for}ms&below_quorum=${options.belowQuorum === true}`;
  return askAdministration<PresentedPartition>(socket, 'POST', `${path}?${query}`);
}

function sing(socket: SocketPath): Promise<PresentedRun> {
  return askAdministration<PresentedRun>(socket, 'POST', '/canary');
}

async function isOut(socket: SocketPath, name: string): Promise<boolean> {
  const { partitions } = await askAdministration<AdminStatus>(socket, 'GET', '/status');
  return partitions.members.some((member) => member.name === name && member.state === 'withdrawn');
}

/** Ready is what it says of itself; a canary with its signature is proof. */
async function untilItSigns(socket: SocketPath, name: string): Promise<void> {
  const giveUpAt = performance.now() + RETURN_MS_MAX;
  for (;;) {
    const { partitions } = await askAdministration<AdminStatus>(socket, 'GET', '/status');
    const state = partitions.members.find((member) => member.name === name)?.state;
    if (state === 'ready' && (await sing(socket)).signers.includes(name)) return;
    if (performance.now() > giveUpAt) {
      throw new OperatorError(
        `${name} does not sign again after ${RETURN_MS_MAX / 1000} s: it is ${state}; see pdfseal doctor`,
      );
    }
    await sleep(LOOK_MS);
  }
}

function describe(report: Report): string[] {
  const sealed = report.canaries.map(({ verified, detail, signers, duration_ms }) =>
    verified
      ? `meanwhile   a canary was sealed and verified in ${duration_ms} ms, signed by ${signers.join(', ')}`
      : `meanwhile   no canary: ${detail}`,
  );
  return [
    `partition   ${report.partition}`,
    `out         within ${report.out_after_ms} ms, for ${(report.out_for_ms / 1000).toFixed(1)} s`,
    ...sealed,
    `back        it signs again ${report.signs_after_ms} ms after it was put back`,
    report.sealing_went_on ? 'sealing went on without it' : 'sealing did not go on without it',
  ];
}
