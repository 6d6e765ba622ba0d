/** Time-stamps that depend on the stolen key of an authority, for people and programs. */
import { describeSubject, isSelfIssued } from '../../asn1/certificate.ts';
import { bytesEqual } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import { trustOfStore } from '../../config/trustAnchors.ts';
import {
  OWN_TIMESTAMP,
  reportTheft,
  type TheftReport,
  type TouchedRange,
} from '../../prove/renewal/distrust.ts';
import type { Theft } from '../../prove/renewal/thefts.ts';
import { certificatesIn } from '../../tsa/pki.ts';
import { note, print, showProgress } from '../terminal.ts';
import type { Renewing } from './renewRun.ts';

/** Throws OperatorError unless the file has one root. */
export function readTheft(file: string, since: number): Theft {
  const [root, second] = certificatesIn(file);
  if (root === undefined || second !== undefined)
    throw new OperatorError(`${file} must hold one certificate`);
  return { root, since };
}

/** Throws OperatorError if the certificate is not a root, and if nothing depends on it: this does not mean that it is safe. */
export async function findTheft({ store, config }: Renewing, theft: Theft): Promise<TheftReport> {
  const { root, since } = theft;
  if (since > systemClock())
    note(`${toRfc3339(since)} is in the future: time-stamps of this root count until then`);
  const trust = await trustOfStore(store, config);
  const isTrusted = trust.timestampAuthorities.some((one) => bytesEqual(one.root.der, root.der));
  if (!isTrusted && !isSelfIssued(root))
    throw new OperatorError(
      `the certificate of ${describeSubject(root)} is not a root: another certificate issued it`,
      {
        remedy:
          'give the root of the authority, not its time-stamping certificate: pdfseal trust export has it',
      },
    );
  // Old receipts may depend on a root that the configuration no longer names.
  const authorities = [...trust.timestampAuthorities, { name: 'distrusted', root }];
  const progress = showProgress('reading', (await store.log.head())?.treeSize ?? 0, 'leaves');
  const report = await reportTheft(
    store,
    theft,
    { trust: { ...trust, timestampAuthorities: authorities }, at: systemClock() },
    progress.update,
  ).finally(progress.stop);
  if (report.isRootUsed) return report;
  throw new OperatorError(`no time-stamp of the log rests on the root ${describeSubject(root)}`, {
    remedy:
      'make sure that this is the root of the stolen key: pdfseal trust export has the roots of all authorities',
  });
}

export function printTheft({ ranges, alone, stillProven, witnessed }: TheftReport, { since }: Theft): void {
  const verb = (count: number, one: string, many: string) =>
    `${counted(count, 'checkpoint')} ${count === 1 ? one : many}`;
  print(
    `${verb(alone, 'depends', 'depend')} on this root alone; ${verb(stillProven, 'stays', 'stay')} proven`,
  );
  for (const range of ranges) print(`  ${describeRange(range)}`);
  const shown = ranges.reduce((sum, { checkpoints }) => sum + checkpoints, 0);
  if (shown < alone + stillProven) print(`  and ${counted(alone + stillProven - shown, 'checkpoint')} more`);
  for (const { witness, treeSize, time } of witnessed)
    print(
      `the witness ${witness} saw the first ${counted(treeSize, 'leaf', 'leaves')} by ${toRfc3339(time * 1000)}`,
    );
  if (stillProven > 0 && since <= systemClock())
    print('to continue evidence records without this root, repeat the command with --now');
}

function describeRange({ from, to, checkpoints, by }: TouchedRange): string {
  const leaves = to - from === 1 ? `leaf ${from}` : `leaves ${from} to ${to - 1}`;
  const [own, them] =
    checkpoints === 1
      ? [`${OWN_TIMESTAMP} still proves`, 'it']
      : ['their own time-stamps still prove', 'them'];
  const proof =
    by === undefined ? 'this root alone' : `${by === OWN_TIMESTAMP ? own : `${by} still proves`} ${them}`;
  return `${leaves}, ${counted(checkpoints, 'checkpoint')}: ${proof}`;
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
