import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { toBase64 } from '../../src/base/bytes.ts';
import { checkStore } from '../../src/cli/store/storeCheck.ts';
import {
  type AuditRecord,
  auditDigest,
  encodeAuditRecord,
  parseAuditRecord,
} from '../../src/manifest/auditRecord.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { checkTrail, storedTrail, type TrailReport, trailOfStore } from '../../src/prove/trail/trailCheck.ts';
import { createVerifier } from '../../src/prove/verify/verify.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import type { Credential } from '../../src/store/credentialStore.ts';
import type { Databases } from '../../src/store/lmdb/databases.ts';
import { counterKey, credentialKey, idKey } from '../../src/store/lmdb/keyLayout.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { encodeRecord, parseRecord } from '../../src/store/records.ts';
import { Child } from '../store/child.ts';
import { makePki } from '../support/authority.ts';
import { Client } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { tamper } from '../support/wholeStore.ts';

const sandbox = await openSandbox({ tables: { webhooks: 'allow = ["127.0.0.0/8"]' } });
t.teardown(() => sandbox.close());
const config = ['--config', sandbox.configFile];
const storeDir = join(sandbox.dir, 'state', 'store');
const folder = join(sandbox.dir, 'exported');
const run = (...args: string[]) => sandbox.pdfseal(args);

const JSON_BODY = { 'Content-Type': 'application/json' };
let daemon: Daemon;

interface Listed extends AuditRecord {
  sealed: boolean;
  sha256: string;
}

const list = async (...args: string[]): Promise<Listed[]> => {
  const { stdout } = await run('audit', 'list', '--json', ...config, ...args);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
};

/** What a check and a verification of the trail say of a store. */
async function judge(path: string): Promise<TrailReport & { checked: string[] }> {
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  const store = await openStore({ path, readOnly: true });
  try {
    const options = { trail: trailOfStore(store), verify: createVerifier(trust) };
    const report = await checkTrail(storedTrail(store), options);
    const { problems } = await checkStore(store, { trust, problemsMax: 100, onLeaves: () => {} });
    return { ...report, checked: problems };
  } finally {
    await store.close();
  }
}

t.test('every act has a one-line record with a number, and each record is sealed', async (t) => {
  const apiKey = await sandbox.issueKey('hooks', 'acme', '--scopes', 'jobs:create,jobs:read,webhooks:manage');
  const [first, second] = await list();
  t.match(first, { number: 1, act: 'log.create', sealed: false, object: { keys: ['local/sandbox-2026'] } });
  t.match(second, { act: 'key.issue', actor: { via: 'command', uid: process.geteuid?.(), pid: Number } });
  t.notMatch(JSON.stringify(second), apiKey, 'the key itself is not on record');

  daemon = await sandbox.start();
  const clients = ['one', 'two', 'three', 'four'];
  await Promise.all(clients.map((name) => sandbox.issueKey(name)));
  const client = await Client.connect(sandbox.url, apiKey);
  const body = JSON.stringify({ url: 'http://127.0.0.1:9/hook?token=secret' });
  const made = await client.request('POST', '/v1/webhook-endpoints', { headers: JSON_BODY, body });
  t.equal(made.status, 201, made.text);
  daemon.child.kill('SIGHUP');
  await until('all are sealed', async () => {
    const records = await list();
    return records.some(({ act }) => act === 'config.reload') && records.every(({ sealed }) => sealed);
  });

  const records = await list();
  t.strictSame(
    records.map(({ number }) => number),
    records.map((_, index) => index + 1),
  );
  t.strictSame(
    records.flatMap(({ act, object }) => (act === 'key.issue' ? [object.client] : [])).sort(),
    ['hooks', ...clients].sort(),
  );
  const added = records.find(({ act }) => act === 'webhook.add');
  t.match(added, {
    actor: { via: 'api', client: 'hooks', key: /^key_/ },
    object: { origin: 'http://127.0.0.1:9' },
  });
  t.notMatch(JSON.stringify(records), 'secret');
  t.match(
    records.find(({ act }) => act === 'daemon.start'),
    { actor: { via: 'daemon' }, object: { config_sha256: /^[0-9a-f]{64}$/ } },
  );
  t.equal((await list('--act', 'key')).length, 5);
  t.equal((await list('--since', '2999-01-01')).length, 0);
  await until('the log of the daemon anchors it elsewhere', () =>
    daemon.log.some(({ audit_digest: digest }) => digest === added?.sha256),
  );

  const shown = await client.get('/v1/jobs');
  t.strictSame(shown.json<{ jobs: unknown[] }>().jobs, [], 'no client sees any of it');
});

