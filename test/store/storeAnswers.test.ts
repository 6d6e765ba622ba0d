/** The answer that a caller gets in place of each refusal by a store. */
import t from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { asAnswer } from '../../src/store/storeAnswers.ts';
import { StoreError, type StoreRefusal } from '../../src/store/storeError.ts';

const quota = { name: 'default', startsAt: 0, endsAt: Date.parse('2100-01-01') };

const ANSWERS: [StoreRefusal, object][] = [
  [{ code: 'disk_full' }, { code: 'storage_full', retryAfterSeconds: 10, message: /no room to store more/ }],
  [
    { code: 'database_away' },
    {
      code: 'storage_unavailable',
      retryAfterSeconds: 2,
      message: /not known whether the request took effect/,
    },
  ],
  [{ code: 'too_many_lists' }, { code: 'queue_full', retryAfterSeconds: 2, message: /too busy to list/ }],
  [{ code: 'backlog_full' }, { code: 'queue_full', retryAfterSeconds: 60, message: /wait to be sent/ }],
  [
    { code: 'key_taken' },
    { code: 'idempotency_in_progress', retryAfterSeconds: 1, message: /this Idempotency-Key was received/ },
  ],
  [
    { code: 'quota_used_up', quota },
    { code: 'quota_exceeded', parameter: 'purpose', message: /"default" .* after 2100-01-01T00:00:00/ },
  ],
];

t.test('each refusal has the code and the message of the API', async (t) => {
  for (const [refusal, answer] of ANSWERS) {
    const found = asAnswer(new StoreError(refusal));
    t.ok(found instanceof ServiceError);
    t.match(found, answer, refusal.code);
  }
});

t.test('the cause of a refusal is kept for the log, and other errors stay as they are', async (t) => {
  const cause = new Error('the server said so');
  t.match(asAnswer(new StoreError({ code: 'disk_full' }, cause)), { cause });
  t.equal(asAnswer(cause), cause);
});
