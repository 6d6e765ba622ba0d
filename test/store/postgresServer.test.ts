import { existsSync } from 'node:fs';
import t from 'tap';
import { startPostgres } from '../support/postgres.ts';

t.test('the PostgreSQL of the tests keeps what it acknowledged, however it ends', async (t) => {
  const postgres = await startPostgres(t);
  const name = await postgres.createDatabase();
  await postgres.query('CREATE TABLE kept (n int)', name);
  const ends = [() => postgres.stop(), () => postgres.stop('SIGQUIT'), () => postgres.kill()];
  for (const [n, end] of ends.entries()) {
    await postgres.query(`INSERT INTO kept VALUES (${n})`, name);
    await end();
    await t.rejects(postgres.query('SELECT 1'));
    await postgres.start();
  }
  t.same(await postgres.query('SELECT n FROM kept ORDER BY n', name), [{ n: 0 }, { n: 1 }, { n: 2 }]);
  const copy = await postgres.createDatabase(name);
  t.same(await postgres.query('SELECT count(*)::int FROM kept', copy), [{ count: 3 }]);
  await postgres.close();
  t.notOk(existsSync(postgres.dir));
});
