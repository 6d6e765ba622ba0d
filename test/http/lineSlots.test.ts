/** When a line of a batch begins, and how many are under way. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { Presence } from '../../src/base/presence.ts';
import { LineSlots } from '../../src/http/lineSlots.ts';
import { NEVER } from '../support/partitions.ts';

/** Batches that ask for a turn, one line after the other, and never answer. */
function openBatches() {
  const creators = new Presence(() => 0);
  const lineSlots = new LineSlots(creators);
  const begun: string[] = [];
  const leaves: (() => void)[] = [];
  const open = async (clientId: string, lines: number) => {
    for (let line = 0; line < lines; line += 1) {
      const leave = await lineSlots.take(clientId, NEVER);
      begun.push(clientId);
      leaves.push(leave);
    }
  };
  const countOf = (clientId: string) => begun.filter((one) => one === clientId).length;
  return { creators, lineSlots, begun, leaves, open, countOf };
}

t.test('few lines begin in one turn of the event loop, and clients take turns', async (t) => {
  const { begun, open, countOf } = openBatches();
  for (let batch = 0; batch < 4; batch += 1) void open('greedy', 1_000);
  await nextTurn();
  t.ok(begun.length <= 16, `${begun.length} began in one turn or two`);
  const before = begun.length;
  const modest = open('modest', 10);
  await modest;
  t.equal(countOf('modest'), 10);
  t.ok(countOf('greedy') - before <= 30, `${countOf('greedy') - before} lines of the other began meanwhile`);
});

t.test('the lines under way are bounded, and there is always a place for another client', async (t) => {
  const { begun, open, leaves, countOf } = openBatches();
  for (let batch = 0; batch < 8; batch += 1) void open('greedy', 1_000);
  for (let turn = 0; turn < 200; turn += 1) await nextTurn();
  t.equal(countOf('greedy'), 256);
  for (let n = 0; n < 6; n += 1) void open(`client-${n}`, 1_000);
  for (let turn = 0; turn < 200; turn += 1) await nextTurn();
  t.ok(begun.length <= 512, `${begun.length} are under way`);
  await open('late', 1);
  const before = begun.length;
  for (const leave of leaves.splice(0, 10)) leave();
  for (let turn = 0; turn < 10; turn += 1) await nextTurn();
  t.ok(begun.length <= before + 10, 'a line begins for one that is answered');
});

t.test('a line whose client has gone never begins, and takes no place', async (t) => {
  const { lineSlots, open, leaves, countOf } = openBatches();
  void open('greedy', 256);
  for (let turn = 0; turn < 100; turn += 1) await nextTurn();
  t.equal(countOf('greedy'), 256);
  const gone = new AbortController();
  const waiting = lineSlots.take('greedy', gone.signal);
  gone.abort(new Error('gone'));
  await t.rejects(waiting, { message: 'gone' });
  await t.rejects(lineSlots.take('modest', gone.signal), { message: 'gone' });
  leaves[0]?.();
  await open('greedy', 1);
  t.equal(countOf('greedy'), 257);
});

t.test(
  'beside single creates of others, a client has few lines under way; beside its own, many',
  async (t) => {
    const { creators, open, leaves, countOf } = openBatches();
    creators.note('greedy');
    void open('greedy', 100);
    for (let turn = 0; turn < 30; turn += 1) await nextTurn();
    t.equal(countOf('greedy'), 100);
    const note = setInterval(() => creators.note('modest'), 1);
    t.teardown(() => clearInterval(note));
    creators.note('modest');
    void open('greedy', 200);
    for (let turn = 0; turn < 30; turn += 1) await nextTurn();
    t.equal(countOf('greedy'), 132);
    leaves.at(-1)?.();
    for (let turn = 0; turn < 30; turn += 1) await nextTurn();
    t.equal(countOf('greedy'), 133, 'one begins for one that is answered');
  },
);
