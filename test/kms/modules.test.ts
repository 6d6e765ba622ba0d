/** One life of an installation, from its first key to its restart, on each PKCS#11 module that can be had on this machine. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import { planKeys } from '../journeys/plannedEpochs.ts';
import { askAdmin } from '../support/admin.ts';
import { makeAuthority, openssl } from '../support/certificates.ts';
import {
  Client,
  digestsOf,
  isServed,
  type JobBody,
  TRAFFIC_DOCUMENT,
  Traffic,
  type TrafficAnswer,
} from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { killSigners } from '../support/faults.ts';
import { type Device, type DeviceModule, MODULES, tokenOn } from '../support/modules.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { missingModules, takeTurns } from './quorumOfModules.ts';

const REGION = 'local';
const [FIRST_KEY, NEXT_KEY] = ['sandbox-2026', 'sandbox-2026-e2'];
const DOCUMENT = digestsOf(TRAFFIC_DOCUMENT);

interface House {
  module: DeviceModule;
  device: Device;
  sandbox: Sandbox;
  client: Client;
  daemon: Daemon;
  pdfseal(...args: string[]): ReturnType<Sandbox['pdfseal']>;
}

for (const module of MODULES)
  t.test(module.name, async (t) => {
    const missing = module.missing?.();
    if (missing !== undefined) return t.comment(`${module.name} cannot be had here: ${missing}`);
    const device = await module.start(t);
    const house = await moveIn(t, module, device);
    await t.test('one and 64 connections', (t) => sealFrom(t, house, 1, 64));
    await t.test('a drill', (t) => rehearse(t, house));
    await t.test('signers end by SIGKILL', (t) => killUnderLoad(t, house));
    await t.test('the token is lost, and returns', (t) => loseAndReturn(t, house));
    const from = await planKeys(house);
    await t.test('commands while documents are sealed', (t) => lookOn(t, house));
    await t.test('a new key, and the end of the old one', (t) => rotate(t, house, from));
    await t.test('a wrong PIN', (t) => presentWrongPin(t, house));
    await t.test('64 sessions', (t) => sealFrom(t, house, 64));
    await t.test('the end', (t) => moveOut(t, house));
  });

t.test('a quorum of three modules bears the loss of each', async (t) => {
  const missing = missingModules();
  if (missing !== undefined) return t.comment(`the quorum cannot be had here: ${missing}`);
  const { failed, turns, ...report } = await takeTurns(t, { totalMs: 0, awayMs: 500 });
  t.strictSame(failed, [], 'no request fails');
  t.equal(turns, 3);
  t.comment(JSON.stringify(report));
});

/** Keys, a certificate for time-stamps from an authority outside, a daemon, and the first document. */
async function moveIn(t: Test, module: DeviceModule, device: Device): Promise<House> {
  const sandbox = await openSandbox({
    token: tokenOn(module, device),
    init: false,
    stamped: true,
    apart: true,
    tables: { kms: 'sessions = 16' },
  });
  t.teardown(() => sandbox.close());
  sandbox.through = device.through ?? [];
  const pdfseal = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  const algorithms = ['--algorithm', module.log ?? 'ed25519', '--timestamp-algorithm', module.timestamp];
  await sandbox.init('--external-ca', ...algorithms);
  await certify(t, sandbox, pdfseal);
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  const house = { module, device, sandbox, client, daemon, pdfseal };
  await t.test('submit and verify', (t) => submitAndVerify(t, house));
  return house;
}

async function certify(t: Test, sandbox: Sandbox, pdfseal: House['pdfseal']): Promise<void> {
  const file = (name: string) => join(sandbox.dir, name);
  const root = makeAuthority(sandbox.dir, 'outside');
  const { stdout: request } = await pdfseal('hsm', 'csr', '--subject', 'CN=Time-stamping unit');
  writeFileSync(file('tsa.csr'), request);
  const authority = ['-CA', root.certificateFile, '-CAkey', root.keyFile, '-days', '20'];
  const extensions = ['-copy_extensions', 'copyall'];
  openssl('x509', '-req', '-in', file('tsa.csr'), '-out', file('tsa.pem'), ...authority, ...extensions);
  const installed = await pdfseal('hsm', 'install-certificate', file('tsa.pem'), root.certificateFile);
  t.equal(installed.status, 0, installed.stderr);
  const exported = await pdfseal('trust', 'export', '--output', sandbox.trustFile);
  t.equal(exported.status, 0, exported.stderr);
}

