/** Each act of an operator, of a writer of the store or of a front: who notices it, as the table in acts.md says. */
import t from 'tap';
import { ACTS_OF_OPERATORS } from './actsOfOperators.ts';
import { ACTS_ON_THE_STORE } from './actsOnTheStore.ts';
import { actsTable, audit, NOTICERS, prove, QUESTIONS } from './noticers.ts';
import { EXPORTED, makeWholeLog } from './wholeLog.ts';

const ACTS = { ...ACTS_OF_OPERATORS, ...ACTS_ON_THE_STORE };
const table = actsTable();
const whole = await makeWholeLog(t);

t.test(
  'every act of the table is done here or on a database, and every act that is done is in the table',
  async (t) => {
    const onDatabase = [...table.keys()].filter((act) => act.includes('PostgreSQL') || act.includes('front'));
    t.strictSame([...Object.keys(ACTS), ...onDatabase].sort(), [...table.keys()].sort());
  },
);

t.test('where nobody did anything, all are content', async (t) => {
  const log = whole.copy();
  for (const name of NOTICERS) t.equal(await QUESTIONS[name](log), 'good', name);
  t.equal(await audit(log, ...EXPORTED), 'good');
});

for (const [name, cells] of table) {
  const act = ACTS[name];
  if (act) t.test(name, (t) => prove(t, whole.copy(), act, cells));
}
