/** Statements that travel to the database together end together. */
import t from 'tap';
import { together } from '../../src/store/postgresql/database.ts';

t.test('results are in the order of the operations', async (t) => {
  t.same(await together([Promise.resolve(1), false, undefined, Promise.resolve('two')]), [
    1,
    false,
    undefined,
    'two',
  ]);
});

t.test('the first error is thrown once all operations have ended', async (t) => {
  const last = Promise.withResolvers<void>();
  let isLastOver = false;
  const thrown = t.rejects(
    together([
      Promise.resolve(1),
      new Promise((_, reject) => setImmediate(() => reject(new Error('the cause')))),
      Promise.reject(new Error('the transaction is aborted')),
      last.promise.then(() => {
        isLastOver = true;
      }),
    ]).finally(() => t.ok(isLastOver, 'so nothing follows a ROLLBACK')),
    { message: 'the cause' },
  );
  setImmediate(() => setImmediate(last.resolve));
  await thrown;
});
