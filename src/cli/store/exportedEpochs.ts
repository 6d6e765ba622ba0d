import { isAboutEpochs, parseAuditRecord } from '../../manifest/auditRecord.ts';
import { parseReceipt } from '../../manifest/received.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import {
  deriveEpochs,
  type EpochAct,
  EpochContradiction,
  trustDifferences,
} from '../../prove/sealedEpochs.ts';
import { exportedTrail } from './exportedTrail.ts';

/**
 * What speaks against the epochs of a trust file, by the records in a folder that `pdfseal audit export` wrote, and which of these have no
 * effect: lines. Of the log, only the
 * receipts of records are there, so of the batch before a record only the newest one with a record counts.
 */
export function examineExportedEpochs(
  folder: string,
  trust: TrustFile,
): { problems: string[]; void: string[] } {
  const acts: EpochAct[] = [];
  const sealedAts: { act: EpochAct; sealedAt: number }[] = [];
  const times = new Set<number>();
  let origin: string | undefined;
  for (const { text, receipt } of exportedTrail(folder)) {
    const parsed = parseReceipt(receipt);
    const sealed = parsed.kind === 'receipt' ? parsed.receipt : undefined;
    origin ??= sealed?.evidence.log_origin;
    const sealedAt = sealed && Date.parse(sealed.sealed_at);
    if (sealedAt !== undefined) times.add(sealedAt);
    const record = isAboutEpochs(text) ? parseAuditRecord(text) : undefined;
    if (record === undefined) continue;
    const act: EpochAct = { record };
    acts.push(act);
    if (sealedAt !== undefined) sealedAts.push({ act, sealedAt });
  }
  if (origin === undefined) return { problems: [], void: [] }; // nothing is sealed, so nobody knows of which log the records are
  const ordered = [...times].sort((a, b) => a - b);
  for (const { act, sealedAt } of sealedAts) act.after = ordered[ordered.indexOf(sealedAt) - 1] ?? -Infinity;
  try {
    const sealed = deriveEpochs(origin, acts, ordered.at(-1));
    const log = trust.logs.find((log) => log.origin === origin);
    return { problems: log === undefined ? [] : trustDifferences(log, sealed), void: sealed.void };
  } catch (error) {
    if (!(error instanceof EpochContradiction)) throw error;
    return { problems: error.message.split('\n'), void: [] };
  }
}
