/** Somebody who can write to the store, but has no key of the log, puts an epoch of their own into its past. */
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { Epoch } from '../../src/log/epochs.ts';
import { parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { encodeTrust, parseTrust, type TrustedLog, type TrustFile } from '../../src/manifest/trustFile.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import type { Databases } from '../../src/store/lmdb/databases.ts';
import { counterKey, idKey } from '../../src/store/lmdb/keyLayout.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { encodeRecord, parseRecord } from '../../src/store/records.ts';
import { Client } from '../support/client.ts';
import { onePage, pdfFile } from '../support/pdf.ts';
import { openSandbox } from '../support/sandbox.ts';
import { makeKey } from '../support/sealing.ts';
import { until } from '../support/until.ts';
import { tamper } from '../support/wholeStore.ts';

const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2, stamped: true });
t.teardown(() => sandbox.close());
const storeDir = join(sandbox.dir, 'state', 'store');
const kept = join(sandbox.dir, 'kept');
const exported = join(sandbox.dir, 'exported');
const trustFile = join(sandbox.dir, 'handed-out.json');
const run = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);

let trust: TrustFile;

interface Named {
  number: number;
  act: string;
}

/** The records about epochs, once all records are sealed. */
async function records(): Promise<Named[]> {
  const store = await openStore({ path: storeDir, readOnly: true });
  const entries = await store.trail.entries(0, 1000);
  await store.close();
  const named = entries.flatMap(({ text }) => parseAuditRecord(text) ?? []);
  return named.filter(({ act }) => /^(log|epoch)\./.test(act)).map(({ number, act }) => ({ number, act }));
}

/** Puts a list into the newest entry of the epochs. */
function change({ epochs }: Databases, edit: (list: Epoch[]) => Epoch[]): void {
  for (const { key, value } of epochs.getRange({ reverse: true, limit: 1 }))
    epochs.put(key, encodeRecord(edit(parseRecord<Epoch[]>(value))));
}

/** The list is put back as the log sealed it, and nothing else is lost. */
async function repairs(t: Test): Promise<void> {
  const repaired = await run('epochs', 'repair');
  t.match(repaired, { status: 0, stderr: /epoch \d: /, stdout: /^repaired\. / }, repaired.stderr);
  t.match(await run('check'), { status: 0, stderr: '' });
  t.match(await run('audit', 'list', '--act', 'index'), {
    stdout: /differences=.*epoch \d: .* index=epochs/,
  });
  const exported = await run('trust', 'export');
  t.strictSame(parseTrust(exported.stdout), trust, 'the trust file is as it was');
  t.match(await run('epochs', 'repair'), { status: 0, stdout: 'the epochs are those that the log sealed\n' });
}

/** Does something to the store that is put back afterwards. */
async function forge(t: Test, damage: (databases: Databases) => unknown): Promise<void> {
  await tamper(storeDir, damage);
  t.teardown(() => {
    rmSync(storeDir, { recursive: true });
    cpSync(kept, storeDir, { recursive: true });
  });
}

t.test('each of two epochs of a log seals a record of itself', async (t) => {
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  const seal = async (n: number) =>
    t.equal((await client.seal(Buffer.from(pdfFile(onePage(`/N ${n}`))), { mode: 'blocking' })).status, 202);
  await seal(1);
  const from = Math.ceil(Date.now() / 1000 + 20) * 1000;
  const at = new Date(from).toISOString().replace('.000', '');
  const planned = await run('epochs', 'plan', '--new-keys', 'eu/sandbox-2026', '--from', at);
  t.equal(planned.status, 0, planned.stderr);
  const isPublished = async () =>
    parseTrust((await run('trust', 'export')).stdout).logs[0]?.epochs.length === 2;
  await until('the plan is sealed', isPublished);
  await sleep(Math.max(0, from - Date.now()));
  await until('the epoch has begun', async () => (await records()).some(({ act }) => act === 'epoch.begin'));
  await seal(2);
  trust = parseTrust((await run('trust', 'export')).stdout);
  t.equal(await daemon.stop(), 0, daemon.stderr);
  t.match(await records(), [{ act: 'log.create' }, { act: 'epoch.plan' }, { act: 'epoch.begin' }]);
  t.equal((await run('audit', 'export', '--output', exported)).status, 0);
  cpSync(storeDir, kept, { recursive: true });
  t.match(await run('check'), { status: 0, stderr: '' });
});

