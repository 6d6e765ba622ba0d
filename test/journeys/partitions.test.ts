/** Every fault of every kind of partition, alone and in pairs, under load: what a quorum can bear, clients never see. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { bytesEqual } from '../../src/base/bytes.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { parseNote } from '../../src/log/note.ts';
import { type ClassicalAlgorithm, noteKeyId, verifySignature } from '../../src/log/verifierKey.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust, type TrustedLog, type TrustFile } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import {
  Client,
  isServed,
  type JobBody,
  TRAFFIC_DOCUMENT,
  Traffic,
  type TrafficAnswer,
} from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import {
  behindFaulty,
  buildFaultyModule,
  CHILD_HANGS,
  CHILD_KILLED,
  type Fault,
  faultsPlayed,
  GARBAGE_SIGNED,
  MODULE_CRASHES,
  NO_SESSION_LEFT,
  PIN_CHANGED,
  refusedLogins,
  SIGNATURE_HANGS,
  TOKEN_VANISHES,
} from '../support/faults.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

/** What strikes alone. */
const SINGLES: Fault[][] = [
  [TOKEN_VANISHES],
  [CHILD_KILLED],
  [CHILD_HANGS],
  [SIGNATURE_HANGS],
  [MODULE_CRASHES],
  [GARBAGE_SIGNED],
  [NO_SESSION_LEFT],
  [PIN_CHANGED],
];
/** What strikes at once, each at a partition of its own. */
const PAIRS: Fault[][] = [
  [TOKEN_VANISHES, CHILD_HANGS],
  [GARBAGE_SIGNED, CHILD_KILLED],
  [NO_SESSION_LEFT, MODULE_CRASHES],
  [PIN_CHANGED, TOKEN_VANISHES],
];

/** Longer than the pauses after which anything but a refused PIN is tried again. */
const PIN_PATIENCE_MS = 1200;

interface House {
  sandbox: Sandbox;
  daemon: Daemon;
  client: Client;
  traffic: Traffic;
  quorum: number;
}

/** A partition that is struck. */
interface Victim {
  partition: PartitionOptions;
  fault: Fault;
}

async function openHouse(t: Test, quorum: number, algorithm: ClassicalAlgorithm): Promise<House> {
  const module = buildFaultyModule(t.testdir());
  const sandbox = await openSandbox({
    regions: ['eu', 'us', 'ap'],
    quorum,
    algorithm,
    tables: { kms: 'sign_timeout = "6s"' },
    equip: (partition) => behindFaulty(partition, module),
  });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const traffic = new Traffic(client, ['blocking', 'blocking', 'blocking', 'async', 'async']);
  return { sandbox, daemon, client, traffic, quorum };
}

function isOf({ partition }: Record<string, unknown>, region: string): boolean {
  return String(partition).startsWith(`${region}/`);
}

/** Codes of the failures the daemon reported of the partition from that time on. */
function failuresOf(daemon: Daemon, { region }: PartitionOptions, since: number): unknown[] {
  return daemon.log
    .filter((entry) => isOf(entry, region) && Date.parse(String(entry.time)) >= since)
    .map(({ code }) => code);
}

/** By the newest state the daemon reported of the partition. */
function isReady({ daemon }: House, { region }: PartitionOptions): boolean {
  return daemon.log.findLast((entry) => isOf(entry, region) && 'state' in entry)?.state === 'ready';
}

/** A partition of its own for each fault, starting with another one every time. */
function victimsOf({ sandbox }: House, faults: Fault[], turn: number): Victim[] {
  const { partitions } = sandbox;
  return faults.flatMap((fault, n) => {
    const partition = partitions[(turn + n) % partitions.length];
    return partition ? [{ partition, fault }] : [];
  });
}

async function play(t: Test, house: House, victims: Victim[]): Promise<void> {
  const { daemon, sandbox, traffic } = house;
  const bearable = sandbox.partitions.length - victims.length >= house.quorum;
  const struckAt = Date.now();
  const mends = victims.map(({ fault, partition }) => fault.strike(partition, daemon));
  for (const { partition, fault } of victims) {
    const reported = () => failuresOf(daemon, partition, struckAt).includes(fault.code);
    await until(`${partition.region} is lost to ${fault.code}`, reported);
  }
  const noticedAt = Date.now();
  if (bearable) await until('others sign', () => traffic.since(noticedAt, 'blocking').length >= 5);
  else await refusedAndKept(t, house, noticedAt);
  for (const victim of victims.filter(({ fault }) => fault === PIN_CHANGED)) {
    await triedOnce(t, victim);
  }

  const mendedAt = Date.now();
  for (const mend of mends) mend();
  await until('a job is sealed', () => traffic.since(mendedAt, 'blocking').some(isServed));
  const resumedAt = Math.min(...traffic.since(mendedAt, 'blocking').filter(isServed).map(answerTime));
  await until('all partitions are back', () => sandbox.partitions.every((one) => isReady(house, one)));
  const backAt = Date.now();
  const answers = traffic.since(struckAt);
  if (bearable)
    t.strictSame(
      answers.filter((one) => !isServed(one)),
      [],
      'no request fails',
    );
  else
    t.strictSame(
      answers.filter((one) => !isServed(one) && !isRefusal(one)),
      [],
      'refused at worst',
    );
  const slowest = Math.max(...answers.map((one) => one.answeredAt - one.startedAt));
  t.comment(
    `lost after ${noticedAt - struckAt} ms; ${bearable ? '' : `sealing ${resumedAt - mendedAt} ms after the return, `}` +
      `all back ${backAt - mendedAt} ms after it; ${answers.length} answers, slowest ${slowest} ms`,
  );
}