t.test('an exported trail verifies offline, and a changed one does not', async (t) => {
  t.equal((await run('audit', 'export', '--output', folder, ...config)).status, 0);
  const names = readdirSync(folder).sort();
  t.equal(names.length, 2 * (await list()).length);
  const [record = '', receipt = ''] = names;
  const trust = ['--trust', sandbox.trustFile];
  const verified = await run('verify', join(folder, record), join(folder, receipt), ...trust);
  t.match(verified, { status: 0, stdout: /audit trail.*\n[\s\S]*\ngood\n$/ });
  const verify = (of: string, ...more: string[]) => run('audit', 'verify', '--input', of, ...trust, ...more);
  const count = names.length / 2;
  const newest = ['--newest', `${count}`];
  const last = (await list())[count - 1];
  t.match(await verify(folder), { status: 2, stdout: /\ncould not tell\n$/, stderr: /--newest/ });
  t.match(
    await verify(folder, ...newest),
    {
      status: 0,
      stdout: `${count} audit records, ${count} sealed; the newest is ${count}, of ${last?.at}\n`,
    },
    'somebody has to know how far it goes',
  );

  const altered = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
  const { root } = await makePki();
  altered.timestamp_authorities.push({ name: 'built-in', root: toBase64(root.der) });
  const alteredTrust = join(sandbox.dir, 'altered.json');
  writeFileSync(alteredTrust, JSON.stringify(altered));
  t.match(await run('audit', 'verify', '--input', folder, '--trust', alteredTrust, ...newest), {
    status: 1,
    stderr: /the trust file has the root [0-9a-f]{64} of built-in, which no sealed record/,
  });

  const changed = (change: (copy: string) => void, ...more: string[]) => {
    const copy = join(sandbox.dir, 'changed');
    rmSync(copy, { recursive: true, force: true });
    cpSync(folder, copy, { recursive: true });
    change(copy);
    return verify(copy, ...more);
  };
  const name = (number: number) => `audit-${String(number).padStart(8, '0')}.json`;
  t.match(await changed((copy) => rmSync(join(copy, name(3)))), {
    status: 1,
    stderr: /4: the one before it is missing/,
  });
  const changedText = await changed((copy) => {
    const file = join(copy, name(2));
    writeFileSync(file, readFileSync(file, 'utf8').replace('"acme"', '"acmf"'));
  });
  t.match(changedText, { status: 1, stderr: /2: its receipt is of another text: it was altered/ });
  t.match(changedText.stderr, /3: the one before it is not the one it was written after/);
  const swapped = await changed((copy) => {
    for (const end of ['', '.receipt.json']) {
      renameSync(join(copy, name(3) + end), join(copy, 'aside'));
      renameSync(join(copy, name(4) + end), join(copy, name(3) + end));
      renameSync(join(copy, 'aside'), join(copy, name(4) + end));
    }
  });
  t.match(swapped, { status: 1, stderr: /3: it says that it is number 4/ });
  const receiptOf = (number: number) => `${name(number)}.receipt.json`;
  const cut = (copy: string) => {
    for (const file of [name(count), receiptOf(count)]) rmSync(join(copy, file));
  };
  t.match((await changed(cut)).status, 2, 'without its newest record it looks whole');
  t.match(await changed(cut, ...newest), {
    status: 1,
    stderr: `the newest audit record is ${count - 1}, and there were ${count}: the trail was cut`,
  });
  const dropped = await changed((copy) => rmSync(join(copy, receiptOf(3))), ...newest);
  t.match(dropped, { status: 2, stderr: 'no receipt proves audit record 3', stdout: /could not tell\n$/ });
  const appended = await changed(
    (copy) => {
      const previous = readFileSync(join(copy, name(count)), 'utf8');
      const act = { act: 'key.revoke', actor: { via: 'command' }, object: {}, outcome: 'done' } as const;
      const place = { number: count + 1, previous, atMs: Date.now(), environment: 'sandbox' };
      writeFileSync(join(copy, name(count + 1)), encodeAuditRecord(act, place));
    },
    ...newest,
  );
  t.match(appended, { status: 2, stderr: `no receipt proves audit record ${count + 1}` });
  const empty = t.testdir({});
  t.match(await verify(empty), { status: 2, stderr: /there is no audit record/ });
  t.match((await verify(empty, ...newest)).status, 1);
  t.equal(
    (await run('audit', 'verify', '--input', folder)).status,
    2,
    'without a trust file nobody can tell',
  );

  // A client can have the same bytes sealed, but not as the service's own word.
  const apiKey = await sandbox.issueKey('forger');
  const text = readFileSync(join(folder, record));
  const client = await Client.connect(sandbox.url, apiKey);
  const { document } = JSON.parse(readFileSync(join(folder, receipt), 'utf8')).manifest;
  const fields = {
    document_sha256: document.sha256,
    document_sha512: document.sha512,
    bytes: text.length,
    visibility: 'private',
    mode: 'blocking',
    customer_reference: 'audit/1',
  };
  const answer = await client.request('POST', '/v1/digests/seal', {
    headers: JSON_BODY,
    body: JSON.stringify(fields),
  });
  t.equal(answer.status, 202, answer.text);
  const own = (await client.get(`/v1/jobs/${answer.json<{ id: string }>().id}/receipt.json`)).text;
  const forged = await changed((copy) => writeFileSync(join(copy, receipt), own));
  t.match(forged, { status: 1, stderr: /1: its receipt is not of this record of the audit trail/ });
});

