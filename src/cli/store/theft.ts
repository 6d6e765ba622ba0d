/** What stands on the key of an authority that was stolen, for people and programs. */
import { readFileSync } from 'node:fs';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { systemReason } from '../../base/systemReason.ts';
import { trustOfStore } from '../../config/trustAnchors.ts';
import { reportTheft, type Theft, type TheftReport, type TouchedRange } from '../../prove/distrust.ts';
import { readCertificates } from '../../tsa/pki.ts';
import { print, showProgress } from '../terminal.ts';
import { counted } from '../times.ts';
import type { Renewing } from './renewRun.ts';

/** Throws OperatorError unless the file has one root. */
export function readTheft(file: string, since: number): Theft {
  try {
    const [root, second] = readCertificates(readFileSync(file), file);
    if (root === undefined || second !== undefined)
      throw new OperatorError(`${file} must hold one certificate`);
    return { root, since };
  } catch (cause) {
    if (cause instanceof OperatorError) throw cause;
    throw new OperatorError(`cannot read ${file} (${systemReason(cause)})`, { cause });
  }
}

export async function findTheft({ store, config }: Renewing, theft: Theft): Promise<TheftReport> {
  const trust = await trustOfStore(store, config);
  // Receipts of old may rest on a root that the configuration does not name any more.
  const authorities = [...trust.timestampAuthorities, { name: 'distrusted', root: theft.root }];
  const progress = showProgress('reading', (await store.log.head())?.treeSize ?? 0, 'leaves');
  return reportTheft(
    store,
    theft,
    { trust: { ...trust, timestampAuthorities: authorities }, at: systemClock() },
    progress.update,
  ).finally(progress.stop);
}

export function printTheft({ ranges, alone, stillProven, witnessed }: TheftReport): void {
  print(
    `${counted(alone, 'checkpoint')} stand on this root alone; ${counted(stillProven, 'checkpoint')} stay proven`,
  );
  for (const range of ranges) print(`  ${describeRange(range)}`);
  const shown = ranges.reduce((sum, { checkpoints }) => sum + checkpoints, 0);
  if (shown < alone + stillProven) print(`  and ${counted(alone + stillProven - shown, 'checkpoint')} more`);
  for (const { witness, treeSize, time } of witnessed)
    print(
      `the witness ${witness} saw the first ${counted(treeSize, 'leaf', 'leaves')} by ${toRfc3339(time * 1000)}`,
    );
  if (stillProven > 0)
    print('to let evidence records go on without this root, repeat the command with --now');
}

function describeRange({ from, to, checkpoints, by }: TouchedRange): string {
  const where = `leaves ${from} to ${to - 1}, ${counted(checkpoints, 'checkpoint')}`;
  return `${where}: ${by === undefined ? 'this root alone' : `${by} still proves them`}`;
}

export function theftJson({ ranges, alone, stillProven, witnessed }: TheftReport) {
  return {
    alone,
    still_proven: stillProven,
    ranges: ranges.map(({ from, to, checkpoints, by = null }) => ({ from, to, checkpoints, by })),
    witnessed: witnessed.map(({ witness, treeSize, time }) => ({
      witness,
      tree_size: treeSize,
      cosigned_at: toRfc3339(time * 1000),
    })),
  };
}
