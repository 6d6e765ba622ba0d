/** Two layouts that never were: in the second every job lies under a key with a letter before it, in the third there is a count of them. */
import type { Migration } from '../../src/store/lmdb/migrations.ts';

const PREFIX = Buffer.from('j');
const PAGE = 100;
/** Told when a page is on disk. */
export const pages = { onPage: (): void => {} };

const prefixJobs: Migration = async ({ jobs }, write) => {
  const isOld = (key: Uint8Array) => key.length === 16;
  for (;;) {
    const old = Array.from(jobs.getKeys({}), (key) => Buffer.from(key))
      .filter(isOld)
      .slice(0, PAGE);
    if (old.length === 0) return;
    await write(
      old.flatMap((key) => [
        { database: jobs, key: Buffer.concat([PREFIX, key]), value: Buffer.from(jobs.getBinary(key) ?? '') },
        { database: jobs, key },
      ]),
    );
    pages.onPage();
  }
};

const countJobs: Migration = async ({ jobs, quotas }, write) => {
  const value = Buffer.from(`${jobs.getStats().entryCount}`);
  await write([{ database: quotas, key: Buffer.from('jobs'), value }]);
};

export const LAYOUTS: readonly Migration[] = [prefixJobs, countJobs];