async function submitAndVerify(t: Test, { sandbox, pdfseal }: House): Promise<void> {
  const [document, key] = [join(sandbox.dir, 'document.pdf'), join(sandbox.dir, 'key')];
  writeFileSync(document, TRAFFIC_DOCUMENT);
  writeFileSync(key, await sandbox.issueKey('submitter'), { mode: 0o600 });
  const where = ['--url', sandbox.url, '--key-file', key, '--visibility', 'private'];
  const submitted = await sandbox.pdfseal(['submit', document, ...where]);
  t.equal(submitted.status, 0, submitted.stderr);
  const trust = ['--trust', sandbox.trustFile];
  const verified = await sandbox.pdfseal(['verify', document, `${document}.receipt.json`, ...trust]);
  t.equal(verified.status, 0, verified.stdout + verified.stderr);
  const listed = await pdfseal('hsm', 'list');
  t.equal(listed.status, 0, listed.stdout + listed.stderr);
}

/** Every connection gets its document sealed, at the same time. */
async function sealFrom(t: Test, { client, sandbox }: House, ...connections: number[]): Promise<void> {
  for (const count of connections) {
    const sealing = Array.from({ length: count }, () => client.seal(TRAFFIC_DOCUMENT, { mode: 'blocking' }));
    const bodies = (await Promise.all(sealing)).map((answer) => answer.json<JobBody>());
    t.strictSame(
      bodies.filter(({ phase }) => phase !== 'completed'),
      [],
      `${count} at a time`,
    );
    await verifyJobs(
      t,
      client,
      sandbox,
      bodies.map(({ id }) => id),
    );
  }
}

/** What a person asks while the daemon works logs nobody out, and takes no session away. */
async function lookOn(t: Test, house: House): Promise<void> {
  await underLoad(t, house, async () => {
    for (let turn = 0; turn < 5; turn += 1) {
      const { status, stdout, stderr } = await house.pdfseal('hsm', 'list');
      t.equal(status, 0, stdout + stderr);
    }
    const doctor = await house.pdfseal('doctor', '--json');
    t.notMatch(doctor.stdout, /CKR_|signer_/, 'doctor finds nothing wrong with the token');
  });
}

/** The only partition of the log, so nothing can be sealed meanwhile. */
async function rehearse(t: Test, { pdfseal }: House): Promise<void> {
  const drill = ['hsm', 'drill', '--partition', REGION, '--for', '2s', '--below-quorum'];
  const { status, stdout, stderr } = await pdfseal(...drill);
  t.equal(status, 0, stdout + stderr);
}

async function killUnderLoad(t: Test, house: House): Promise<void> {
  await disturb(t, house, async (traffic) => {
    const struckAt = Date.now();
    t.ok(killSigners(house.daemon, REGION) >= 2, 'those of the log and of time-stamps');
    return () => traffic.since(struckAt, 'blocking').some(isServed);
  });
}

async function loseAndReturn(t: Test, house: House): Promise<void> {
  const { device, daemon } = house;
  await disturb(t, house, async (traffic) => {
    const leftAt = Date.now();
    await device.leave(() => killSigners(daemon, REGION));
    await until('it is noticed', () => traffic.since(leftAt, 'blocking').some(isRefused));
    const backAt = Date.now();
    await device.comeBack();
    return () => traffic.since(backAt, 'blocking').some(isServed);
  });
}

async function rotate(t: Test, house: House, from: number): Promise<void> {
  const { pdfseal, client } = house;
  await underLoad(t, house, async (traffic) => {
    await sleep(Math.max(0, from - Date.now()));
    await until('the new key is used', () => traffic.since(from, 'blocking').some(isServed));
    const confirmed = [`${REGION}/${FIRST_KEY}`, '--confirm', FIRST_KEY];
    const destroyed = await pdfseal('hsm', 'destroy-key', ...confirmed);
    t.equal(destroyed.status, 0, destroyed.stderr);
    const after = traffic.since(from, 'blocking').findLast(isServed);
    const receipt = await client.get(`/v1/jobs/${after?.jobId}/receipt.json`);
    t.equal(receipt.json<Receipt>().kms_key_id, `${REGION}/${NEXT_KEY}`);
  });
}

