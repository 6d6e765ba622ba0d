/** What commands say where a database is not as the manual asks for it, and that they have done nothing by then. */
import { chmodSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { pdfseal } from '../support/commands.ts';
import { startPostgres } from '../support/postgres.ts';
import { openSandbox } from '../support/sandbox.ts';

t.test('an acceptance key is made in a file that only its owner can read, and never twice', async (t) => {
  const file = join(t.testdir(), 'acceptance');
  const made = await pdfseal(['store', 'make-acceptance-key', file]);
  t.match(made, { status: 0, stdout: `key    ${file}  made`, stderr: /copy the file to every front/ });
  t.equal(statSync(file).mode & 0o777, 0o600);
  const key = readFileSync(file, 'utf8');
  t.match(key, /^[0-9a-f]{64}\n$/);
  const again = await pdfseal(['store', 'make-acceptance-key', file]);
  t.match(again, { status: 1, stderr: /exists already, and this command replaces no file/ });
  t.equal(readFileSync(file, 'utf8'), key);
});

t.test('a role without rights and a password that others can read are reported', async (t) => {
  const postgres = await startPostgres(t);
  const database = await postgres.createDatabase();
  const passwordFile = join(t.testdir({ password: 'nobody asks for it' }), 'password');
  chmodSync(passwordFile, 0o640);
  const store = [
    'engine = "postgresql"',
    `url = "${postgres.url(database)}"`,
    `password_file = "${passwordFile}"`,
  ].join('\n');
  const sandbox = await openSandbox({ init: false, tables: { store } });
  t.teardown(() => sandbox.close());
  const run = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);

  await postgres.query(`ALTER DATABASE ${database} OWNER TO postgres`);
  t.match(await run('init', '--throwaway'), {
    status: 1,
    stdout: /^$/,
    stderr:
      /the role "pdfseal" may not make a store in the database "test_1"[\s\S]*ALTER DATABASE "test_1" OWNER TO "pdfseal"/,
  });
  await postgres.query(`ALTER DATABASE ${database} OWNER TO pdfseal`);
  t.match(await run('init', '--throwaway'), { status: 0 }, 'no key was made the first time');

  chmodSync(passwordFile, 0o644);
  const open = /✗ store: the file with the password of the database, .*, is open to others\n +→ chmod o-rwx/;
  t.match(await run('check-config'), { status: 1, stdout: open });
  const doctor = await run('doctor');
  t.match(doctor, { status: 1, stdout: open });
  t.match(doctor.stdout, /✗ files: the password file .* has mode 0644: other users have access\n +→ chmod/);
  t.notMatch(doctor.stdout, /Disaster recovery|promote/);
  chmodSync(passwordFile, 0o640);

  await postgres.query('REVOKE ALL ON ALL TABLES IN SCHEMA pdfseal FROM pdfseal', database);
  t.match(await run('keys', 'list'), {
    status: 1,
    stderr:
      /the role "pdfseal" may not use the store in the database[\s\S]*name the role that made the store/,
  });
});
