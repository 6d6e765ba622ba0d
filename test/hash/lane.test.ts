import t from 'tap';
import { Lane } from '../../src/hash/lane.ts';

t.test('there is room again only when nothing is pending', async (t) => {
  const lane = new Lane('wasm');
  lane.push(new Uint8Array(64));
  let hasRoom = false;
  const room = lane.room().then(() => {
    hasRoom = true;
  });
  lane.take(new Uint8Array(48));
  await Promise.resolve();
  t.equal(hasRoom, false, 'a chunk as large as this one would make more pending than before');
  lane.take(new Uint8Array(48));
  await room;
  t.equal(lane.pendingBytes, 0);
});

t.test('who waits for room in a lane that fails goes on', async (t) => {
  const lane = new Lane('wasm');
  lane.push(new Uint8Array(64));
  const room = lane.room();
  lane.fail(new Error('lost'));
  await room;
  await t.rejects(lane.digests, { message: 'lost' });
});
