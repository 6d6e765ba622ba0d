import { setTimeout as sleep } from 'node:timers/promises';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { formatDuration } from '../../base/units.ts';
import { loadConfig } from '../../config/config.ts';
import type { PresentedRun } from '../../health/sections/canarySection.ts';
import {
  putPartitionIn,
  readStatusOperation,
  sealCanary,
  takePartitionOut,
} from '../../ops/daemonOperations.ts';
import type { SocketPath } from '../../web/address.ts';
import { command, type Given, option } from '../command.ts';
import { askOperation } from '../daemon/operationClient.ts';
import { EXIT } from '../exit.ts';
import { CONFIG, parseDurationArgument } from '../options.ts';
import { note, print, printResult } from '../terminal.ts';

/** Time limit for a partition to sign again; a slow token needs some seconds to start. */
const RETURN_MS_MAX = 60_000;
const LOOK_MS = 100;
/** The last canary is sealed this long before the daemon puts the partition back. */
const LEAD_MS = 1_000;

const DRILL_OPTIONS = [
  CONFIG,
  option('--partition <name>', 'region of the partition, or <region>/<key label>', { required: true }),
  option('--for <duration>', 'how long the partition is out, at most 1h', {
    parse: parseDurationArgument,
    default: 30_000,
    shown: '30s',
  }),
  option('--below-quorum', 'also if nothing can be sealed meanwhile'),
] as const;

type DrillOptions = Given<typeof DRILL_OPTIONS>;

export const drillCommand = command('drill', {
  summary: 'rehearse the loss of a partition',
  description:
    'Takes one partition of the running daemon out of service, as if its token were lost. Seals canaries meanwhile and prints which ' +
    'partitions signed them, then puts the partition back and waits until it signs again. No request fails. If this command is ' +
    'interrupted, the daemon puts the partition back after the given time.',
  options: DRILL_OPTIONS,
  exit: {
    0: 'sealing continued, and the partition signs again',
    1: 'sealing stopped, the partition does not sign, or the drill was refused',
  },
  examples: [
    'pdfseal hsm drill --config /etc/pdfseal/production.toml --partition eu-west',
    'pdfseal hsm drill --config /etc/pdfseal/production.toml --partition eu-north --for 5m --json',
  ],
  async run(options) {
    const { socket } = loadConfig(options.config, { files: 'unused' }).admin;
    const report = await carryOut(socket, options);
    printResult(report, () => describe(report).forEach(print));
    if (!report.sealing_went_on && !options.belowQuorum) ownProcess().exitCode = EXIT.failed;
  },
});

interface Report {
  partition: string;
  /** Time from the request to the end of its child. */
  out_after_ms: number;
  out_for_ms: number;
  /** Sealed right after the partition was out, and right before it was back. */
  canaries: PresentedRun[];
  /** Time from the request to its first signature in a canary. */
  signs_after_ms: number;
  /** Whether every canary verified, without a signature of this partition. */
  sealing_went_on: boolean;
}

async function carryOut(socket: SocketPath, options: DrillOptions): Promise<Report> {
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const startedAt = performance.now();
  const { name } = await takeOut(socket, options);
  const outAt = performance.now();
  note(`${name} is out of service; its process has ended`);
  const canaries: PresentedRun[] = [];
  try {
    canaries.push(await sing(socket));
    await sleep(Math.max(0, options.for - LEAD_MS - (performance.now() - outAt)), undefined, {
      signal: interrupted.signal,
    }).catch(() => note('interrupted: the partition is returned to service now'));
    if (await isOut(socket, name)) canaries.push(await sing(socket));
  } finally {
    await askOperation(putPartitionIn, socket, { name });
  }
  const backAt = performance.now();
  note(`${name} is in service again`);
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

function takeOut(socket: SocketPath, options: DrillOptions) {
  const { partition: name, for: forMs, belowQuorum } = options;
  return askOperation(takePartitionOut, socket, {
    name,
    for: formatDuration(forMs),
    below_quorum: belowQuorum === true,
  });
}

function sing(socket: SocketPath): Promise<PresentedRun> {
  return askOperation(sealCanary, socket, {});
}

async function isOut(socket: SocketPath, name: string): Promise<boolean> {
  const { partitions } = await askOperation(readStatusOperation, socket, {});
  return partitions.members.some((member) => member.name === name && member.state === 'withdrawn');
}

/** Waits until it signs: its state says ready, and a canary with its signature proves it. */
async function untilItSigns(socket: SocketPath, name: string): Promise<void> {
  const giveUpAt = performance.now() + RETURN_MS_MAX;
  for (;;) {
    const { partitions } = await askOperation(readStatusOperation, socket, {});
    const state = partitions.members.find((member) => member.name === name)?.state;
    if (state === 'ready' && (await sing(socket)).signers.includes(name)) return;
    if (performance.now() > giveUpAt) {
      throw new OperatorError(
        `${name} does not sign again within ${RETURN_MS_MAX / 1000} s (state: ${state}); run pdfseal doctor`,
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
    report.sealing_went_on ? 'sealing continued without it' : 'sealing stopped without it',
  ];
}