t.test('acts do not wait for an HSM, and are sealed once there is one', async (t) => {
  const path = join(sandbox.dir, 'token-local', 'tokens');
  renameSync(path, `${path}.gone`);
  await sandbox.issueKey('patient');
  t.match((await list()).at(-1), { object: { client: 'patient' }, sealed: false });
  renameSync(`${path}.gone`, path);
  await until('it is sealed', async () => (await list()).every(({ sealed }) => sealed));
  t.equal(await daemon.stop(), 0);
  t.match((await list()).at(-1), { act: 'daemon.stop', sealed: false });
  cpSync(storeDir, join(sandbox.dir, 'older'), { recursive: true });
});

t.test('a writer to the store cannot remove or change sealed records unnoticed', async (t) => {
  const whole = await judge(storeDir);
  t.match(whole, { problems: [], checked: [] });
  t.equal(whole.unsealed.length, 1, 'the stop');
  const sealed = whole.records - 1;
  const cases: [string, (databases: Databases, jobId: string, text: string) => Promise<unknown>[], RegExp][] =
    [
      [
        'the newest that is sealed, removed',
        ({ trail }) => [trail.remove(counterKey(sealed)), trail.remove(counterKey(sealed + 1))],
        /seals audit record \d+, which is not there/,
      ],
      [
        'one of the middle, removed',
        ({ trail }) => [trail.remove(counterKey(2))],
        /record 3: the one before it is missing/,
      ],
      [
        'one altered',
        ({ trail }, jobId, text) => [
          trail.put(counterKey(2), encodeRecord([jobId, text.replace('"acme"', '"acmf"')])),
        ],
        /does not seal this record but something else/,
      ],
      [
        'one damaged',
        ({ trail }) => [trail.put(counterKey(2), Buffer.from('noise'))],
        /the audit trail cannot be read to its end/,
      ],
      [
        'its job removed too',
        ({ trail, jobs }, jobId) => [
          trail.remove(counterKey(2)),
          jobs.remove(idKey('job', jobId) ?? Buffer.of()),
        ],
        /leaf \d+ is of job_\w+, which is not in the store/,
      ],
    ];
  for (const [what, change, finding] of cases) {
    const copy = join(sandbox.dir, what.replaceAll(' ', '-'));
    cpSync(storeDir, copy, { recursive: true });
    const store = await openStore({ path: copy });
    const { jobId = '', text = '' } = (await store.trail.entry(2)) ?? {};
    await store.close();
    await tamper(copy, (databases) => Promise.all(change(databases, jobId, text)));
    t.match((await judge(copy)).checked.join('\n'), finding, what);
  }
});

