/** Reads the audit trail for the console: pages of it, the newest record first, a check, and an archive. */
import { setImmediate as turn } from 'node:timers/promises';
import type { AuditRecord } from '../manifest/auditRecord.ts';
import { parseAuditRecord } from '../manifest/auditRecord.ts';
import { fitsFilter, type RecordFilter } from '../manifest/auditWords.ts';
import { encodeReceipt, type Receipt } from '../manifest/receipt.ts';
import {
  checkTrail,
  type KeptRecord,
  receiptFile,
  recordFile,
  storedTrail,
  type TrailCheckOptions,
  type TrailReport,
  trailOfStore,
} from '../prove/trail/trailCheck.ts';
import type { Store } from '../store/store.ts';
import { TAR_END, tarFile } from './tar.ts';

export interface ListedRecord {
  number: number;
  /** Undefined if the text is not a valid record. */
  record: AuditRecord | undefined;
  /** Undefined until the record is sealed. */
  leafIndex: number | undefined;
}

const PAGE_RECORDS = 50;
/** Records read from the store at a time, and the most read for one page: a filter without matches must not read the whole trail. */
const READ_RECORDS = 50;
const READ_RECORDS_MAX = 1_000;
/** Verifying a receipt takes about a millisecond of the daemon. */
export const CHECKED_RECORDS_MAX = 1_000;

/** Records before a number that match a filter, newest first. `older`: where the next page begins; undefined at the end. */
export async function listRecords(
  store: Store,
  before: number,
  filter: RecordFilter,
): Promise<{ records: ListedRecord[]; older: number | undefined }> {
  const records: ListedRecord[] = [];
  let next = before;
  const last = Math.max(1, before - READ_RECORDS_MAX);
  while (next > last) {
    const after = Math.max(0, next - 1 - READ_RECORDS);
    const entries = await store.trail.entries(after, next - 1 - after);
    for (const { number, jobId, text } of entries.reverse()) {
      next = number;
      const record = parseAuditRecord(text);
      if (record !== undefined && !fitsFilter(record, filter)) continue;
      records.push({ number, record, leafIndex: await leafOf(store, jobId) });
      if (records.length === PAGE_RECORDS) return { records, older: number > 1 ? number : undefined };
    }
    if (entries.length === 0) next = after + 1;
    await turn();
  }
  return { records, older: next > 1 ? next : undefined };
}

async function leafOf(store: Store, jobId: string): Promise<number | undefined> {
  const outcome = (await store.jobs.get(jobId))?.outcome;
  return outcome?.kind === 'sealed' ? outcome.leafIndex : undefined;
}

/** One record, with its receipt if it is sealed; undefined if no record has that number. */
export async function findRecord(store: Store, number: number): Promise<KeptRecord | undefined> {
  for await (const kept of storedTrail(store, { after: number - 1 }))
    return kept.number === number ? kept : undefined;
  return undefined;
}

/** Checks the newest records at the given pace: each must name the one before it, and each receipt must verify. */
export async function checkNewest(
  store: Store,
  verify: TrailCheckOptions['verify'],
  pace: (records: AsyncIterable<KeptRecord>) => AsyncIterable<KeptRecord>,
): Promise<TrailReport & { first: number }> {
  const newest = await store.trail.newest();
  const after = Math.max(0, newest - CHECKED_RECORDS_MAX);
  const before = after === 0 ? undefined : await store.trail.entry(after);
  const records = pace(storedTrail(store, { after }));
  const options = { trail: trailOfStore(store), before, newestMin: newest, ...(verify && { verify }) };
  return { ...(await checkTrail(records, options)), first: after + 1 };
}

/** The files that `pdfseal audit export` writes, in one archive. */
export async function* archiveOf(store: Store): AsyncGenerator<Buffer> {
  for await (const { number, text, receipt } of inTurns(storedTrail(store))) {
    const seconds = Date.parse(parseAuditRecord(text)?.at ?? '') / 1000 || 0;
    yield tarFile(recordFile(number), Buffer.from(text), seconds);
    if (receipt !== undefined)
      yield tarFile(receiptFile(number), Buffer.from(encodeReceipt(receipt as Receipt)), seconds);
  }
  yield TAR_END;
}

/** Yields to the daemon's other work after each record. */
async function* inTurns<One>(all: AsyncIterable<One>): AsyncGenerator<One> {
  for await (const one of all) {
    yield one;
    await turn();
  }
}
