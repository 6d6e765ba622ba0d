/** What the charts are drawn from: counts by time, durations, and failures, all of it bounded. */
import t from 'tap';
import { History, SPANS, totalsOf } from '../../src/console/loadHistory.ts';

const [HOUR, DAY] = SPANS;
const START_MS = Date.UTC(2026, 10, 23, 8);

function makeHistory() {
  const clock = { now: START_MS };
  return { clock, history: new History(() => clock.now) };
}

t.test('each event is in the slot of its time', async (t) => {
  const { clock, history } = makeHistory();
  history.sealed(5);
  clock.now += 25_000;
  history.sealed(5);
  history.sealed(5);
  history.failed('invalid_api_key');
  const slots = history.slots(HOUR);
  t.equal(slots.length, 360);
  t.strictSame(
    slots.slice(-4).map(({ from, sealed }) => [(from - START_MS) / 1000, sealed]),
    [
      [-10, 0],
      [0, 1],
      [10, 0],
      [20, 2],
    ],
  );
  t.equal(totalsOf(slots).sealed, 3);
  t.strictSame(totalsOf(history.slots(DAY)).failures, [['invalid_api_key', 1]]);
});

t.test('events older than a span are dropped, and memory is bounded', async (t) => {
  const { clock, history } = makeHistory();
  for (let n = 0; n < 1_000; n += 1) {
    history.sealed(5);
    for (let code = 0; code < 100; code += 1) history.failed(`code_${code}`);
    clock.now += HOUR.slotMs;
  }
  const totals = totalsOf(history.slots(HOUR));
  t.equal(totals.sealed, 359, 'the slot of now is still empty');
  t.equal(totals.failures.length, 41, 'forty codes, and the others');
  t.strictSame(totals.failures[0], ['(others)', 359 * 60]);
  clock.now += 2 * 86_400_000;
  t.equal(totalsOf(history.slots(DAY)).sealed, 0);
});

t.test('a clock that is set back loses no event and makes no second slot of a time', async (t) => {
  const { clock, history } = makeHistory();
  history.sealed(5);
  clock.now -= 3_600_000;
  history.sealed(5);
  clock.now += 3_600_000;
  const slots = history.slots(HOUR);
  t.equal(totalsOf(slots).sealed, 2);
  t.equal(new Set(slots.map(({ from }) => from)).size, 360);
});

t.test('a percentile is right within 9 %', async (t) => {
  const { history } = makeHistory();
  t.equal(totalsOf(history.slots(HOUR)).percentile(0.5), undefined, 'of nothing there is none');
  const durations = Array.from({ length: 1000 }, (_, n) => 0.3 * 1.012 ** n);
  for (const duration of durations) history.sealed(duration);
  const { percentile } = totalsOf(history.slots(HOUR));
  for (const share of [0.5, 0.95, 0.99]) {
    const exact = durations[share * 1000 - 1] ?? 0;
    const found = percentile(share) ?? 0;
    t.ok(found >= exact && found <= exact * 1.091, `p${share * 100}: ${found} for ${exact}`);
  }
});

t.test('durations of zero and without end are in the first and the last class', async (t) => {
  const { history } = makeHistory();
  history.sealed(0);
  t.equal(totalsOf(history.slots(HOUR)).percentile(1), 0.25);
  history.sealed(Number.MAX_VALUE);
  t.ok((totalsOf(history.slots(HOUR)).percentile(1) ?? 0) > 3_500_000);
});