/** Each program that would trust the list says what is wrong with it, and does nothing. */
async function refusesAll(t: Test, message: RegExp): Promise<void> {
  const daemon = await sandbox.pdfseald();
  t.match(daemon, { status: 1, stderr: message }, 'the daemon does not start');
  t.match(daemon.stderr, /→ nothing is signed or exported; see "Forged epochs"/);
  t.match(await run('check'), { status: 1, stderr: message, stdout: /^bad: /m });
  t.match(await run('audit', 'verify'), { status: 1, stderr: message, stdout: /^bad: /m });
  t.match(await run('trust', 'export'), { status: 1, stderr: message, stdout: '' });
  t.match(await run('doctor'), { status: 1, stdout: message });
  t.match(await run('epochs', 'list'), { status: 0, stderr: message }, 'the list says that it is wrong');
  const plan = ['epochs', 'plan', '--use-existing-keys'];
  t.match(await run(...plan), { status: 1, stderr: message }, 'nor does a new trust file come from a plan');
}

t.test('a past epoch that is changed to an attacker’s key without time-stamps is refused', async (t) => {
  const { privateKey: _, ...key } = makeKey('ed25519', 'eu');
  await forge(t, (databases) =>
    change(databases, ([first, ...later]) => {
      if (first === undefined) throw new Error('no epoch');
      const keys = [{ ...key, keyLabel: 'sandbox-2026', partition: 'sandbox-2026' }];
      return [{ ...first, keys, quorum: { needed: 1 }, timestamps: 'none' }, ...later];
    }),
  );
  await refusesAll(
    t,
    /epoch 1: verifier_keys: eu\/sandbox-2026 seal\S+ is not in audit record 1\n[\s\S]*epoch 1: quorum: 1, but audit record 1 says 2\n[\s\S]*epoch 1: timestamps: none, but audit record 1 says required\n/,
  );
  await repairs(t);
});

t.test('an epoch that is inserted into the past is refused', async (t) => {
  const { privateKey: _, ...key } = makeKey('ed25519', 'eu');
  await forge(t, (databases) =>
    change(databases, (list) => {
      const [first, second] = list;
      if (first === undefined || second === undefined) throw new Error('no epochs');
      const own = { ...first, from: second.from - 2, keys: [{ ...key, partition: 'sandbox-2026' }] };
      return [first, { ...own, quorum: { needed: 1 } }, second];
    }),
  );
  await refusesAll(t, /epoch 3: the store has it from \S+ on, but no audit record does/);
  await repairs(t);
});

t.test('records that are cut off where the second epoch was planned are missed', async (t) => {
  const [, plan] = await records();
  await forge(t, (databases) => {
    change(databases, (list) => list.slice(0, 1));
    for (const key of [...databases.trail.getKeys({ start: counterKey(plan?.number ?? 0) })])
      databases.trail.remove(Buffer.from(key));
  });
  await refusesAll(
    t,
    /leaf \d+ of the log is audit record \d+, which the trail does not have: the end of the trail was cut/,
  );
  t.match(await run('epochs', 'repair'), { status: 1 }, 'nothing is left to repair it from');
});

t.test('a trail whose end was replaced by other records is refused', async (t) => {
  const [, plan] = await records();
  await forge(t, (databases) => {
    change(databases, (list) => list.slice(0, 1));
    for (const key of [...databases.trail.getKeys({ start: counterKey(plan?.number ?? 0) })])
      databases.trail.remove(Buffer.from(key));
  });
  const store = await openStore({ path: storeDir });
  for (let number = 0; number < 20; number++)
    await store.trail.append(actOfProcess('command', 'key.issue', { key: `key_${number}` }));
  await store.close();
  await refusesAll(
    t,
    /leaf \d+ of the log is audit record \d+, which the trail does not have: the end of the trail was cut/,
  );
});

