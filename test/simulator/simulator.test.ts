import t from 'tap';
import { tries } from '../support/seed.ts';
import { simulate } from './simulate.ts';

t.test('no schedule breaks a promise of the sealer', async (t) => {
  t.equal(await simulate(['--schedules', `${tries(10_000)}`]), undefined);
});

t.test('each step of the table of states may fail before and after its effect', async (t) => {
  t.equal(await simulate(['--table']), undefined);
});

t.test('no schedule breaks a promise of the outbox', async (t) => {
  t.equal(await simulate(['--outbox', '--schedules', `${tries(10_000)}`]), undefined);
});