function answerTime({ answeredAt }: TrafficAnswer): number {
  return answeredAt;
}

/** The 503 that says when to come back. */
function isRefusal({ mode, status, code, retryAfter }: TrafficAnswer): boolean {
  return (
    mode === 'blocking' &&
    status === 503 &&
    code === 'kms_partition_unavailable' &&
    /^[1-9]\d*$/.test(retryAfter ?? '')
  );
}

/** Below the quorum: blocking creates are refused, asynchronous ones accepted and kept. */
async function refusedAndKept(t: Test, { client, traffic }: House, since: number): Promise<void> {
  const refusals = () => traffic.since(since, 'blocking').filter(isRefusal);
  const accepted = () => traffic.since(since, 'async').filter(isServed);
  await until('both are answered', () => refusals().length >= 3 && accepted().length >= 3);
  for (const { jobId } of accepted()) {
    const job = (await client.get(`/v1/jobs/${jobId}`)).json<JobBody>();
    t.match(job.phase, /^(queued|sealing)$/, `${jobId} waits`);
  }
}

async function triedOnce(t: Test, { partition }: Victim): Promise<void> {
  const refused = refusedLogins(partition);
  await sleep(PIN_PATIENCE_MS);
  t.equal(refusedLogins(partition), refused, 'the refused PIN is not tried again');
}

const DOCUMENT = {
  sha256: createHash('sha256').update(TRAFFIC_DOCUMENT).digest('hex'),
  sha512: createHash('sha512').update(TRAFFIC_DOCUMENT).digest('hex'),
  bytes: TRAFFIC_DOCUMENT.length,
};

/** Every accepted job has a good receipt; returns their checkpoints. */
async function readReceipts(t: Test, { client, traffic }: House, trust: TrustFile): Promise<Set<string>> {
  const checkpoints = new Set<string>();
  for (const { jobId } of traffic.answers.filter(isServed)) {
    const path = `/v1/jobs/${jobId}/receipt.json`;
    await until(`${jobId} has a receipt`, async () => (await client.get(path)).status === 200);
    const receipt = (await client.get(path)).json<Receipt>();
    const { outcome, checks } = verifyReceipt({ document: DOCUMENT, receipt, trust });
    if (outcome !== 'good') t.fail(`${jobId}: ${JSON.stringify(checks)}`);
    checkpoints.add(receipt.evidence.checkpoint);
  }
  return checkpoints;
}

/** How many signatures a checkpoint has; throws when one of them is not by a trusted key over it. */
function countSignatures(checkpoint: string, { origin, epochs }: TrustedLog): number {
  const note = parseNote(checkpoint);
  if (!note) throw new Error(`not a note: ${checkpoint}`);
  for (const { keyId, signature } of note.signatures) {
    const key = epochs[0]?.keys.find((one) => bytesEqual(noteKeyId(origin, one), keyId));
    if (!key || !verifySignature(key, Buffer.from(note.text), signature)) {
      throw new Error(`a bad signature in ${checkpoint}`);
    }
  }
  return note.signatures.length;
}

// What two can bear without the third, one of three bears too.
for (const { quorum, algorithm, events } of [
  { quorum: 1, algorithm: 'ed25519', events: [...SINGLES.slice(0, 1), ...PAIRS] },
  { quorum: 2, algorithm: 'ecdsa-p256', events: [...SINGLES, ...PAIRS] },
] as const) {
  t.test(`a quorum of ${quorum} of 3`, async (t) => {
    const house = await openHouse(t, quorum, algorithm);
    const { daemon, sandbox, traffic } = house;
    await until('there is load', () => traffic.answers.length >= 20);
    const struck: Victim[] = [];
    for (const [turn, faults] of events.entries()) {
      const victims = victimsOf(house, faults, turn);
      const name = victims.map(({ fault, partition }) => `${fault.name} (${partition.region})`).join(', ');
      await t.test(name, (t) => play(t, house, victims));
      struck.push(...victims);
    }
    await traffic.stop();

    const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
    const [log] = trust.logs;
    if (!log) throw new Error('a trust file without a log');
    t.match(log.epochs, [{ quorum: { needed: quorum } }], 'receipts are held to the quorum');
    const checkpoints = await readReceipts(t, house, trust);
    const counts = Array.from(checkpoints, (checkpoint) => countSignatures(checkpoint, log));
    t.ok(counts.includes(3), 'with all partitions, all sign');
    t.ok(counts.includes(2), 'without one, the others do');
    t.equal(counts.includes(1), quorum === 1, 'and one alone does where that is the quorum');
    t.comment(`${traffic.answers.length} answers, ${checkpoints.size} checkpoints`);

    for (const partition of sandbox.partitions) {
      const suffered = (fault: Fault) =>
        struck.filter((one) => one.partition === partition && one.fault === fault).length;
      t.equal(refusedLogins(partition), suffered(PIN_CHANGED), `${partition.region}: each wrong PIN once`);
      for (const [fault, name] of [
        [MODULE_CRASHES, 'crash'],
        [GARBAGE_SIGNED, 'garbage'],
        [NO_SESSION_LEFT, 'sessions'],
      ] as const) {
        t.equal(
          faultsPlayed(partition, name) > 0,
          suffered(fault) > 0,
          `${partition.region}: ${name} played`,
        );
      }
    }
    t.equal(await daemon.stop(), 0, 'an orderly end');
    t.equal(daemon.stderr, '', 'nothing unforeseen');
    const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
    t.equal(check.status, 0, check.stdout + check.stderr);
  });
}
