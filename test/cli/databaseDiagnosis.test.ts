/** What the doctor says of a PostgreSQL that has the log. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { diagnoseDatabase } from '../../src/cli/doctor/databaseDiagnosis.ts';
import type { Diagnosis } from '../../src/cli/doctor/diagnosis.ts';
import { readAcceptanceKeys } from '../../src/store/engines.ts';
import { collected } from '../store/samples.ts';
import { startPostgres } from '../support/postgres.ts';

const serve = fileURLToPath(new URL('../../src/main/serve.ts', import.meta.url));

function told(found: Diagnosis[]): string {
  return found
    .map(
      ({ check, verdict, detail, remedy }) => `${verdict} ${check}: ${detail}${remedy ? ` → ${remedy}` : ''}`,
    )
    .join('\n');
}

t.test('each server of a database is shown, and whether commits survive its loss', async (t) => {
  const postgres = await startPostgres(t);
  const url = postgres.url(await postgres.createDatabase());
  const away = 'postgresql:///pdfseal?host=/nonexistent';
  const diagnose = async (...urls: string[]) => {
    return told(await collected(diagnoseDatabase({ store: { engine: 'postgresql', urls } })));
  };
  const stranger = url.replace('user=pdfseal', 'user=stranger');
  const fronts = async (sql: string) => {
    await postgres.query(sql);
    return (await diagnose(url)).split('\n').filter((line) => line.includes('fronts'));
  };
  const restart = async (settings: Record<string, string>) => {
    await postgres.stop();
    postgres.settings = settings;
    await postgres.start();
  };

  const alone = await diagnose(url);
  t.match(alone, /^good database \S+: PostgreSQL \d+\.\d+.*, the primary; [\d.]+ MiB, role pdfseal$/m);
  t.match(alone, /^good database durability: what is acknowledged is on the disk of this server alone$/m);
  t.match(alone, /^warning acceptance key: none: who can write the database .* → make one with/m);
  const folder = t.testdir();
  const keys = ['0a'.repeat(32), 'b1'.repeat(32)];
  const withKey = async (content: string, mode = 0o640) => {
    const acceptanceKeyFile = join(folder, 'acceptance');
    writeFileSync(acceptanceKeyFile, content);
    chmodSync(acceptanceKeyFile, mode);
    const store = { engine: 'postgresql' as const, urls: [url], acceptanceKeyFile };
    return told(await collected(diagnoseDatabase({ store })));
  };
  t.match(await withKey(`${keys[0]}\n`), /^good acceptance key: /m);
  t.match(await withKey(keys.join('\n')), /^warning acceptance key: two keys count → remove the old one/m);
  t.match(await withKey(`${keys[0]}\n`, 0o644), /^bad acceptance key: .* is open to others → /m);
  t.match(await withKey('a password'), /^bad acceptance key: .*holds no acceptance key → /m);
  for (const empty of ['', '\n']) {
    t.match(await withKey(empty), /^bad acceptance key: .*holds no acceptance key → /m);
    const remedy = /^it must hold a line that `pdfseal store make-acceptance-key` made/;
    t.throws(() => readAcceptanceKeys(join(folder, 'acceptance')), { name: 'OperatorError', remedy });
  }
  t.match(await withKey('0'.repeat(5000)), /^bad acceptance key: .*not a small regular file → /m);
  const two = await diagnose(url, away);
  t.match(two, /^warning database \S+nonexistent: cannot be reached: connect ENOENT/m);
  t.match(two, /^warning database durability: no standby has to have what is acknowledged/m);
  const silent = await diagnose(away);
  t.match(silent, /^bad database \S+nonexistent: cannot be reached: connect ENOENT.* → start it/m);
  t.notMatch(silent, /primary/, 'the silent one may be the primary');
  const closed = await diagnose(stranger, away);
  t.match(closed, /^bad database \S+stranger: .*cannot be used: .*"stranger".* → check store\.url/m);
  t.notMatch(closed, /promote/);
  t.match(await diagnose(url, stranger), /^bad database \S+stranger: /m, 'it would fail at a failover');
  const passwordFile = '/nonexistent/password';
  const store = { engine: 'postgresql' as const, urls: [url], passwordFile };
  const noPassword = await collected(diagnoseDatabase({ store }));
  t.match(told(noPassword), /^bad database: cannot read the password .* → correct store\.password_file/m);
  const withPassword = async (content: string) => {
    const store = { engine: 'postgresql' as const, urls: [url], passwordFile: join(folder, 'password') };
    writeFileSync(store.passwordFile, content, { mode: 0o600 });
    return told(await collected(diagnoseDatabase({ store })));
  };
  for (const empty of ['', '\n'])
    t.match(
      await withPassword(empty),
      /^bad database: .*password, is empty → write the password into it, or /m,
    );
  t.match(
    await diagnose(url, `${url}&port=5432`),
    /^bad database: 2 servers report that they are the primary → stop/m,
  );
  t.match(
    await diagnose(url.replace('user=pdfseal', 'user=postgres')),
    /^warning database role: postgres is a/m,
  );

  t.strictSame(await fronts('SELECT 1'), [], 'no login is that of a front');
  const makeFronts =
    'CREATE ROLE pdfseal_front; CREATE ROLE site IN ROLE pdfseal_front; GRANT pdfseal_front TO pdfseal; GRANT site TO node; CREATE ROLE late LOGIN IN ROLE pdfseal_front';
  t.strictSame(
    await fronts(makeFronts),
    [
      'bad database fronts: late can hold every connection of the server → as a superuser of the server: ALTER ROLE "late" CONNECTION LIMIT 20',
      'bad database fronts: node can hold every connection of the server → as a superuser of the server: ALTER ROLE "node" CONNECTION LIMIT 20',
    ],
    'neither the owner of the database nor a role that cannot log in',
  );
  t.match(await fronts('ALTER ROLE late CONNECTION LIMIT 20; ALTER ROLE node CONNECTION LIMIT 48'), [
    /^bad database fronts: 2 logins can hold 68 of 97 connections; .* need 30 → raise max_connections .* of late, node$/,
  ]);
  t.strictSame(await fronts('ALTER ROLE node CONNECTION LIMIT 47'), [
    'good database fronts: 2 logins can hold 67 of 97 connections',
  ]);

  await restart({ synchronous_standby_names: 'ANY 1 (b, c)' });
  t.match(await diagnose(url, away), /^good database durability: .* on disk here and at ANY 1 \(b, c\)$/m);
  await restart({ fsync: 'off', full_page_writes: 'off' });
  t.match(await diagnose(url), /^bad database durability: off: fsync, full_page_writes; what/m);
  t.strictSame(await collected(diagnoseDatabase({ store: { engine: 'lmdb', path: '/nonexistent' } })), []);
});

t.test('without a database, its client library is not loaded', async (t) => {
  const script = `await import(${JSON.stringify(serve)});
    const { createRequire } = await import('node:module');
    const loaded = Object.keys(createRequire(${JSON.stringify(serve)}).cache);
    console.log(JSON.stringify(loaded.map((file) => /node_modules\\/([^/]+)/.exec(file)?.[1])));`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  const packages = new Set<string>(JSON.parse(output));
  t.ok(packages.has('koa'), 'packages are seen');
  t.strictSame(
    [...packages].filter((name) => name.startsWith('pg')),
    [],
  );
});

t.test('a file with a secret that cannot be read is named, with what to do', (t) => {
  const file = join(t.testdir({ acceptance: '0a'.repeat(32) }), 'acceptance');
  chmodSync(file, 0o600);
  const engines = new URL('../../src/store/engines.ts', import.meta.url);
  const script = `const { readAcceptanceKeys } = await import('${engines}');
    try { readAcceptanceKeys('${file}'); } catch ({ name, message, remedy }) { console.log(name, message, remedy); }`;
  const reads = ['-e', 'trace=read,pread64', '-P', file, '-e', 'inject=read,pread64:error=EIO'];
  const args = [
    '-f',
    '-qq',
    '-o',
    '/dev/null',
    ...reads,
    process.execPath,
    '--input-type=module',
    '-e',
    script,
  ];
  const { stdout, stderr } = spawnSync('strace', args, { encoding: 'utf8' });
  const told = `OperatorError cannot read the acceptance key in ${file} (i/o error) correct store.acceptance_key_file`;
  t.match(stdout, told, stderr);
  t.end();
});
