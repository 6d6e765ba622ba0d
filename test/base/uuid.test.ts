import t from 'tap';
import { newUuid } from '../../src/base/uuid.ts';

t.test('an id is a version 7 UUID of now, without dashes', async (t) => {
  const before = Date.now();
  const uuid = newUuid();
  t.match(uuid, /^[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  const time = Number.parseInt(uuid.slice(0, 12), 16);
  t.ok(time >= before && time <= Date.now());
});

t.test('ids ascend, even within one millisecond', async (t) => {
  const uuids = Array.from({ length: 20_000 }, newUuid);
  t.same(uuids.toSorted(), uuids);
  t.equal(new Set(uuids).size, uuids.length);
  t.equal(new Set(uuids.map((uuid) => uuid.slice(-8))).size > uuids.length - 100, true, 'the rest is random');
});