/** It is presented once, however often the daemon is started; and the right one is accepted after it. */
async function presentWrongPin(t: Test, house: House): Promise<void> {
  const { module, sandbox, daemon, device } = house;
  t.equal(await daemon.stop(), 0);
  t.equal(daemon.stderr, '', 'nothing unforeseen');
  const pin = readFileSync(device.token.pinFile);
  writeFileSync(device.token.pinFile, '0001wrong-pin\n');
  t.match(await sandbox.pdfseald(), { status: 1, stderr: new RegExp(`\\(${module.wrongPin}\\)`) });
  t.match(await sandbox.pdfseald(), { status: 1, stderr: /\(pin_refused\)/ });
  writeFileSync(device.token.pinFile, pin);
  const text = readFileSync(sandbox.configFile, 'utf8');
  writeFileSync(sandbox.configFile, text.replace('sessions = 16', 'sessions = 64'));
  house.daemon = await sandbox.start();
}

async function moveOut(t: Test, { sandbox, daemon, pdfseal }: House): Promise<void> {
  const { partitions } = (await askAdmin(sandbox, '/status')).json<AdminStatus>();
  t.match(partitions, { signing: 1 });
  t.equal(await daemon.stop(), 0);
  t.equal(daemon.stderr, '', 'nothing unforeseen');
  const check = await pdfseal('check');
  t.equal(check.status, 0, check.stdout + check.stderr);
}

/** Clients seal while `act` goes on, and none of them is refused. */
async function underLoad(t: Test, house: House, act: (traffic: Traffic) => Promise<void>): Promise<void> {
  const { client, sandbox } = house;
  const traffic = new Traffic(client, ['blocking', 'blocking', 'async']);
  await act(traffic).finally(() => traffic.stop());
  t.strictSame(
    traffic.answers.filter((one) => !isServed(one)),
    [],
    'no request fails',
  );
  await verifyJobs(t, client, sandbox, servedJobs(traffic));
}

/** Clients are refused at worst while `act` and what it leaves go on, until what it returns holds; what was accepted is sealed. */
async function disturb(
  t: Test,
  { client, sandbox }: House,
  act: (traffic: Traffic) => Promise<() => boolean>,
): Promise<void> {
  const traffic = new Traffic(client, ['blocking', 'blocking', 'async']);
  await until('there is load', () => traffic.answers.filter(isServed).length >= 5);
  const isOver = await act(traffic);
  await until('it is over', isOver).finally(() => traffic.stop());
  t.strictSame(
    traffic.answers.filter((one) => !isServed(one) && !isRefused(one)),
    [],
    'refused at worst',
  );
  await verifyJobs(t, client, sandbox, servedJobs(traffic));
}

function servedJobs(traffic: Traffic): string[] {
  return traffic.answers.filter(isServed).flatMap(({ jobId }) => jobId ?? []);
}

/** The 503 that says when to come back. */
function isRefused({ status, retryAfter }: TrafficAnswer): boolean {
  return status === 503 && /^[1-9]\d*$/.test(retryAfter ?? '');
}

/** Each of these jobs has a good receipt, or soon gets one. */
async function verifyJobs(t: Test, client: Client, sandbox: Sandbox, jobs: string[]): Promise<void> {
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  const verdicts = new Set<string>();
  for (const job of jobs) {
    const path = `/v1/jobs/${job}/receipt.json`;
    await until(`${job} has a receipt`, async () => (await client.get(path)).status === 200);
    const receipt = (await client.get(path)).json<Receipt>();
    const { outcome, checks } = verifyReceipt({ document: DOCUMENT, receipt, trust });
    verdicts.add(outcome === 'good' ? outcome : `${job}: ${JSON.stringify(checks)}`);
  }
  t.strictSame([...verdicts], ['good'], `${jobs.length} receipts`);
}
