import { BrokenInvariant } from '../../base/assert.ts';
import { fromUtf8, toHex } from '../../base/bytes.ts';
import { sha256, sha512 } from '../../base/crypto.ts';
import {
  type AuditRecord,
  auditDigest,
  auditReference,
  parseAuditRecord,
} from '../../manifest/auditRecord.ts';
import { environmentId } from '../../manifest/manifest.ts';
import { parseReceipt } from '../../manifest/received.ts';
import type { Store } from '../../store/store.ts';
import { type TrailEntry, trailEntries } from '../../store/trail.ts';
import { sealsRecord } from '../epochs/epochSeal.ts';
import { openIn } from '../verify/finding.ts';
import type { Verdict, VerifierInput } from '../verify/verify.ts';
import { readReceipt } from './receipts.ts';

/** A stored record, and its receipt. */
export interface KeptRecord {
  number: number;
  text: string;
  /** Absent until it is sealed. */
  receipt?: unknown;
  /** Why its receipt is missing although it should exist, or another fault in how it is stored. */
  problem?: string;
}

export interface TrailReport {
  records: number;
  sealed: number;
  /** The numbers of records without a receipt so far. */
  unsealed: number[];
  /** The numbers of acts that were begun and whose end is not recorded. */
  unended: number[];
  /** The record with the highest number; absent if there is none. */
  newest?: { number: number; at?: string };
  problems: string[];
  /** Uncertainties. The trail is valid only without problems and doubts. */
  doubts: string[];
}

/** Properties shared by all records of a trail. */
interface Trail {
  environment: string;
  logOrigin: string;
}

/**
 * The records in a store after that number, each with its receipt if one is available now. If `receipts` is false, they are omitted, and
 * the data they are assembled from is not read.
 */
export async function* storedTrail(
  store: Store,
  { after = 0, receipts = true }: { after?: number; receipts?: boolean } = {},
): AsyncIterable<KeptRecord> {
  for await (const entry of trailEntries(store.trail, after)) {
    const { number, text } = entry;
    yield { number, text, ...(await receiptInStore(store, entry, receipts)) };
  }
}

async function receiptInStore(
  store: Store,
  { number, jobId, text }: TrailEntry,
  isWanted: boolean,
): Promise<Pick<KeptRecord, 'receipt' | 'problem'>> {
  const { job, outcome } = (await store.jobs.get(jobId)) ?? {};
  if (job === undefined) return { problem: `${jobId}, which seals it, is not in the store` };
  if (!sealsRecord(job, number, auditDigest(text)))
    return { problem: `${jobId} does not seal this record but something else` };
  if (outcome?.kind === 'failed') return { problem: `${jobId}, which seals it, failed` };
  if (!isWanted || outcome?.kind !== 'sealed') return {};
  try {
    return { receipt: await readReceipt(store, job, outcome.leafIndex) };
  } catch (error) {
    return { problem: `its receipt cannot be read: ${(error as Error).message}` };
  }
}

/** File name of a record; its receipt is `<name>.receipt.json`, as for any document. */
export function recordFile(number: number): string {
  return `audit-${String(number).padStart(8, '0')}.json`;
}

export function receiptFile(number: number): string {
  return `${recordFile(number)}.receipt.json`;
}

export interface TrailCheckOptions {
  /** By default, the trail of the first record with a receipt. */
  trail?: Trail;
  /** If absent, receipts are compared but not verified. */
  verify?: (input: VerifierInput) => Verdict;
  /** The record before the first one to be checked, unless that is the first of all. */
  before?: Pick<KeptRecord, 'number' | 'text'> | undefined;
  /** The newest record has at least this number. */
  newestMin?: number;
}

/**
 * Checks that the records have no gap, that each contains the digest of the one before it, and that receipts are valid and belong to these
 * records. An unreadable record is reported too.
 */
export async function checkTrail(
  records: AsyncIterable<KeptRecord> | Iterable<KeptRecord>,
  options: TrailCheckOptions,
): Promise<TrailReport> {
  const check = new TrailCheck(options);
  try {
    for await (const kept of records) check.add(kept);
  } catch (error) {
    if (!(error instanceof BrokenInvariant)) throw error;
    check.report.problems.push(`the audit trail cannot be read to its end: ${error.message}`);
  }
  return check.end();
}

class TrailCheck {
  readonly report: TrailReport = {
    records: 0,
    sealed: 0,
    unsealed: [],
    unended: [],
    problems: [],
    doubts: [],
  };
  readonly #verify: TrailCheckOptions['verify'];
  readonly #newestMin: number;
  /** Acts that began earlier are not among the records being checked. */
  readonly #firstToConclude: number;
  #trail: Trail | undefined;
  #last: Pick<KeptRecord, 'number' | 'text'> | undefined;

  constructor({ trail, verify, newestMin = 0, before }: TrailCheckOptions) {
    this.#last = before;
    this.#firstToConclude = (before?.number ?? 0) + 1;
    this.#trail = trail;
    this.#verify = verify;
    this.#newestMin = newestMin;
  }

