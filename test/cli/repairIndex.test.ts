import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { counterKey, tileKey } from '../../src/store/lmdb/keyLayout.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { Client, type JobBody } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { dump, tamper } from '../support/wholeStore.ts';

const sandbox = await openSandbox({ stamped: true });
t.teardown(() => sandbox.close());
const store = join(sandbox.dir, 'state', 'store');
const backups = join(sandbox.dir, 'backups');
const config = ['--config', sandbox.configFile];
const apiKey = await sandbox.issueKey();
const run = (...args: string[]) => sandbox.pdfseal([...args, ...config]);

/** A client of the daemon, which has to run. */
const connect = () => Client.connect(sandbox.url, apiKey);
const receipts = async (client: Client) =>
  Promise.all(ids.map(async (id) => (await client.get(`/v1/jobs/${id}/receipt.json`)).text));

let daemon = await sandbox.start();
const client = await connect();
const ids: string[] = [];
for (const name of ['one', 'two', 'three']) {
  const answer = await client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), {
    mode: 'blocking',
    customer_reference: name,
  });
  ids.push(answer.json<JobBody>().id);
}
const before = await receipts(client);

/** Records that every opening changes: the service time and the fence. */
const CHANGING = ['service_time', 'fence'].map((key) => `identity ${Buffer.from(key).toString('hex')}`);

t.test('a repair is refused while a daemon runs, but a dry run is not', async (t) => {
  const refused = await run('repair-index', '--no-backup');
  t.match(refused, {
    status: 2,
    stderr: /^pdfseal: another pdfseald \(process \d+\) is using this state folder/,
  });
  t.match(await run('repair-index', '--dry-run'), { status: 0, stdout: /\ngood\n$/ });
  t.match(await run('check'), { status: 0, stdout: /\ngood\n$/ });
});

t.test('a repair without --backup-output or --no-backup is refused', async (t) => {
  t.match(await run('repair-index'), { status: 64, stderr: /--backup-output, or use --no-backup/ });
});

t.test('every index is mended after a backup, and the receipts are as they were', async (t) => {
  await daemon.stop();
  const undamaged = await dump(store);
  t.match(await run('repair-index', '--backup-output', backups), { status: 0, stdout: /\ngood\n$/ });
  t.notOk(existsSync(backups), 'nothing to mend takes no copy');
  await tamper(store, ({ tiles, outcomes, scopes, lookups, waiting, expiry }) => [
    tiles.put(tileKey(0, 0), Buffer.alloc(32)),
    ...[outcomes, scopes, lookups, expiry].flatMap((d) =>
      Array.from(d.getKeys({}), (key) => d.remove(Buffer.from(key))),
    ),
    waiting.put(Buffer.alloc(16, 1), Buffer.alloc(0)),
  ]);

  t.match(await sandbox.pdfseald(), {
    status: 1,
    stderr: /does not match its newest checkpoint; nothing will be signed\. Run `pdfseal check`/,
  });

  const checked = await run('check');
  t.match(checked, {
    status: 1,
    stdout: /\nbad: \d+ entries of indexes; run `pdfseal repair-index`\n$/,
  });
  t.match(checked.stderr, /^pdfseal: index tiles: tile\/0\/000 is wrong$/m);
  const looked = await run('repair-index', '--dry-run', '--json');
  t.equal(looked.status, 1);
  const { indexes } = JSON.parse(looked.stdout);
  t.match(indexes, { tiles: { wrong: 1 }, waiting: { superfluous: 1 }, quotas: { missing: 0 } });
  t.equal(
    (await run('backup', '--output', join(sandbox.dir, 'none'), '--dated')).status,
    1,
    'a nightly copy is not made of it in silence',
  );

  const mended = await run('repair-index', '--backup-output', backups, '--json');
  t.equal(mended.status, 0, mended.stderr);
  const [name = ''] = readdirSync(backups);
  t.match(JSON.parse(mended.stdout), { outcome: 'good', mended: indexes, backup: join(backups, name) });
  const standing = undamaged.filter((line) => !CHANGING.some((key) => line.startsWith(key)));
  const known = new Set(standing);
  const all = await dump(store);
  t.same(
    all.filter((line) => known.has(line)),
    standing,
    'besides, there is what the audit trail says of backup and repair',
  );
  t.match(JSON.parse(readFileSync(join(backups, name, 'backup.json'), 'utf8')), { index_flaws: Number });

  daemon = await sandbox.start();
  t.same(await receipts(await connect()), before, 'byte for byte');
  await daemon.stop();
});

t.test('the backup made before a repair can be restored and repaired again', async (t) => {
  const [name = ''] = readdirSync(backups);
  const restored = await run('restore', '--input', join(backups, name), '--accept-rollback');
  t.match(restored, {
    status: 0,
    stderr: /made before a repair of indexes: run `pdfseal repair-index`/,
  });
  const mended = await run('repair-index', '--no-backup');
  t.match(mended, {
    status: 0,
    stdout:
      /^INDEX +MISSING +SUPERFLUOUS +WRONG\ntiles +0 +0 +1\n[\s\S]*\nmended: \d+ entries\n[\s\S]*\ngood\n$/,
  });
});

t.test('an interrupted repair locks out the daemon and other commands until it is repeated', async (t) => {
  const left = await openLeft();
  t.match(await sandbox.pdfseald(), {
    status: 1,
    stderr: /^pdfseald: the indexes of .* are under repair since .*: run `pdfseal repair-index` again/,
  });
  t.match(await run('keys', 'list'), { status: 1, stderr: /are under repair since/ });
  t.match(await run('check'), { status: 2, stderr: /are under repair since/ });
  const ended = await run('repair-index', '--backup-output', backups);
  t.match(ended, { status: 0, stderr: new RegExp(`the store as it was before is in ${left}`) });
  t.match(await run('check'), { status: 0 });
});

t.test('damage to the data behind the indexes is reported, and nothing is changed', async (t) => {
  await tamper(store, ({ leaves, scopes }) => [
    leaves.put(counterKey(1), Buffer.alloc(80, 5)),
    ...Array.from(scopes.getKeys({}), (key) => scopes.remove(Buffer.from(key))),
  ]);
  const damaged = await dump(store);
  const refused = await run('repair-index', '--no-backup');
  t.match(refused, {
    status: 1,
    stdout: /\nbad: \d+ problems; restore a backup, and find the cause \(the indexes were not checked\)\n$/,
  });
  t.match(refused.stderr, /^pdfseal: leaf 1 is of job_0505\w+, which is not in the store$/m);
  t.same(await dump(store), damaged);
});

t.test('a missing store or config file ends with exit status 2', async (t) => {
  const empty = join(sandbox.dir, 'empty.toml');
  writeFileSync(
    empty,
    readFileSync(sandbox.configFile, 'utf8').replace('state_dir = "state"', 'state_dir = "none"'),
  );
  for (const file of [empty, join(sandbox.dir, 'no.toml')]) {
    t.match(await sandbox.pdfseal(['repair-index', '--dry-run', '--config', file]), {
      status: 2,
      stderr: /^pdfseal: .+\n$/,
    });
  }
});

/** What a repair leaves that was ended after its first writes; the name of its backup. */
async function openLeft(): Promise<string> {
  const backup = join(sandbox.dir, 'taken');
  const half = await openStore({ path: store });
  await half.indexes.repair({ backup, onMended: () => {}, isGood: async () => false });
  await half.close();
  return backup;
}
