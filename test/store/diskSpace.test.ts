import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/logger.ts';
import { DiskSpace } from '../../src/store/diskSpace.ts';

const path = mkdtempSync(join(tmpdir(), 'pdfseal-disk-'));
t.teardown(() => rmSync(path, { recursive: true }));

function diskWith(freeBytesMin: number) {
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => void lines.push(line) });
  return { disk: new DiskSpace({ path, freeBytesMin, logger }), lines };
}

t.test('a disk with room accepts jobs and commits', async (t) => {
  const { disk, lines } = diskWith(1);
  disk.admit();
  t.equal(disk.forCommit(1_000_000), undefined, 'no commit waits');
  t.strictSame(lines, []);
});

t.test('a disk that is nearly full accepts no jobs, but commits', async (t) => {
  const { bavail, bsize } = statfsSync(path);
  const { disk, lines } = diskWith(bavail * bsize + 2 ** 40);
  for (let n = 0; n < 3; n++) t.throws(() => disk.admit(), { code: 'disk_full' });
  t.equal(disk.forCommit(1), undefined);
  t.equal(lines.length, 1, 'said once');
  t.match(lines[0], /"free_bytes":\d+,"free_bytes_min":\d+,"msg":"the disk is nearly full/);
});