t.test('the trail is checked against the log, the last checkpoint and the API keys', async (t) => {
  const verify = () => run('audit', 'verify', ...config);
  const stop = await list();
  t.match(await verify(), { status: 2, stderr: `no receipt proves audit record ${stop.length}` });
  daemon = await sandbox.start();
  await until('it is good', async () => (await verify()).status === 0);
  await until('all is noted', async () => (await run('last-checkpoint', ...config)).status === 0);
  t.equal(await daemon.stop(), 0);

  const keys = JSON.parse(
    `[${(await run('keys', 'list', '--json', ...config)).stdout.trim().replaceAll('\n', ',')}]`,
  );
  const { id } = keys.find(({ client }: { client: string }) => client === 'forger');
  t.equal((await run('keys', 'revoke', id, ...config)).status, 0);
  const { id: rotated } = keys.find(({ client }: { client: string }) => client === 'patient');
  t.equal((await run('keys', 'rotate', rotated, '--overlap', '1h', ...config)).status, 0);
  const kept = join(sandbox.dir, 'kept');
  cpSync(storeDir, kept, { recursive: true });
  t.match((await run('check', ...config)).stdout, /\ngood\n$/, 'keys are as they are on record');

  const change = (which: string, how: (credential: Credential) => object | undefined) => async () => {
    await tamper(storeDir, async ({ credentials }) => {
      const all = Array.from(credentials.getRange({}), ({ value }) => parseRecord<Credential>(value));
      const found = all.find(({ id: own }) => own === which);
      if (found === undefined) throw new Error(`there is no key ${which}`);
      const changed = { ...found, ...how(found) };
      await credentials.put(credentialKey(changed.keyHash) as Buffer, encodeRecord(changed));
    });
  };
  for (const [what, harm, finding] of [
    [
      'a key of nobody’s',
      change(rotated, () => ({ id: 'key_0123456789abcdef', keyHash: 'ab'.repeat(32) })),
      'API key key_0123456789abcdef of client patient is in the store, but no audit record issued it',
    ],
    [
      'a key that is valid again',
      change(id, () => ({ revokedAt: undefined })),
      `API key ${id} of client forger is valid in the store, but audit record ${stop.length + 3} revoked it`,
    ],
    ['more scopes', change(rotated, () => ({ scopes: ['admin'] })), 'has another scopes in the store'],
    ['a longer life', change(rotated, () => ({ expiresAt: undefined })), 'has another expires_at'],
    [
      'another key',
      change(rotated, () => ({ keyHash: 'cd'.repeat(32) })),
      `API key ${rotated} of client patient`,
    ],
    [
      'an older copy',
      async () => {
        rmSync(storeDir, { recursive: true });
        cpSync(join(sandbox.dir, 'older'), storeDir, { recursive: true });
      },
      /last-checkpoint noted a later checkpoint/,
    ],
  ] as const) {
    await harm();
    t.match(await verify(), { status: 1, stderr: finding, stdout: /bad: \d+ problems\n$/ }, what);
    rmSync(storeDir, { recursive: true });
    cpSync(kept, storeDir, { recursive: true });
  }

  await tamper(storeDir, async ({ credentials }) => {
    for (const { key, value } of credentials.getRange({}))
      if (parseRecord<Credential>(value).id === rotated) await credentials.remove(Buffer.from(key));
  });
  const gone = `API key ${rotated} of client patient is not in the store, but audit record`;
  t.match(await verify(), { status: 1, stderr: gone }, 'a deleted key');
  t.match(await run('doctor', ...config), { status: 1, stdout: gone });
  rmSync(storeDir, { recursive: true });
  cpSync(kept, storeDir, { recursive: true });

  const store = await openStore({ path: storeDir });
  await store.trail.append(actOfProcess('command', 'epoch.plan', { from: '2026-01-01T00:00:00.000Z' }));
  await store.close();
  const noEffect = /\(epoch\.plan\) has no effect: .*; find out who created this record/;
  t.match(await verify(), { status: 2, stderr: noEffect, stdout: /could not tell\n$/ });
  const output = join(sandbox.dir, 'with-forged-plan');
  t.equal((await run('audit', 'export', '--output', output, ...config)).status, 0);
  const trust = ['--trust', sandbox.trustFile, '--newest', '1'];
  t.match(await run('audit', 'verify', '--input', output, ...trust), { status: 2, stderr: noEffect });

  await tamper(storeDir, ({ trail }) => trail.remove(counterKey(2)));
  const cut = await run('check', ...config);
  t.match(cut, { status: 1, stderr: /seals audit record 2, which is not there/ });
  t.match(cut.stdout, /bad: \d+ problems; audit records were removed, .* see "Forged epochs"/);
  rmSync(storeDir, { recursive: true });
  cpSync(kept, storeDir, { recursive: true });
});

