/** A log that asks for a post-quantum signature: keys, seals, what is refused without it, and what every verdict says of a software key. */
import { readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { askAdmin } from '../support/admin.ts';
import { Client, type Envelope, type JobBody } from '../support/client.ts';
import { makeNssToken, nssTable } from '../support/nss.ts';
import { item } from '../support/partitions.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const RULE = '2 classical and 1 post-quantum';
const DOCUMENT = Buffer.from('%PDF-1.7\npost-quantum\n%%EOF\n');

/** A sandbox of two classical partitions and one more, which `table` describes, with keys and a store. */
async function openHouse(t: Test, table: (sandbox: Sandbox) => string): Promise<Sandbox> {
  const tables = { kms: `quorum = "${RULE}"`, health: 'canary_interval = "off"' };
  const sandbox = await openSandbox({ regions: ['eu', 'us'], init: false, tables });
  t.teardown(() => sandbox.close());
  const text = readFileSync(sandbox.configFile, 'utf8');
  const more = `[[kms.partitions]]\nregion = "eu"\nkey_label = "post-quantum"\nalgorithm = "mldsa44"\n${table(sandbox)}`;
  writeFileSync(sandbox.configFile, `${text}\n${more}\n`);
  await sandbox.init();
  return sandbox;
}

async function sealAndVerify(t: Test, sandbox: Sandbox, client: Client): Promise<{ files: string[] }> {
  const sealed = await client.seal(DOCUMENT, { mode: 'blocking' });
  t.equal(sealed.status, 202, sealed.text);
  const { id } = sealed.json<JobBody>();
  const receipt = await client.get(`/v1/jobs/${id}/receipt.json`);
  const files = [join(sandbox.dir, 'document.pdf'), join(sandbox.dir, 'receipt.json')] as const;
  writeFileSync(files[0], DOCUMENT);
  writeFileSync(files[1], receipt.text);
  const { checkpoint } = receipt.json<Receipt>().evidence;
  const lines = checkpoint.split('\n').filter((line) => line.startsWith('— '));
  t.strictSame(
    lines.map((line) => Buffer.from(line.split(' ')[2] ?? '', 'base64').length),
    [4 + 64, 4 + 64, 4 + 8 + 2420],
  );
  t.match(receipt.json(), { algorithm: 'pdfseal-v1.ed25519', kms_key_id: 'eu/sandbox-2026' });
  return { files: [...files, '--trust', sandbox.trustFile] };
}

async function statusOf(sandbox: Sandbox): Promise<AdminStatus> {
  return (await askAdmin(sandbox, '/status')).json<AdminStatus>();
}

async function memberOf(sandbox: Sandbox, name: string) {
  return item(
    (await statusOf(sandbox)).partitions.members.filter((one) => one.name === name),
    0,
  );
}

/** The receipt with its post-quantum line changed in one bit of the signature, or taken out. */
function forge(receiptFile: string, change: 'flip' | 'drop'): string {
  const receipt = JSON.parse(readFileSync(receiptFile, 'utf8'));
  const lines: string[] = receipt.evidence.checkpoint.split('\n');
  const at = lines.findIndex((line) => line.length > 3000);
  const [dash, name, base64 = ''] = lines[at]?.split(' ') ?? [];
  const bytes = Buffer.from(base64, 'base64');
  bytes[1000] = (bytes[1000] ?? 0) ^ 1;
  lines.splice(at, 1, ...(change === 'flip' ? [`${dash} ${name} ${bytes.toString('base64')}`] : []));
  receipt.evidence.checkpoint = lines.join('\n');
  const file = receiptFile.replace('.json', `-${change}.json`);
  writeFileSync(file, JSON.stringify(receipt));
  return file;
}

t.test('a token of NSS softoken makes its own post-quantum key, and signs with it', async (t) => {
  const sandbox = await openHouse(t, ({ dir }) => nssTable(makeNssToken(dir)));
  const { configFile } = sandbox;
  const apiKey = await sandbox.issueKey();
  await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const { files } = await sealAndVerify(t, sandbox, client);
  const verified = await sandbox.pdfseal(['verify', ...files]);
  t.equal(verified.status, 0, verified.stdout + verified.stderr);
  t.match(
    verified.stdout,
    /eu\/post-quantum: signed by 2 classical keys \(regions: eu, us\) and 1 post-quantum key/,
  );
  t.notMatch(verified.stdout, /software/);
  const list = await sandbox.pdfseal(['hsm', 'list', '--config', configFile]);
  t.match(
    list.stdout,
    /eu\/post-quantum +mldsa44 +ready +cannot leave the token, but it may have been imported\n/,
  );

  await t.test('without the token nothing is sealed, and with it everything is', async (t) => {
    const pin = join(sandbox.dir, 'nss', 'pin');
    renameSync(pin, `${pin}.away`);
    process.kill((await memberOf(sandbox, 'eu/post-quantum')).pid ?? -1, 'SIGKILL');
    await until(
      'it is lost',
      async () => (await memberOf(sandbox, 'eu/post-quantum')).state === 'unavailable',
    );
    const refused = await client.seal(DOCUMENT, { mode: 'blocking' });
    t.match(refused, { status: 503 });
    t.equal(refused.json<Envelope>().error.code, 'kms_partition_unavailable');
    const { partitions } = await statusOf(sandbox);
    t.match(partitions, { quorum: RULE, needed: 3, signing: 2 });
    renameSync(`${pin}.away`, pin);
    await until('it is back', async () => (await memberOf(sandbox, 'eu/post-quantum')).state === 'ready');
    await sealAndVerify(t, sandbox, client);
  });
});

t.test('a software post-quantum key', async (t) => {
  const folder = t.testdir();
  const file = join(folder, 'post-quantum.key');
  const other = await openSandbox({ init: false });
  t.teardown(() => other.close());
  const made = await other.pdfseal(['hsm', 'make-software-key', file]);
  t.equal(made.status, 0, made.stderr);
  t.equal(statSync(file).mode & 0o777, 0o600);
  const again = await other.pdfseal(['hsm', 'make-software-key', file]);
  t.match(again, { status: 1, stderr: /exists already, and this command never overwrites a file/ });
  const nowhere = await other.pdfseal(['hsm', 'make-software-key', join(folder, 'none', 'key')]);
  t.match(nowhere, { status: 1, stderr: /none\/key/ });
  t.strictSame(readdirSync(folder), ['post-quantum.key'], 'and leaves nothing behind');
  const sandbox = await openHouse(t, () => `software_key_file = "${file}"`);
  const { configFile } = sandbox;
  const apiKey = await sandbox.issueKey();
  await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const { files } = await sealAndVerify(t, sandbox, client);

  await t.test('the verdict names the software key', async (t) => {
    const { status, stdout, stderr } = await sandbox.pdfseal(['verify', ...files]);
    t.equal(status, 0, stdout + stderr);
    t.match(stdout, /eu\/sandbox-2026, us\/sandbox-2026, eu\/post-quantum \(software\)/);
    t.match(stdout, `needed: ${RULE}`);
    const json = await sandbox.pdfseal(['verify', ...files, '--json']);
    t.match(json.stdout, /eu\/post-quantum \(software\)/);
  });

  await t.test('without a right post-quantum signature, no receipt is good', async (t) => {
    const [document = '', receipt = '', ...trust] = files;
    for (const [change, why] of [
      ['flip', /signature of eu\/post-quantum is wrong/],
      ['drop', /signed by 2 classical keys .* and 0 post-quantum keys; needed/],
    ] as const) {
      const forged = forge(receipt, change);
      const { status, stdout } = await sandbox.pdfseal(['verify', document, forged, ...trust]);
      t.equal(status, 1);
      t.match(stdout, why, change);
    }
  });

  await t.test('trust file, epochs, list and doctor show the software key', async (t) => {
    const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
    const [epoch] = logs[0].epochs;
    t.equal(epoch.quorum, RULE);
    t.strictSame(
      epoch.keys.map(({ software }: { software?: boolean }) => software),
      [undefined, undefined, true],
    );
    const epochs = await sandbox.pdfseal(['epochs', 'list', '--config', configFile]);
    t.match(epochs.stdout, /eu\/post-quantum \(software\)/);
    const status = await sandbox.pdfseal(['status', '--config', configFile]);
    t.match(status.stdout, /eu\/post-quantum +ready \(software\) since/);
    const list = await sandbox.pdfseal(['hsm', 'list', '--config', configFile]);
    t.match(list.stdout, /eu\/post-quantum +mldsa44 +ready +none: a software key/);
    const trail = await sandbox.pdfseal(['check', '--config', configFile]);
    t.equal(trail.status, 0, trail.stdout + trail.stderr);
    const doctor = await sandbox.pdfseal(['doctor', '--config', configFile]);
    t.notMatch(doctor.stdout, /post-quantum key/);
  });

  await t.test('an epoch can be planned again with the same software key, and cancelled', async (t) => {
    const planned = await sandbox.pdfseal(['epochs', 'plan', '--config', configFile]);
    t.equal(planned.status, 0, planned.stderr);
    t.match(planned.stdout, /eu\/post-quantum \(software\) {2}mldsa44 {2}kept/);
    t.match(planned.stdout, /eu\/sandbox-2026-e2 {2}ed25519 {2}made/);
    t.equal((await sandbox.pdfseal(['epochs', 'cancel', '--config', configFile])).status, 0);
  });

  await t.test('the new software key of a cancelled epoch is destroyed with its file', async (t) => {
    const next = join(folder, 'next.key');
    t.equal((await other.pdfseal(['hsm', 'make-software-key', next])).status, 0);
    const text = readFileSync(configFile, 'utf8');
    const table = `[[kms.partitions]]\nregion = "eu"\nkey_label = "next"\nalgorithm = "mldsa44"\nsoftware_key_file = "${next}"\n`;
    writeFileSync(configFile, `${text}\n${table}`);
    const destroy = (label: string) =>
      sandbox.pdfseal(['hsm', 'destroy-key', `eu/${label}`, '--config', configFile, '--confirm', label]);
    const planned = await sandbox.pdfseal(['epochs', 'plan', '--config', configFile, '--new-keys', 'none']);
    t.match(planned, { status: 0, stdout: /eu\/next \(software\) +mldsa44 +found/ });
    const cancelled = await sandbox.pdfseal(['epochs', 'cancel', '--config', configFile]);
    t.match(cancelled, {
      status: 0,
      stderr: /^Its key eu\/next \(software\) .* remove the file and its copies$/m,
    });
    t.notMatch(cancelled.stderr, /destroy-key/);
    t.match(await destroy('next'), { status: 1, stderr: /key_not_found/ }, 'it is not asked of a file');
    writeFileSync(configFile, text);
  });
});
