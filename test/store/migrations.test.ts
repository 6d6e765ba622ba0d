/** The way from one layout to the next, on layouts that are only here: there has been one so far. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { dump } from '../support/wholeStore.ts';
import { Child } from './child.ts';
import { LAYOUTS } from './migrated.ts';
import { epoch, identity, sampleJobs } from './samples.ts';

const JOBS = 350;
const dir = t.testdir();

async function makeStore(name: string): Promise<string> {
  const path = join(dir, name);
  await createStore({ path, identity, epoch });
  const store = await openStore({ path });
  await Promise.all(sampleJobs(JOBS).map((job) => store.jobs.accept(job)));
  await store.close();
  return path;
}

const migrated = (lines: string[]) => lines.filter((line) => line.startsWith('jobs 6a')).length;

t.test('a store of an older layout is copied, then migrated, even through a kill', async (t) => {
  const path = await makeStore('store');
  const before = await dump(path);
  await t.rejects(openStore({ path, migrations: LAYOUTS }), {
    name: 'OperatorError',
    message:
      /by an older pdfseald \(store schema 1, this program writes 3\): start the daemon, which migrates it/,
  });
  await t.rejects(openStore({ path, migrations: LAYOUTS, readOnly: true }), { message: /older pdfseald/ });
  t.same(await dump(path), before, 'whoever only looks changes nothing');
  await t.rejects(
    openStore({ path, migrations: LAYOUTS, onMigration: t.fail, expected: { environment: 'other' } }),
    { message: /environment "sandbox"/ },
    'nor is the store of somebody else changed',
  );

  const child = new Child('migrator.ts', path);
  await child.gone();
  t.equal(child.process.signalCode, 'SIGKILL');
  t.equal(migrated(await dump(path)), 100, 'it was in the middle');
  await t.rejects(
    openStore({ path, migrations: LAYOUTS }),
    { message: /store schema 1/ },
    'what it is it says last',
  );
  t.same(await dump(`${path}.schema-1`), before);

  const told: unknown[] = [];
  const store = await openStore({ path, migrations: LAYOUTS, onMigration: (schema) => told.push(schema) });
  t.same(told, [{ from: 1, to: 3 }]);
  t.equal(store.identity.schema, 3);
  await store.close();
  const after = await dump(path);
  t.equal(migrated(after), JOBS);
  t.ok(
    after.includes(`quotas ${Buffer.from('jobs').toString('hex')} ${Buffer.from(`${JOBS}`).toString('hex')}`),
  );
  t.same(await dump(`${path}.schema-1`), before, 'the copy is from before the first change');

  await (await openStore({ path, migrations: LAYOUTS, onMigration: t.fail })).close();
  await t.rejects(
    openStore({ path }),
    { message: /made by a newer pdfseald \(store schema 3, this program knows 1\): install that version/ },
    'there is no way back',
  );
});

t.test('a store that cannot be copied is not migrated', async (t) => {
  const path = await makeStore('large');
  const before = await dump(path);
  // The kernel then lets no file grow so far, as a full disk would not, for root too.
  const limited = ['--ignore-signal=XFSZ', '-u', 'NODE_OPTIONS', 'prlimit', `--fsize=${64 * 1024}`];
  const program = fileURLToPath(new URL('migrator.ts', import.meta.url));
  const { stderr } = spawnSync('env', [...limited, process.execPath, program, path], { encoding: 'utf8' });
  t.match(
    stderr,
    /OperatorError: the store in .*large is of an older pdfseald, and cannot be copied before it is migrated \(.*\): free disk space/,
  );
  t.same(await dump(path), before);
  t.strictSame(
    readdirSync(dir).filter((name) => name.startsWith('large')),
    ['large'],
  );
});

t.test('a store of version 0.1.0, without a database of salts, is opened as it is', async (t) => {
  const archive = fileURLToPath(new URL('../vectors/installations/0.1.0.tar.gz', import.meta.url));
  execFileSync('tar', ['-xzf', archive, '-C', dir, './state/store']);
  const path = join(dir, 'state/store');
  const before = await dump(path);
  const reader = await openStore({ path, readOnly: true });
  const [{ keyHash = '' } = {}] = await reader.credentials.all();
  t.match(keyHash, /^[0-9a-f]{64}$/);
  t.equal(await reader.credentials.saltOf(keyHash), undefined);
  await reader.close();
  t.same(await dump(path), before, 'whoever only looks changes nothing');
  const writer = await openStore({ path, onMigration: t.fail });
  await writer.close();
  t.ok(
    (await dump(path)).some((line) => line.startsWith('salts ')),
    'the daemon moves a salt there',
  );
});
