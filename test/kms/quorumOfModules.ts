/**
 * A quorum of two of three partitions, each on a PKCS#11 module of another vendor, with the key for time-stamps on a fourth. While clients
 * seal, one of the three is away at a time, in turns.
 *
 *   node test/kms/quorumOfModules.ts --minutes 10 --away 10
 *
 * The exit status is 1 if a request failed.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Test } from 'tap';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { Client, isServed, Traffic, type TrafficAnswer } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { killSigner } from '../support/faults.ts';
import { type Device, type DeviceModule, MODULES } from '../support/modules.ts';
import { item } from '../support/partitions.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const REGIONS = ['eu', 'us', 'ap'];
const SIGNING = ['NSS softoken', 'p11-kit remoting', 'YubiHSM 2'];
const STAMPING = 'NetHSM';

export interface Report {
  turns: number;
  requests: number;
  failed: TrafficAnswer[];
  slowestMs: number;
}

/** Why this machine cannot have all of them; undefined if it can. */
export function missingModules(): string | undefined {
  return [...SIGNING, STAMPING].map((name) => moduleOf(name).missing?.()).find((why) => why !== undefined);
}

/** Takes each away for so long, one after the other, until that time is over and each was away. */
export async function takeTurns(
  t: Pick<Test, 'teardown'>,
  { totalMs, awayMs }: { totalMs: number; awayMs: number },
): Promise<Report> {
  const devices = await Promise.all(SIGNING.map((name) => moduleOf(name).start(t)));
  const stamping = await moduleOf(STAMPING).start(t);
  const sandbox = await openSandbox({
    regions: REGIONS,
    quorum: 2,
    stamped: true,
    apart: true,
    init: false,
    token: (dir, names) => {
      const isLog = !names.keyLabel.startsWith('timestamp');
      const { token } = isLog ? item(devices, REGIONS.indexOf(names.region)) : stamping;
      return { ...names, ...token, refusedPins: join(dir, 'unused') };
    },
  });
  t.teardown(() => sandbox.close());
  await sandbox.init('--algorithm', 'ecdsa-p256');
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  const traffic = new Traffic(client, ['blocking', 'blocking', 'blocking', 'async']);
  const begunAt = performance.now();
  let turns = 0;
  try {
    while (turns < devices.length || performance.now() - begunAt < totalMs) {
      const at = turns % devices.length;
      await beAway(daemon, item(sandbox.partitions, at), item(devices, at), traffic, awayMs);
      turns += 1;
    }
  } finally {
    await traffic.stop();
  }
  const status = await daemon.stop();
  if (status !== 0 || daemon.stderr !== '')
    throw new Error(`the daemon ended with ${status}: ${daemon.stderr}`);
  const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  if (check.status !== 0) throw new Error(check.stdout + check.stderr);
  return {
    turns,
    requests: traffic.answers.length,
    failed: traffic.answers.filter((one) => !isServed(one)),
    slowestMs: Math.max(...traffic.answers.map(({ startedAt, answeredAt }) => answeredAt - startedAt)),
  };
}

async function beAway(
  daemon: Daemon,
  partition: PartitionOptions,
  device: Device,
  traffic: Traffic,
  awayMs: number,
): Promise<void> {
  const { region, keyLabel } = partition;
  const isIts = (entry: Record<string, unknown>) =>
    entry.partition === `${region}/${keyLabel}` && 'state' in entry;
  const isReady = () => daemon.log.findLast(isIts)?.state === 'ready';
  await until(`${region} signs`, isReady);
  const leftAt = Date.now();
  await device.leave(() => killSigner(partition, daemon));
  await until(`the loss of ${region} is noticed`, () => !isReady());
  await sleep(awayMs);
  await until('the others sign', () => traffic.since(leftAt, 'blocking').length >= 10);
  await device.comeBack();
  await until(`${region} signs again`, isReady);
}

function moduleOf(name: string): DeviceModule {
  const found = MODULES.find((one) => one.name === name);
  if (found === undefined) throw new Error(`there is no module ${name} in the table`);
  return found;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '10' },
      away: { type: 'string', default: '10' },
    },
  });
  const missing = missingModules();
  if (missing !== undefined) throw new Error(missing);
  await using ends = new AsyncDisposableStack();
  const t = { teardown: (end: () => unknown) => void ends.defer(async () => void (await end())) };
  const turns = { totalMs: Number(values.minutes) * 60_000, awayMs: Number(values.away) * 1000 };
  const { failed, ...report } = await takeTurns(t, turns);
  for (const answer of failed.slice(0, 10)) console.log(JSON.stringify(answer));
  console.log(
    `${failed.length} of ${report.requests.toLocaleString('en')} requests failed in ${report.turns} turns; the slowest took ${report.slowestMs} ms`,
  );
  if (failed.length > 0) process.exitCode = 1;
}
