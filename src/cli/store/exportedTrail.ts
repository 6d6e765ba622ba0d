/** A folder that `pdfseal audit export` wrote. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { unusable } from '../../base/atomicFile.ts';
import { type KeptRecord, receiptFile, recordFile } from '../../prove/trail/trailCheck.ts';
import { parseReceiptJson, RECEIPT_BYTES_MAX } from '../../prove/verify/receiptText.ts';
import { readTextFile } from '../files.ts';

/** Generous: a record has some hundred bytes, and lists a few names. */
const RECORD_BYTES_MAX = 1 << 20;
/** The numbers of the records in a folder that `pdfseal audit export` made, in their order. Throws OperatorError. */
export function exportedNumbers(folder: string): number[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (cause) {
    throw unusable('read', folder, cause);
  }
  const numbers = names.map((name) => Number(/^audit-(\d{8,15})\.json$/.exec(name)?.[1] ?? 0));
  return numbers.filter((number) => number > 0).sort((a, b) => a - b);
}

/** The records in such a folder. */
export function* exportedTrail(folder: string): Iterable<KeptRecord> {
  const names = new Set(readdirSync(folder));
  for (const number of exportedNumbers(folder)) {
    const text = readTextFile(join(folder, recordFile(number)), RECORD_BYTES_MAX);
    if (!names.has(receiptFile(number))) yield { number, text };
    else {
      const receipt = readTextFile(join(folder, receiptFile(number)), RECEIPT_BYTES_MAX);
      yield { number, text, receipt: parseReceiptJson(receipt) ?? null };
    }
  }
}
