/** A log moves from the embedded store into a database and back, and grows in one of them at a time. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import t, { type Test } from 'tap';
import { openStoreAt, type StoreLocation } from '../../src/store/engines.ts';
import { Client, type JobBody } from '../support/client.ts';
import { collect, ENVIRONMENT } from '../support/daemon.ts';
import { startPostgres } from '../support/postgres.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const postgres = await startPostgres(t);

/** An installation with two configurations that differ in where the log is. */
async function openHouse(t: Test) {
  const sandbox = await openSandbox({ tables: { log: 'last_checkpoint_interval = "100ms"' } });
  t.teardown(() => sandbox.close());
  const name = await postgres.createDatabase();
  const url = postgres.url(name);
  const [embedded, database] = [join(sandbox.dir, 'embedded.toml'), join(sandbox.dir, 'database.toml')];
  const text = readFileSync(sandbox.configFile, 'utf8');
  writeFileSync(embedded, text);
  writeFileSync(database, text.replace('[store]', `[store]\nengine = "postgresql"\nurl = "${url}"`));
  const apiKey = await sandbox.issueKey();
  const client = () => Client.connect(sandbox.url, apiKey);
  const folder = join(sandbox.dir, 'state', 'store');
  const places = [
    { engine: 'lmdb', path: folder },
    { engine: 'postgresql', urls: [url] },
  ] as const;
  return {
    sandbox,
    name,
    embedded,
    database,
    folder,
    places,
    /** The daemon with that configuration. */
    start: (file: string) => {
      writeFileSync(sandbox.configFile, readFileSync(file));
      return sandbox.start();
    },
    seal: async () => {
      const answer = await (await client()).seal(Buffer.from('%PDF-1.7\n%%EOF\n'), { mode: 'blocking' });
      return answer.json<JobBody>().id;
    },
    receipt: async (id: string) => (await (await client()).get(`/v1/jobs/${id}/receipt.json`)).text,
    migrate: (from: string, to: string, ...more: string[]) =>
      sandbox.pdfseal(['store', 'migrate', '--config', from, '--to', to, ...more]),
  };
}

t.test(
  'a log and its receipts move into a database and back, and no daemon starts on the old one',
  async (t) => {
    const { sandbox, embedded, database, folder, start, seal, receipt, migrate } = await openHouse(t);
    let daemon = await start(embedded);
    const first = await seal();
    const text = await receipt(first);
    t.match(await migrate(embedded, database), { status: 1, stderr: /another pdfseald .* is using/ });
    await daemon.stop();

    const moved = await migrate(embedded, database, '--json');
    t.equal(moved.status, 0, moved.stderr);
    t.match(JSON.parse(moved.stdout), { from: folder, to: /^postgresql:/, tree_size: Number });
    t.match(await sandbox.pdfseald(['--config', embedded]), {
      stderr: /the log has moved from .* to postgresql:/,
    });
    t.match(await sandbox.pdfseal(['keys', 'list', '--config', embedded]), {
      status: 1,
      stderr: /has moved/,
    });
    t.match(await migrate(embedded, database), { status: 0 }, 'nothing is left to do');
    t.match(await migrate(embedded, database, '--cancel'), { status: 1, stderr: /no log is on its way/ });
    t.match(await sandbox.pdfseal(['check', '--config', database]), { status: 0, stdout: /^good$/m });
    const audit = await sandbox.pdfseal(['audit', 'list', '--config', database, '--json']);
    t.match(audit.stdout, /store.migrate/);

    daemon = await start(database);
    t.equal(await receipt(first), text, 'the receipt is the same, byte for byte');
    const second = await seal();
    t.match(
      await migrate(database, embedded),
      { status: 1, stderr: /another pdfseald .* is using/ },
      'the daemon has the store',
    );
    await daemon.stop();
    t.match(await migrate(database, embedded), { status: 1, stderr: /has a store already/ });
    renameSync(folder, `${folder}.left`);
    const back = await migrate(database, embedded);
    t.equal(back.status, 0, back.stderr);
    t.match(await sandbox.pdfseald(['--config', database]), {
      stderr: /the log has moved from the database/,
    });
    t.match(await sandbox.pdfseal(['check', '--config', embedded]), { status: 0, stdout: /^good$/m });
    daemon = await start(embedded);
    t.equal(await receipt(first), text);
    t.ok(await receipt(second));
    await seal();
    await daemon.stop();
  },
);

t.test(
  'after a killed move a daemon starts on one store at most, and a repeat completes the move',
  async (t) => {
    const { sandbox, name, embedded, database, folder, places, start, seal, receipt, migrate } =
      await openHouse(t);
    let daemon = await start(embedded);
    const ids = [await seal(), await seal()];
    const texts = await Promise.all(ids.map(receipt));
    await daemon.stop();
    const program = await programFile('cli', 'src');
    const args = [program, 'store', 'migrate', '--config', embedded, '--to', database];
    /** Runs the command until it says that, and `when` has resolved after it; then kills it. Why no daemon would start, on either side. */
    const killedAt = async (line: string, when = async () => {}) => {
      const child = spawn(process.execPath, args, { env: ENVIRONMENT, stdio: ['ignore', 'ignore', 'pipe'] });
      const ended = once(child, 'close');
      const said = collect(child.stderr);
      await until(line, () => said().includes(line) || child.exitCode !== null);
      await when();
      child.kill('SIGKILL');
      t.strictSame(await ended, [null, 'SIGKILL'], `${line}: ${said()}`);
      return Promise.all(places.map(whyNot));
    };
    t.match(await killedAt(`checking ${folder}`), ['', /no store of pdfseald/]);
    t.match((await killedAt('copying'))[0], /on its way to/);
    t.match(await migrate(embedded, database, '--cancel'), { status: 0, stdout: /the log stays in/ });
    t.equal(await whyNot(places[0]), '');
    await postgres.query('DROP SCHEMA IF EXISTS pdfseal CASCADE', name);
    t.match((await killedAt('copying'))[0], /on its way to/);
    t.match(await killedAt('comparing'), [/on its way to/, /does not have the whole log/]);
    t.match(await killedAt('checking postgresql'), [/on its way to/, /does not have the whole log/]);
    const left = await killedAt('checking postgresql', async () => {
      // The last steps wait for the end of this transaction.
      const blocker = new pg.Client({ connectionString: places[1].urls[0] });
      await blocker.connect();
      await blocker.query('BEGIN; LOCK TABLE pdfseal.trail IN SHARE MODE');
      await until('the log has left', async () => (await whyNot(places[0])).includes('has moved'));
      await blocker.end();
    });
    t.match(left[0], /has moved/);
    t.match(await migrate(embedded, database), { status: 0 });
    t.match(await sandbox.pdfseal(['check', '--config', database]), { status: 0, stdout: /^good$/m });
    daemon = await start(database);
    t.strictSame(await Promise.all(ids.map(receipt)), texts);
    await daemon.stop();
  },
);

/** Why a daemon would not open that store; empty if it would. */
async function whyNot(place: StoreLocation): Promise<string> {
  try {
    const store = await openStoreAt(place, { sequencing: { onWait: () => {}, onLost: () => {} } });
    await store.close();
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}