  /** Anyone could have written a record without a receipt, and a trail that ends too early does not show what followed. */
  end(): TrailReport {
    const { newest, unsealed, problems, doubts } = this.report;
    if (newest === undefined) doubts.push('there is no audit record');
    if (unsealed.length > 0) doubts.push(`no receipt proves audit record ${some(unsealed)}`);
    const number = newest?.number ?? 0;
    if (number < this.#newestMin)
      problems.push(
        `the newest audit record is ${number}, and there were ${this.#newestMin}: the trail was cut`,
      );
    return this.report;
  }

  add(kept: KeptRecord): void {
    const { number, text, receipt } = kept;
    const { report } = this;
    report.records += 1;
    const problems = [kept.problem, ...this.#problemsOfPlace(kept)];
    if (receipt !== undefined) {
      report.sealed += 1;
      const problem = problemOfReceipt(kept, this.#trail);
      const checks =
        problem === undefined ? this.#verify?.({ document: digestsOf(text), receipt }).checks : undefined;
      const open = openIn(checks ?? []);
      if (open?.outcome === 'unknown')
        report.doubts.push(
          `audit record ${number}: its receipt cannot be judged: ${open.name}: ${open.detail}`,
        );
      problems.push(
        open?.outcome === 'failed' ? `its receipt does not verify: ${open.name}: ${open.detail}` : problem,
      );
    } else if (kept.problem === undefined) report.unsealed.push(number);
    for (const problem of problems)
      if (problem !== undefined) report.problems.push(`audit record ${number}: ${problem}`);
    this.#last = { number, text };
  }

  #problemsOfPlace({ number, text, receipt }: KeptRecord): string[] {
    const gap = number - (this.#last?.number ?? 0) - 1;
    const missing =
      gap === 0 ? [] : [gap === 1 ? 'the one before it is missing' : `${gap} before it are missing`];
    const record = parseAuditRecord(text);
    if (number > (this.report.newest?.number ?? 0)) this.report.newest = { number, at: record?.at };
    if (record === undefined) return [...missing, 'it is not a record in canonical form'];
    this.#trail ??= trailOf(record.environment, receipt);
    const previous = this.#last && auditDigest(this.#last.text);
    return [
      ...missing,
      ...(record.number === number ? [] : [`it says that it is number ${record.number}`]),
      ...(record.environment === (this.#trail?.environment ?? record.environment)
        ? []
        : [`it is of ${record.environment}`]),
      ...(gap > 0 || record.previous === previous
        ? []
        : ['the one before it is not the one it was written after']),
      ...this.#problemsOfEnd(record),
    ];
  }

  #problemsOfEnd({ number, outcome, concludes }: AuditRecord): string[] {
    const { unended } = this.report;
    if (outcome === 'begun') unended.push(number);
    if (concludes === undefined || concludes < this.#firstToConclude) return [];
    const index = unended.indexOf(concludes);
    if (index < 0) return [`it concludes ${concludes}, which was not begun`];
    unended.splice(index, 1);
    return [];
  }
}

const SHOWN_MAX = 10;

/** The first few of many numbers. */
export function some(numbers: readonly number[]): string {
  return numbers.slice(0, SHOWN_MAX).join(', ') + (numbers.length > SHOWN_MAX ? ', …' : '');
}

function trailOf(environment: string, receipt: unknown): Trail | undefined {
  const parsed = parseReceipt(receipt);
  return parsed.kind === 'receipt'
    ? { environment, logOrigin: parsed.receipt.evidence.log_origin }
    : undefined;
}

/** A receipt for the same bytes requested by a client proves nothing here: the service itself must have requested it. */
function problemOfReceipt(
  { number, text, receipt }: KeptRecord,
  trail: Trail | undefined,
): string | undefined {
  const parsed = parseReceipt(receipt);
  if (parsed.kind !== 'receipt') return 'its receipt cannot be read';
  const { manifest, evidence } = parsed.receipt;
  if (manifest.source !== 'audit' || manifest.customer_reference !== auditReference(number))
    return 'its receipt is not of this record of the audit trail';
  if (trail && (manifest.environment !== trail.environment || evidence.log_origin !== trail.logOrigin))
    return 'its receipt is of another log';
  return manifest.document.sha256 === auditDigest(text)
    ? undefined
    : 'its receipt is of another text: it was altered';
}

function digestsOf(text: string) {
  const bytes = fromUtf8(text);
  return { sha256: toHex(sha256(bytes)), sha512: toHex(sha512(bytes)), bytes: bytes.length };
}

/** Faults in the audit trail of a store, except receipts: those are verified with their leaves. */
export async function trailProblems(store: Store): Promise<string[]> {
  const records = storedTrail(store, { receipts: false });
  return (await checkTrail(records, { trail: trailOfStore(store) })).problems;
}

/** Properties shared by all records of a store's trail. */
export function trailOfStore({ identity }: Pick<Store, 'identity'>): Trail {
  return { environment: environmentId(identity.environment), logOrigin: identity.logOrigin };
}
