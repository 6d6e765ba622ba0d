import t from 'tap';
import { Lane } from '../../src/hash/lane.ts';

const lengths = (chunks: Uint8Array[]) => chunks.map(({ length }) => length);

t.test('there is room again only after everything pending was taken', async (t) => {
  const lane = new Lane(false);
  lane.push(new Uint8Array(64));
  let hasRoom = false;
  const room = lane.room().then(() => {
    hasRoom = true;
  });
  t.same(lengths(lane.take(48)), [48]);
  await Promise.resolve();
  t.equal(hasRoom, false, 'a chunk as large as this one would make more pending than before');
  t.same(lengths(lane.take(48)), [16]);
  await room;
  t.equal(lane.pendingBytes, 0);
});

t.test('chunks are taken whole if they fit', async (t) => {
  const lane = new Lane(true);
  for (const length of [10, 20, 30, 100]) lane.push(new Uint8Array(length));
  t.same(lengths(lane.take(40)), [10, 20]);
  t.same(lengths(lane.take(40)), [30]);
  t.same(lengths(lane.take(40)), [40]);
  t.same(lengths(lane.take(100)), [60]);
  t.same(lane.take(40), []);
  t.equal(lane.pendingBytes, 0);
});

t.test('a writer that waits for room is released if the lane fails', async (t) => {
  const lane = new Lane(false);
  lane.push(new Uint8Array(64));
  const room = lane.room();
  lane.fail(new Error('lost'));
  await room;
  await t.rejects(lane.digests, { message: 'lost' });
});
