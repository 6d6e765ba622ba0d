/** A log whose keys change at a moment soon, and the receipts from before it and after. */
import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import { sha256, sha512 } from '../../src/base/crypto.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import { Client, TRAFFIC_DOCUMENT } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const DOCUMENT = {
  sha256: toHex(sha256(TRAFFIC_DOCUMENT)),
  sha512: toHex(sha512(TRAFFIC_DOCUMENT)),
  bytes: TRAFFIC_DOCUMENT.length,
};

const NEW_KEY = 'sandbox-2026-e2';
/** How long before its beginning an epoch is cancelled at the latest. */
const MARGIN_MS = 10_000;

export interface House {
  sandbox: Sandbox;
  daemon: Daemon;
  client: Client;
}

export async function openHouse(t: Test): Promise<House> {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2, stamped: true });
  t.teardown(() => sandbox.close());
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  return { sandbox, daemon, client };
}

/** Plans new keys for a moment soon, but late enough for a busy machine to open them before; milliseconds since the epoch. */
export async function planKeys({ sandbox, daemon }: House): Promise<number> {
  const pdfseal = (...args: string[]) => sandbox.pdfseal(['epochs', ...args, '--config', sandbox.configFile]);
  const isOpen = (partition: string) =>
    daemon.log.some((line) => line.partition === partition && line.msg === 'HSM partition ready');
  for (const seconds of [20, 60, 180]) {
    const from = Math.ceil(Date.now() / 1000 + seconds) * 1000;
    const at = new Date(from).toISOString().replace('.000', '');
    const { status, stderr } = await pdfseal('plan', '--from', at, '--use-existing-keys');
    if (status !== 0) {
      if (stderr.includes('too soon')) continue;
      throw new Error(stderr);
    }
    const areOpen = () => sandbox.partitions.every(({ region }) => isOpen(`${region}/${NEW_KEY}`));
    await until('the new keys are open, or it is late', () => areOpen() || Date.now() > from - MARGIN_MS);
    if (areOpen()) return from;
    const cancelled = await pdfseal('cancel');
    if (cancelled.status !== 0) throw new Error(cancelled.stderr);
  }
  throw new Error('no moment is late enough');
}

const KEYS = { before: 'eu/sandbox-2026', after: `eu/${NEW_KEY}` };

/** Holds that the receipts of these jobs are good, each with the key of its time, and that there are some from before `from` and from after it. */
export async function checkReceipts(
  t: Test,
  { sandbox, client }: House,
  jobIds: Iterable<string>,
  from: number,
): Promise<void> {
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  const counts = { before: 0, after: 0 };
  for (const jobId of jobIds) {
    const path = `/v1/jobs/${jobId}/receipt.json`;
    await until(`${jobId} has a receipt`, async () => (await client.get(path)).status === 200);
    const receipt = (await client.get(path)).json<Receipt>();
    const { outcome, checks } = verifyReceipt({ document: DOCUMENT, receipt, trust });
    if (outcome !== 'good') t.fail(`${jobId}: ${JSON.stringify(checks)}`);
    const when = Date.parse(receipt.sealed_at) < from ? 'before' : 'after';
    if (receipt.kms_key_id !== KEYS[when])
      t.fail(`${jobId} was sealed at ${receipt.sealed_at} by ${receipt.kms_key_id}`);
    counts[when] += 1;
  }
  t.ok(counts.before > 0 && counts.after > 0, JSON.stringify(counts));
}

export async function checkStore(t: Test, { sandbox }: House): Promise<void> {
  const { status, stdout, stderr } = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  t.equal(status, 0, stdout + stderr);
}
