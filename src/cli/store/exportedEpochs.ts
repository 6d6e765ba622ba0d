import { fromUtf8, toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/crypto.ts';
import { isAboutEpochs, parseAuditRecord } from '../../manifest/auditRecord.ts';
import { parseReceipt } from '../../manifest/received.ts';
import { parseTrust, type TrustedLog } from '../../manifest/trustFile.ts';
import {
  authorityDifferences,
  deriveEpochs,
  type EpochAct,
  EpochContradiction,
  laterEpochs,
  trustDifferences,
} from '../../prove/epochs/sealedEpochs.ts';
import { certificatesNamed } from '../../store/certificatesOnRecord.ts';
import { exportedTrail } from './exportedTrail.ts';

/** The judgement of a trust file by the sealed records in a folder; in lines. */
export interface ExportedEpochs {
  problems: string[];
  /** Records of epochs that have no effect. */
  void: string[];
  /** Members of the trust file that no record contains. */
  unheld: string[];
}

/**
 * Judges a trust file by the records in a folder that `pdfseal audit export` wrote. Only the receipts of records are there, not the rest of
 * the log, so of the batch before a record only the newest one with a record counts.
 */
export function examineExportedEpochs(folder: string, text: string): ExportedEpochs {
  const trust = parseTrust(text);
  const digest = toHex(sha256(fromUtf8(text)));
  const acts: EpochAct[] = [];
  const sealedAts: { act: EpochAct; sealedAt: number }[] = [];
  const times = new Set<number>();
  const certificates = new Set<string>();
  let isExported = false;
  let origin: string | undefined;
  for (const kept of exportedTrail(folder)) {
    const parsed = parseReceipt(kept.receipt);
    const sealed = parsed.kind === 'receipt' ? parsed.receipt : undefined;
    origin ??= sealed?.evidence.log_origin;
    const sealedAt = sealed && Date.parse(sealed.sealed_at);
    if (sealedAt !== undefined) {
      times.add(sealedAt);
      for (const one of certificatesNamed(kept.text)) certificates.add(one);
      isExported ||= exportedDigest(kept.text) === digest;
    }
    const record = isAboutEpochs(kept.text) ? parseAuditRecord(kept.text) : undefined;
    if (record === undefined) continue;
    const act: EpochAct = { record };
    acts.push(act);
    if (sealedAt !== undefined) sealedAts.push({ act, sealedAt });
  }
  const nothing = { problems: [], void: [], unheld: [] };
  if (origin === undefined) return nothing; // nothing is sealed, so the log of the records is unknown
  const ordered = [...times].sort((a, b) => a - b);
  for (const { act, sealedAt } of sealedAts) act.after = ordered[ordered.indexOf(sealedAt) - 1] ?? -Infinity;
  const log = trust.logs.find((log) => log.origin === origin);
  try {
    const sealed = deriveEpochs(origin, acts, ordered.at(-1));
    if (log === undefined) return { ...nothing, void: sealed.void };
    return {
      problems: [
        ...trustDifferences(log, sealed),
        ...authorityDifferences(trust, log, sealed, { certificates, isExported }),
      ],
      void: sealed.void,
      unheld: [...laterEpochs(log, sealed), ...(isExported ? [] : unrecorded(log))],
    };
  } catch (error) {
    if (!(error instanceof EpochContradiction)) throw error;
    return { ...nothing, problems: error.message.split('\n') };
  }
}

/** Members that no record of an epoch contains. */
function unrecorded({ witnessPolicy }: TrustedLog): string[] {
  if (witnessPolicy === undefined) return [];
  return [
    'no record holds the witness policy of this trust file: take the file of a `pdfseal trust export` that is on record',
  ];
}

/** The digest of the exported trust file, according to a record. */
function exportedDigest(text: string): unknown {
  return text.startsWith('{"act":"trust.export"') ? parseAuditRecord(text)?.object.sha256 : undefined;
}
