/** A PostgreSQL on another machine: TLS that is verified, and a password from a file. */
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createStoreAt, openStoreAt, type StoreLocation, storeExists } from '../../src/store/engines.ts';
import { freePort } from '../support/freePort.ts';
import { startPostgres } from '../support/postgres.ts';
import { makeTls } from '../support/sources.ts';
import { epoch, identity } from './samples.ts';

t.test('the server and pdfseal prove their identity to each other', async (t) => {
  const postgres = await startPostgres(t);
  const database = await postgres.createDatabase();
  await postgres.query("ALTER ROLE pdfseal PASSWORD 'a p@ss%20w&rd+/?'");
  await postgres.stop();
  const port = await freePort();
  const [tls, other] = [makeTls(t), makeTls(t)];
  postgres.serveTls(tls, port);
  await postgres.start();
  const dir = t.testdir({
    good: 'a p@ss%20w&rd+/?\n',
    bad: 'another one\n',
    open: 'a p@ss%20w&rd+/?\n',
    empty: '\n',
    'ca.pem': tls.cert,
    'other.pem': other.cert,
  });
  for (const name of ['good', 'bad', 'empty']) chmodSync(join(dir, name), 0o640);
  chmodSync(join(dir, 'open'), 0o644);
  const at = (host: string, ca: string, password = 'good'): StoreLocation => ({
    engine: 'postgresql',
    urls: [
      `postgresql://pdfseal@${host}:${port}/${database}?sslmode=verify-full&sslrootcert=${join(dir, ca)}`,
    ],
    passwordFile: join(dir, password),
  });

  await createStoreAt(at('127.0.0.1', 'ca.pem'), { identity, epoch });
  const store = await openStoreAt(at('localhost', 'ca.pem'), {});
  t.match(store.identity, identity);
  await store.close();

  const refused = (location: StoreLocation, message: RegExp) =>
    t.rejects(storeExists(location), { name: 'OperatorError', message });
  await refused(at('127.0.0.1', 'other.pem'), /cannot be used: self.signed certificate/);
  // The same address by a name that is not in the certificate.
  await refused(at('127.1', 'ca.pem'), /cannot be used: Hostname\/IP does not match certificate's altnames/);
  await refused(at('127.0.0.1', 'ca.pem', 'bad'), /cannot be used: password authentication failed for user/);
  await refused(at('127.0.0.1', 'ca.pem', 'none'), /cannot read the password of the database in .*none/);
  await refused(at('127.0.0.1', 'ca.pem', 'open'), /the password of the database, .*open, is open to others/);
  await refused(at('127.0.0.1', 'ca.pem', 'empty'), /the password of the database, .*empty, is empty/);

  await postgres.stop();
  postgres.settings = { ...postgres.settings, ssl: 'off' };
  await postgres.start();
  await refused(at('127.0.0.1', 'ca.pem'), /cannot be reached: The server does not support SSL connections/);
});
