/** New keys while documents are sealed: nobody notices, old and new receipts verify with one trust file, and a kill loses nothing. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import { sha256, sha512 } from '../../src/base/crypto.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust, type TrustFile } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify.ts';
import { Client, isServed, type JobBody, TRAFFIC_DOCUMENT, Traffic } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const DOCUMENT = {
  sha256: toHex(sha256(TRAFFIC_DOCUMENT)),
  sha512: toHex(sha512(TRAFFIC_DOCUMENT)),
  bytes: TRAFFIC_DOCUMENT.length,
};

/** What is read one by one lies so near to the switch; the check verifies all of it. */
const NEAR_MS = 1500;
const NEAR_JOBS = 50;
/** Between one create and the next: enough to have one in every batch, little enough to leave the machine alone. */
const PAUSE_MS = 25;

interface House {
  sandbox: Sandbox;
  daemon: Daemon;
  client: Client;
}

async function openHouse(t: Test): Promise<House> {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2, stamped: true });
  t.teardown(() => sandbox.close());
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  return { sandbox, daemon, client };
}

/** Plans new keys for a moment soon; milliseconds since the epoch. On a slow machine soon is later. */
async function plan({ sandbox }: House): Promise<number> {
  for (const seconds of [9, 30, 90]) {
    const from = Math.ceil(Date.now() / 1000 + seconds) * 1000;
    const args = ['--from', new Date(from).toISOString().replace('.000', ''), '--use-existing-keys'];
    const { status, stderr } = await sandbox.pdfseal([
      'epochs',
      'plan',
      '--config',
      sandbox.configFile,
      ...args,
    ]);
    if (status === 0) return from;
    if (!stderr.includes('too soon')) throw new Error(stderr);
  }
  throw new Error('no moment is late enough');
}

function hasLogged({ log }: Daemon, message: string): boolean {
  return log.some(({ msg }) => msg === message);
}

/** The receipts of these jobs, each good under the trust file, by the epoch that sealed them: before `from`, and after. */
async function readReceipts(
  t: Test,
  client: Client,
  jobIds: Iterable<string>,
  trust: TrustFile,
  from: number,
): Promise<{ before: Receipt[]; after: Receipt[] }> {
  const receipts: Receipt[] = [];
  for (const jobId of jobIds) {
    const path = `/v1/jobs/${jobId}/receipt.json`;
    await until(`${jobId} has a receipt`, async () => (await client.get(path)).status === 200);
    const receipt = (await client.get(path)).json<Receipt>();
    const { outcome, checks } = verifyReceipt({ document: DOCUMENT, receipt, trust });
    if (outcome !== 'good') t.fail(`${jobId}: ${JSON.stringify(checks)}`);
    const key = Date.parse(receipt.sealed_at) < from ? 'eu/sandbox-2026' : 'eu/sandbox-2026-e2';
    if (receipt.kms_key_id !== key)
      t.fail(`${jobId} was sealed at ${receipt.sealed_at} by ${receipt.kms_key_id}`);
    receipts.push(receipt);
  }
  const isBefore = ({ sealed_at }: Receipt) => Date.parse(sealed_at) < from;
  return { before: receipts.filter(isBefore), after: receipts.filter((receipt) => !isBefore(receipt)) };
}

async function storeCheck(t: Test, { sandbox }: House): Promise<void> {
  const { status, stdout, stderr } = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  t.equal(status, 0, stdout + stderr);
}

/** Under load all the time: no request fails, and the old keys can be destroyed afterwards. */
async function rotateUnderLoad(t: Test, house: House): Promise<void> {
  const { sandbox, daemon, client } = house;
  const traffic = new Traffic(client, ['blocking', 'blocking', 'async']);
  const from = await plan(house);
  await until('the new keys are opened', () =>
    hasLogged(daemon, 'an epoch is planned; its keys are being opened'),
  );
  await sleep(from - Date.now());
  await until('it is used', () => traffic.since(from, 'blocking').length >= 10);
  const retired = ['eu/sandbox-2026', '--config', sandbox.configFile, '--confirm', 'sandbox-2026'];
  const destroyed = await sandbox.pdfseal(['hsm', 'destroy-key', ...retired]);
  t.match(destroyed, { status: 0 }, 'a retired key can be destroyed while the next one signs');
  await traffic.stop();
  t.strictSame(
    traffic.answers.filter((answer) => !isServed(answer)),
    [],
    'no request failed',
  );
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  const jobIds = traffic.since(from - NEAR_MS).flatMap(({ jobId }) => jobId ?? []);
  const { before, after } = await readReceipts(t, client, jobIds, trust, from);
  t.ok(before.length > 0 && after.length > 0, `${before.length} receipts before, ${after.length} after`);
  t.ok(hasLogged(daemon, 'an epoch begins; the keys of the previous epoch are retired'));
  await storeCheck(t, house);
  t.equal(await daemon.stop(), 0);
  t.equal(daemon.stderr, '');
}

/** Killed just before the switch, back just after it: every accepted job gets its receipt, by whichever epoch. */
async function killAround(t: Test, house: House): Promise<void> {
  const { sandbox, daemon, client } = house;
  const from = await plan(house);
  const accepted: string[] = [];
  const killed = sleep(from - Date.now() - 20).then(() => daemon.kill());
  for (let alive = true; alive; ) {
    const answer = await client.seal(TRAFFIC_DOCUMENT, { mode: 'async' }).catch(() => undefined);
    if (answer?.status === 202) accepted.push(answer.json<JobBody>().id);
    alive = answer !== undefined;
    await sleep(PAUSE_MS);
  }
  await killed;
  const next = await sandbox.start();
  const late = await client.seal(TRAFFIC_DOCUMENT, { mode: 'blocking' });
  t.equal(late.status, 202);
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  const { before, after } = await readReceipts(
    t,
    client,
    [...accepted.slice(-NEAR_JOBS), late.json<JobBody>().id],
    trust,
    from,
  );
  t.ok(before.length > 0 && after.length > 0, `${before.length} receipts before, ${after.length} after`);
  await storeCheck(t, house);
  t.equal(await next.stop(), 0);
}

t.test('new keys come into force under load and through kills', async (t) => {
  const [calm, killed] = await Promise.all([openHouse(t), openHouse(t)]);
  await Promise.all([rotateUnderLoad(t, calm), killAround(t, killed)]);
});