t.test('a job that would seal a forged record is refused while the true trail is there', async (t) => {
  const [, plan] = await records();
  await forge(t, ({ trail, jobs, waiting }) => {
    const [jobId] = parseRecord<[string]>(trail.getBinary(counterKey(plan?.number ?? 0)) ?? Buffer.alloc(0));
    const key = idKey('job', jobId) ?? Buffer.alloc(0);
    const own = idKey('job', newJobId()) ?? Buffer.alloc(0);
    jobs.put(own, jobs.getBinary(key) ?? Buffer.alloc(0));
    waiting.put(own, Buffer.alloc(0));
  });
  const daemon = await sandbox.pdfseald();
  t.match(daemon, {
    status: 1,
    stderr: /job_\w+ waits to seal audit\/\d+, but the trail has no such record to seal/,
  });
});

t.test('a forged trust file contradicts the records that an auditor keeps', async (t) => {
  const verify = async (change: (log: TrustedLog) => TrustedLog) => {
    writeFileSync(trustFile, encodeTrust({ ...trust, logs: trust.logs.map(change) }));
    return sandbox.pdfseal(['audit', 'verify', '--input', exported, '--trust', trustFile, '--newest', '1']);
  };
  const honest = await verify((log) => log);
  t.match(honest, { status: 2, stdout: /could not tell/ }, 'the newest records are not sealed yet');
  t.notMatch(honest.stderr, /the trust file/);
  const { privateKey: _, ...key } = makeKey('ed25519', 'eu');
  const forged = await verify(({ epochs: [first, ...later], ...log }) => {
    if (first === undefined) throw new Error('no epoch');
    const { notBefore } = first;
    const own = { ...first, notBefore: notBefore - 2, notAfter: notBefore - 1, quorum: { needed: 1 } };
    return { ...log, epochs: [{ ...own, keys: [{ ...key, keyLabel: 'sandbox-2026' }] }, first, ...later] };
  });
  t.match(forged, { status: 1, stderr: /the trust file has an epoch from \S+ on, but no audit record does/ });
});

t.test('the unchanged store is good', async (t) => {
  t.match(await run('check'), { status: 0, stderr: '' });
  const daemon = await sandbox.start();
  t.equal(await daemon.stop(), 0);
  t.equal((await records()).length, 3, 'an epoch begins once');
  t.match(
    await run('audit', 'list', '--act', 'epoch'),
    { stdout: /verifier_keys=.{100}…$/m },
    'a table of it has an end',
  );
});

t.test('an epoch that is planned while the daemon is stopped can begin before it starts again', async (t) => {
  const from = Math.ceil(Date.now() / 1000 + 30) * 1000;
  const at = new Date(from).toISOString().replace('.000', '');
  const planned = await run('epochs', 'plan', '--new-keys', 'us/sandbox-2026', '--from', at);
  t.equal(planned.status, 0, planned.stderr);
  const early = await run('trust', 'export');
  t.match(
    early.stderr,
    /the epoch from \S+ on is left out: the log has not sealed its plan yet\. Start the daemon/,
  );
  t.strictSame(parseTrust(early.stdout), trust);
  await sleep(Math.max(0, from - Date.now()));
  const daemon = await sandbox.start();
  await until(
    'it has begun',
    async () => (await records()).filter(({ act }) => act === 'epoch.begin').length === 2,
  );
  t.equal(await daemon.stop(), 0);
  t.match(await run('check'), { status: 0, stderr: '' });
  const exported = await run('trust', 'export');
  t.equal(parseTrust(exported.stdout).logs[0]?.epochs.length, 3, exported.stderr);
});
