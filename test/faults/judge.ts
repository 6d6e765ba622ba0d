/** A process that opens images and says what is wrong with them. It is one of its own because a bad image may end it. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkBackup } from '../../src/cli/store/backupFolder.ts';
import { runCheck } from '../../src/cli/store/runCheck.ts';
import { isWhole } from '../../src/cli/store/storeCheck.ts';
import { loadConfig } from '../../src/config/config.ts';
import { encodeReceipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { doubtOf } from '../../src/prove/lastCheckpoint.ts';
import { readReceipt } from '../../src/prove/receipts.ts';
import { openStoreAt } from '../../src/store/engines.ts';
import type { Store } from '../../src/store/store.ts';

/** What was said before the cut. */
export interface Expected {
  /** Jobs that were acknowledged, and whether they were said to be completed. */
  jobs: Record<string, 'accepted' | 'completed'>;
  /** Receipts, as far as clients ever read them. */
  receipts: Record<string, string>;
  /** Commands that ended well. */
  promised: string[];
}

process.on('message', async ({ dir, expected }: { dir: string; expected: Expected }) => {
  process.send?.(await judge(dir, expected).catch((error) => [String(error)]));
});

async function judge(dir: string, { jobs, receipts, promised }: Expected): Promise<string[]> {
  const config = loadConfig(join(dir, 'sandbox.toml'), { files: 'unused' });
  const store = await openStoreAt(config.store, {});
  const against: string[] = [];
  try {
    const doubt = await doubtOf(store, config.log.lastCheckpointFile);
    if (doubt) against.push(doubt.reason);
    for (const [id, phase] of Object.entries(jobs))
      against.push(...(await judgeJob(store, id, phase, receipts[id])));
    const report = await runCheck(store, config);
    if (!isWhole(report))
      against.push(`the check is bad: ${[...report.problems, ...report.flaws].join('; ')}`);
  } finally {
    await store.close();
  }
  if (promised.includes('trust') && !isTrust(join(dir, 'exported.json')))
    against.push('the exported trust file is gone');
  if (promised.includes('backup') && !isWhole(await checkBackup(join(dir, 'backup'), config)))
    against.push('the backup is not whole');
  return against;
}

async function judgeJob(
  store: Store,
  id: string,
  phase: string,
  receipt: string | undefined,
): Promise<string[]> {
  const record = await store.jobs.get(id);
  if (record === undefined) return [`${id} was acknowledged (${phase}) and is gone`];
  if (record.outcome?.kind !== 'sealed')
    return phase === 'completed' ? [`${id} was completed and is not sealed`] : [];
  const text = encodeReceipt(await readReceipt(store, record.job, record.outcome.leafIndex));
  return phase === 'completed' && receipt !== undefined && text !== receipt
    ? [`${id} has another receipt`]
    : [];
}

function isTrust(path: string): boolean {
  return existsSync(path) && parseTrust(readFileSync(path, 'utf8')).logs.length > 0;
}
