import t from 'tap';
import { comingAt, type Epochs, termAt } from '../../src/log/epochs.ts';
import { firstEpoch } from '../support/sealing.ts';

const epochs: Epochs = {
  revision: 7,
  list: [firstEpoch([], { from: 1000 }), firstEpoch([], { from: 2000 }), firstEpoch([], { from: 3000 })],
};

t.test('one epoch ends where the next begins, to the millisecond', async (t) => {
  const terms = [999, 1000, 1999, 2000, 2999, 3000, Infinity].map((at) => termAt(epochs, at));
  t.strictSame(
    terms.map(({ epoch, end }) => [epoch.from, end]),
    [
      [1000, 2000],
      [1000, 2000],
      [1000, 2000],
      [2000, 3000],
      [2000, 3000],
      [3000, Infinity],
      [3000, Infinity],
    ],
  );
  t.equal(terms[0]?.revision, 7);
});

t.test('the next epoch to begin is found for any time', async (t) => {
  const coming = [0, 1000, 1999, 2000, 3000].map((at) => comingAt(epochs, at)?.from);
  t.strictSame(coming, [2000, 2000, 2000, 3000, undefined]);
});
