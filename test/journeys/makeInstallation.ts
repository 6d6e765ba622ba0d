/**
 * Makes a fixture for `test/journeys/upgrade.test.ts`: an installation as a version leaves it when it is killed, and what its clients
 * were told. Run once for each release, with a checkout of it in which `sh test/setup.sh` has compiled the programs:
 *
 *     node test/journeys/makeInstallation.ts CHECKOUT test/vectors/installations/VERSION.tar.gz
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type JobBody } from '../support/client.ts';
import { metadata, onePage, pdfFile } from '../support/pdf.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';
import { PLACE, PREINST, type Told, trailOf } from './installation.ts';

const SCOPES = 'jobs:create,jobs:read,webhooks:manage';
/** No server listens on this port: what is sent there waits. */
const NOBODY = 'http://127.0.0.1:9/hook';

async function sealSome(client: Client, told: Told): Promise<void> {
  for (const [n, visibility] of ['private', 'organization', 'partner'].entries()) {
    const document = Buffer.from(pdfFile({ ...onePage(`/Metadata 5 0 R /N ${n}`), 5: metadata() }));
    const fields = {
      visibility,
      mode: 'blocking',
      purpose: 'invoice',
      customer_reference: `№ ${n} of ${told.sealed.length}`,
    };
    const key = `installation-${told.sealed.length}`;
    const answer = await client.seal(document, fields, { 'Idempotency-Key': key });
    if (answer.status !== 202) throw new Error(answer.text);
    const { id } = answer.json<JobBody>();
    const receipt = await client.get(`/v1/jobs/${id}/receipt.json`);
    told.sealed.push({
      document: document.toString('base64'),
      fields,
      key,
      answer: answer.text,
      receipt: receipt.text,
    });
  }
}

/** Another key in one partition, so that there are receipts of two epochs. */
async function changeEpoch(sandbox: Sandbox): Promise<void> {
  const from = new Date(Date.now() + 20_000).toISOString().replace(/\.\d+/, '');
  const args = [
    'epochs',
    'plan',
    '--config',
    sandbox.configFile,
    '--from',
    from,
    '--new-keys',
    'eu/sandbox-2026',
  ];
  const { status, stderr } = await sandbox.pdfseal(args);
  if (status !== 0) throw new Error(stderr);
  await sleep(25_000);
}

/** Accepted, with no partition left that could seal it. */
async function leaveOneWaiting(sandbox: Sandbox, client: Client, told: Told): Promise<void> {
  const bringBack = sandbox.partitions.map(takeToken);
  const obstructed = async () =>
    (await client.seal(Buffer.from(pdfFile(onePage())), { mode: 'blocking' })).status === 503;
  await until('nothing can be sealed', obstructed);
  const answer = await client.seal(Buffer.from(pdfFile(onePage('/N 99'))), { mode: 'async' });
  told.waiting.push(answer.json<JobBody>().id);
  await sandbox.kill();
  for (const bring of bringBack) bring();
}

const [checkout, out] = process.argv.slice(2);
if (checkout === undefined || out === undefined) throw new Error('name the checkout, and the file to write');
const sandbox = await openSandbox({
  fresh: true,
  code: { dist: resolve(checkout, 'dist') },
  regions: ['eu', 'us'],
  stamped: true,
  head: 'compliance_mode = true',
  tables: {
    http: 'public_url = "http://seal.example.com"',
    // Each is repeated for longer than this takes, and again soon after the upgrade.
    webhooks: `allow = ["127.0.0.0/8"]\nretries = [${Array(32).fill('"1s"').join(', ')}]\nprobe_interval = "1s"`,
    kms: 'sign_timeout = "2s"',
  },
  tail: '[retention]\ndocument_hours = 87600\n[quotas.default]\njobs = 1000\nwindow = "366d"\n',
});
try {
  const config = readFileSync(sandbox.configFile, 'utf8');
  writeFileSync(sandbox.configFile, config.replaceAll(/, NODE_COMPILE_CACHE = "[^"]*"/g, ''));
  await sandbox.start();
  const apiKey = await sandbox.issueKey('alpha', 'acme', '--scopes', SCOPES);
  const told: Told = { apiKey, webhookEndpoint: '', webhookSecret: '', trail: [], sealed: [], waiting: [] };
  const client = await Client.connect(sandbox.url, apiKey);
  const body = JSON.stringify({ url: NOBODY });
  const made = await client.request('POST', '/v1/webhook-endpoints', {
    headers: { 'Content-Type': 'application/json' },
    body,
  });
  if (made.status !== 201) throw new Error(made.text);
  const { id, secret } = made.json<{ id: string; secret: string }>();
  Object.assign(told, { webhookEndpoint: id, webhookSecret: secret });
  await sealSome(client, told);
  const replaced = await sandbox.issueKey('beta', 'acme', '--scopes', 'jobs:read');
  const rotation = await client.as(replaced).request('POST', '/v1/keys/rotate', {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ overlap_seconds: 30 * 86_400 }),
  });
  if (rotation.status !== 200) throw new Error(rotation.text);
  await changeEpoch(sandbox);
  await sealSome(client, told);
  await leaveOneWaiting(sandbox, client, told);
  told.trail = await trailOf(sandbox);
  writeFileSync(join(sandbox.dir, 'told.json'), JSON.stringify(told));
  copyFileSync(resolve(checkout, 'systemd/bundle/debian/preinst'), join(sandbox.dir, PREINST));
  // Paths in it are of the folder it was made in; whoever unpacks it puts its own in their place.
  writeFileSync(join(sandbox.dir, PLACE), sandbox.dir);
  execFileSync('tar', [
    '-czf',
    resolve(out),
    '-C',
    sandbox.dir,
    '--exclude=*.sock',
    '--sort=name',
    '--owner=0',
    '--group=0',
    '.',
  ]);
} finally {
  await sandbox.close();
}
