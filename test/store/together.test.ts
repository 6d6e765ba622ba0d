/** Statements that travel to the database together end together. */
import t from 'tap';
import { together } from '../../src/store/postgresql/database.ts';

t.test('what they return comes in the order in which they were given', async (t) => {
  t.same(await together([Promise.resolve(1), false, undefined, Promise.resolve('two')]), [
    1,
    false,
    undefined,
    'two',
  ]);
});

t.test('it throws what the first one threw, once none is under way any more', async (t) => {
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