t.test('an act that is killed half-way stays on record, and without a record no act happens', async (t) => {
  const copy = join(sandbox.dir, 'killed');
  cpSync(storeDir, copy, { recursive: true });
  const { records } = await judge(copy);
  const killed = new Child('crasher.ts', copy);
  await killed.gone();
  t.equal(killed.process.signalCode, 'SIGKILL');
  const found = await judge(copy);
  t.match(found, { records: records + 1, problems: [], checked: [] });
  t.ok(found.unended.includes(records + 1), 'nobody knows how far it came, and that is said');

  const data = join(storeDir, 'data.mdb');
  const kept = readFileSync(data);
  writeFileSync(data, 'no store');
  const label = ['--region', 'local', '--new-label', 'unrecorded'];
  const initKey = () => run('hsm', 'init-key', ...label, ...config);
  t.equal((await initKey()).status, 1);
  writeFileSync(data, kept);
  t.match(await initKey(), { status: 0 }, 'there was no such key: it was not made');
  t.match(
    (await list('--act', 'hsm')).map(({ outcome, concludes }) => [outcome, concludes]),
    [
      ['begun', undefined],
      ['done', Number],
    ],
  );
});

t.test(
  'a restore is on record in the restored store, and an exported folder shows the older copy',
  async (t) => {
    const backup = join(sandbox.dir, 'backup');
    t.equal((await run('backup', '--output', backup, ...config)).status, 0);
    await sandbox.issueKey('lost');
    t.equal((await run('audit', 'export', '--output', folder, ...config)).status, 0);
    const before = await list();
    const restored = await run('restore', '--input', backup, ...config);
    t.equal(restored.status, 0, restored.stderr);
    const after = await list();
    t.match(after.at(-1), { act: 'restore', object: { from: backup, rollback: null } });
    t.match(before[after.length - 1], { act: 'backup.make' }, 'in the place of what came after the copy');
    const refused = await run('audit', 'export', '--output', folder, ...config);
    t.match(refused, {
      status: 1,
      stderr:
        /differs from the store: one of them was altered, or the trail was continued from an older copy/,
    });
  },
);

t.test('a record is kept byte for byte', async (t) => {
  const act = {
    act: 'key.revoke',
    actor: { via: 'command', uid: 0 },
    object: { key: 'key_1' },
    outcome: 'done',
  } as const;
  const place = { number: 1, previous: undefined, atMs: 0, environment: 'sandbox' };
  const text = encodeAuditRecord(act, place);
  t.equal(
    text,
    '{"act":"key.revoke","actor":{"uid":0,"via":"command"},"at":"1970-01-01T00:00:00.000Z","environment":"env_sandbox",' +
      '"number":1,"object":{"key":"key_1"},"outcome":"done","schema":"pdfseal-audit/1"}',
  );
  t.match(parseAuditRecord(text), { ...act, number: 1 });
  t.match(parseAuditRecord(encodeAuditRecord(act, { ...place, number: 2, previous: text })), {
    previous: auditDigest(text),
  });
  refuse(t, text, [' ', ',"number":2', '"outcome":"undone"']);
});

function refuse(t: Test, text: string, [blank = '', double = '', undone = '']: string[]): void {
  t.equal(parseAuditRecord(text + blank), undefined);
  t.equal(parseAuditRecord(text.replace(',"object"', `${double},"object"`)), undefined);
  t.equal(parseAuditRecord(text.replace('"outcome":"done"', undone)), undefined);
}
