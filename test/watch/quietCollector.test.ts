import t from 'tap';
import { OwnHeap, QuietCollector } from '../../src/watch/quietCollector.ts';

const MB = 2 ** 20;

t.test('memory is returned once after a busy time, and not while the process is busy', async (t) => {
  let busyShare = 0;
  let bytes = 40 * MB;
  let collections = 0;
  const collector = new QuietCollector({
    busyShare: () => busyShare,
    bytes: () => bytes,
    collect: async () => {
      collections += 1;
      bytes = 45 * MB;
    },
  });
  t.teardown(() => collector.close());
  await collector.check();
  t.equal(collections, 0, 'the heap has not grown');
  busyShare = 0.5;
  bytes = 200 * MB;
  await collector.check();
  t.equal(collections, 0, 'requests wait');
  busyShare = 0.05;
  await collector.check();
  t.equal(collections, 1);
  bytes = 60 * MB;
  await collector.check();
  t.equal(collections, 1, 'growth counts from the last collection');
  bytes = 80 * MB;
  await collector.check();
  t.equal(collections, 2);
});

t.test('a collection returns pages that are no longer used', async (t) => {
  const heap = new OwnHeap();
  t.ok(heap.busyShare() <= 1);
  const before = heap.bytes();
  let objects: object[] | undefined = Array.from({ length: 1_000_000 }, (_, n) => ({ n }));
  t.ok(heap.bytes() > before + 30 * MB, `${objects.length} objects take memory`);
  objects = undefined;
  await heap.collect();
  t.ok(heap.bytes() < before + 10 * MB);
  t.equal((globalThis as { gc?: unknown }).gc, undefined);
});
