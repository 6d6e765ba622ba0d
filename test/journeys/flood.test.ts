/** A tenth of the long run `npm run long -- --only flood`. */
import t from 'tap';
import { flood, PEAK_MIB_MAX } from '../flood/flood.ts';

t.test(
  'while strangers and a greedy client flood it, the daemon seals for the others in bounded memory',
  async (t) => {
    const report = await flood(t, { seconds: 30, pipelined: 100_000, connections: 1_638, honest: 8 });
    t.comment(JSON.stringify(report));
    t.equal(report.refused, 0, 'every honest request is served');
    t.ok(report.fewest >= 1, 'each honest client is');
    t.ok(report.peakMib - report.beforeMib <= PEAK_MIB_MAX, JSON.stringify(report));
    t.ok((report.sent.batches ?? 0) > 0 && (report.sent.unread ?? 0) > 0, 'the attack came');
  },
);
