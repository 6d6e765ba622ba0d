import { bytesEqual } from '../../base/bytes.ts';
import { faultOfWaiting } from '../../job/acceptedJob.ts';
import { isReceived, type Job, type ReceivedJob } from '../../job/job.ts';
import { type Checkpoint, parseCheckpoint } from '../../log/checkpoint.ts';
import { parseNote } from '../../log/note.ts';
import { type ReadTile, TILE_WIDTH, type Tile } from '../../log/tiles.ts';
import { appendLeaves, type Edge, emptyEdge, leafHash, rootOf } from '../../log/tree.ts';
import { parseAuditReference } from '../../manifest/auditRecord.ts';
import { leafData, type Manifest, manifestOf } from '../../manifest/manifest.ts';
import { parseManifest } from '../../manifest/received.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { EpochSeal, examineEpochs } from '../../prove/epochs/epochSeal.ts';
import { renewalLapses, renewalProblems } from '../../prove/renewal/renewalCheck.ts';
import { continuedOtherwise, olderCopy } from '../../prove/trail/history.ts';
import { readReceipt } from '../../prove/trail/receipts.ts';
import { trailProblems } from '../../prove/trail/trailCheck.ts';
import { isOpen } from '../../prove/verify/finding.ts';
import { createVerifier } from '../../prove/verify/verify.ts';
import type { Batch, JobReference, Leaf, Store } from '../../store/store.ts';
import { cannotBeRead, recordProblems } from './recordCheck.ts';
import { emptyIndexReport, isWhole, type StoreReport } from './storeReport.ts';
import { witnessProblems } from './witnessCheck.ts';

export interface CheckOptions {
  /** Every receipt must verify under this trust file. */
  trust: TrustFile;
  problemsMax: number;
  /** An earlier checkpoint, which the log must extend. */
  earlier?: Checkpoint;
  /** Receives the number of leaves checked so far. */
  onLeaves(leaves: number): void;
  /** Receives the name of each part that begins: the log takes half of the time at most, and its leaves are all counted then. */
  onPart?(part: string): void;
}

/**
 * Checks that the log's keys signed for the leaves in the store, that everything else follows from leaves and jobs, and that every receipt
 * verifies. Only the content of the log at the call is checked; additions by a running daemon do not disturb. Memory does not grow with the
 * store: batches, jobs and indexes are read one after the other.
 */
export async function checkStore(store: Store, options: CheckOptions): Promise<StoreReport> {
  const check = new StoreCheck(store, options);
  const size = (await store.log.head())?.treeSize ?? 0;
  await check.part('the log', () => check.batches(size));
  await check.part('what is behind its end', () => check.end());
  await check.part('the jobs', () => check.jobs(size));
  await check.part('what is kept of jobs', () => check.references());
  await check.part('the copies', async () => {
    for await (const _ of store.copies.all());
  });
  await check.findings('the audit trail', () => trailProblems(store));
  await check.findings('what witnesses have said', () => witnessProblems(store));
  const { timestampAuthorities } = options.trust;
  await check.findings('the renewals', () => renewalProblems(store, timestampAuthorities));
  await check.part('the renewals', async () => {
    const lapses = await renewalLapses(store, timestampAuthorities, Date.now());
    if (lapses.length > 0) check.report.lapses = lapses;
  });
  for (const problem of await recordProblems(store, options.onPart)) check.problem(problem);
  await check.part('the webhook endpoints', async () => void (await store.webhooks.endpoints.all()));
  if (check.report.problemCount === 0) await check.part('the indexes', () => check.indexes());
  // The proofs are read from tiles, which must be mended first.
  if (check.report.problemCount > 0 || isWhole(check.report))
    await check.part('the epochs', () => check.epochs());
  return check.report;
}

class StoreCheck {
  readonly report: StoreReport = {
    leaves: 0,
    batches: 0,
    completed: 0,
    failed: 0,
    waiting: 0,
    problemCount: 0,
    problems: [],
    flaws: [],
  };
  readonly #store: Store;
  readonly #options: CheckOptions;
  readonly #verify: ReturnType<typeof createVerifier>;
  /** Tiles at the edge of the tree as it grows: all that proofs of its newest leaves need. The stored tiles are judged with the indexes. */
  #tiles = new Map<string, Uint8Array>();
  /** The newest leaf that seals an audit record; -1 if none does. */
  #newestRecord = -1;
  /** Jobs whose outcome names another leaf than theirs. */
  readonly #misplaced = new Set<string>();

  constructor(store: Store, options: CheckOptions) {
    this.#store = store;
    this.#options = options;
    this.#verify = createVerifier(options.trust, { judgesDates: false });
  }

  /** Runs a part of the check; damage that makes reading itself fail is a finding too. */
  part(what: string, work: () => Promise<void>): Promise<void> {
    this.#options.onPart?.(what);
    return this.#guarded(what, work);
  }

  async #guarded(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.problem(cannotBeRead(what, error));
    }
  }

  /** Adds the findings of another check. */
  findings(what: string, work: () => Promise<string[]>): Promise<void> {
    return this.part(what, async () => (await work()).forEach(this.problem, this));
  }

  /** Checks all batches from the first leaf to the last: the tree grows as it once did. */
  async batches(size: number): Promise<void> {
    const { earlier } = this.#options;
    if (earlier !== undefined && size < earlier.treeSize) this.problem(olderCopy(size, earlier));
    let edge = emptyEdge();
    while (edge.size < size) {
      const batch = await this.#store.log.batchOf(edge.size);
      if (batch === undefined || batch.firstLeaf !== edge.size || batch.treeSize <= edge.size) {
        return this.problem(`no checkpoint covers leaf ${edge.size}: the rest of the log cannot be checked`);
      }
      const leaves = await this.#store.log.leaves(batch.firstLeaf, batch.treeSize);
      if (leaves.length !== batch.treeSize - batch.firstLeaf) {
        return this.problem(
          `leaves are missing between ${batch.firstLeaf} and ${batch.treeSize}: the rest of the log cannot be checked`,
        );
      }
      edge = await this.#batch(edge, batch, leaves);
    }
  }

  /**
   * Checks that nothing follows the newest checkpoint. A daemon that runs meanwhile moves it: the leaves sealed since the check began can
   * be more than fits into memory, so they are not read.
   */
  async end(): Promise<void> {
    const size = await this.#size();
    const leaves = await this.#store.log.leaves(size, Number.MAX_SAFE_INTEGER);
    if ((await this.#size()) !== size) return;
    if (leaves.length > 0) this.problem(`${leaves.length} leaves are behind the newest checkpoint, ${size}`);
  }

  /** Checks the data that follows from all the rest. */
  async indexes(): Promise<void> {
    const { flaws } = this.report;
    const indexes = emptyIndexReport();
    for await (const { index, kind, entry } of this.#store.indexes.check()) {
      indexes[index][kind] += 1;
      if (flaws.length < this.#options.problemsMax) flaws.push(`index ${index}: ${entry} is ${kind}`);
    }
    this.report.indexes = indexes;
  }

  /** Checks that the epochs are those that the log sealed. If the log is damaged, which is known by now, they cannot be judged. */
  async epochs(): Promise<void> {
    try {
      // If there is no problem, every leaf is under the newest checkpoint.
      const read = { size: this.report.leaves, newestRecord: this.#newestRecord };
      const epochSeal = new EpochSeal(this.#store, this.report.problemCount === 0 ? { read } : {});
      const { problems, void: without } = await examineEpochs(this.#store, epochSeal);
      if (without.length > 0) this.report.void_records = without;
      if (problems.length === 0) this.report.epochs = 'sealed';
      else if (this.report.problemCount === 0) this.report.epochs = 'contradicted';
      if (problems.length > 0) delete this.report.indexes;
      // Put first, because they are why receipts do not verify, however many those are.
      this.report.problemCount += problems.length;
      this.report.problems = [...problems, ...this.report.problems].slice(0, this.#options.problemsMax);
    } catch (error) {
      if (this.report.problemCount === 0) throw error;
    }
  }

  /** Checks that every entry about a job belongs to an existing job. */
  async references(): Promise<void> {
    for await (const { kind, jobId } of this.#store.jobs.references()) {
      if ((await this.#store.jobs.get(jobId)) === undefined)
        this.problem(`${NOUNS[kind]} is of ${jobId}, which is not in the store`);
    }
  }

  /** Checks every job, whether it is in the log or not. */
  async jobs(size: number): Promise<void> {
    let leafIndexMax = -1;
    for await (const { job, outcome } of this.#store.jobs.all()) {
      if (job.source === 'audit') await this.#auditJob(job);
      if (outcome === undefined) await this.#waitingJob(job.id);
      else if (outcome.kind === 'failed') this.report.failed += 1;
      else if (!this.#misplaced.has(job.id)) {
        if (outcome.leafIndex < size) this.report.completed += 1;
        leafIndexMax = Math.max(leafIndexMax, outcome.leafIndex);
      }
    }
    const sizeNow = await this.#size();
    if (leafIndexMax >= sizeNow) {
      this.problem(`a job is sealed as leaf ${leafIndexMax}, but the log has ${sizeNow} leaves: it was cut`);
    }
  }

  /** Size of the tree that the newest checkpoint commits to, as of now. */
  async #size(): Promise<number> {
    return (await this.#store.log.head())?.treeSize ?? 0;
  }

  /** A removed record is still known by the job that seals it. */
  async #auditJob({ id, customerReference }: Job): Promise<void> {
    const number = parseAuditReference(customerReference) ?? 0;
    const entry = await this.#store.trail.entry(number);
    if (entry?.jobId === id) return;
    this.report.records_missing = (this.report.records_missing ?? 0) + 1;
    this.problem(`${id} seals audit record ${number}, which is not there`);
  }

  async #batch(edge: Edge, batch: Batch, leaves: Leaf[]): Promise<Edge> {
    const hashes = leaves.map(({ data }) => leafHash(data));
    const grown = appendLeaves(edge, hashes);
    this.#tiles = tilesOf(grown);
    this.#past(edge, hashes);
    const isCommitted = this.#checkpoint(batch, grown.edge);
    let isProven = false;
    for (const [offset, leaf] of leaves.entries()) {
      const index = batch.firstLeaf + offset;
      await this.#guarded(`leaf ${index}`, async () => {
        const sealed = await this.#leaf(batch, index, leaf);
        // Without its checkpoint no receipt of the batch verifies, and the damaged leaf would be lost among them.
        if (sealed === undefined || !isCommitted) return;
        // The tree was built from these very leaves, so the receipts of one batch differ only in their manifests.
        if (isProven && parseManifest(sealed.manifest) !== undefined) return;
        isProven = await this.#receipt(sealed.job, batch, index);
      });
    }
    this.report.batches += 1;
    this.report.leaves = grown.edge.size;
    this.#options.onLeaves(grown.edge.size);
    return grown.edge;
  }

  /** Checks that the log still holds everything it once signed, since it only grows. */
  #past(edge: Edge, hashes: Uint8Array[]): void {
    const { earlier } = this.#options;
    if (
      earlier === undefined ||
      earlier.treeSize <= edge.size ||
      earlier.treeSize > edge.size + hashes.length
    )
      return;
    const then = appendLeaves(edge, hashes.slice(0, earlier.treeSize - edge.size)).edge;
    if (!bytesEqual(rootOf(then), earlier.root)) this.problem(continuedOtherwise(earlier));
  }

  /** Whether the checkpoint is of these leaves. Its signatures are verified with each receipt that carries it. */
  #checkpoint(batch: Batch, edge: Edge): boolean {
    const fault = faultOf(batch, edge, this.#store.identity.logOrigin);
    if (fault) this.problem(`checkpoint ${batch.treeSize} ${fault}`);
    return !fault;
  }

  /** Returns the job of the leaf, if the leaf is its manifest. */
  async #leaf(
    batch: Batch,
    index: number,
    leaf: Leaf,
  ): Promise<{ job: ReceivedJob; manifest: Manifest } | undefined> {
    const record = await this.#store.jobs.get(leaf.jobId);
    if (record === undefined)
      return this.problem(`leaf ${index} is of ${leaf.jobId}, which is not in the store`);
    const { job, outcome } = record;
    if (outcome?.kind === 'failed') return this.problem(`leaf ${index} is of ${job.id}, which failed`);
    if (outcome !== undefined && outcome.leafIndex !== index) {
      const isLeaf = Number.isSafeInteger(outcome.leafIndex);
      const [other] = isLeaf ? await this.#store.log.leaves(outcome.leafIndex, outcome.leafIndex + 1) : [];
      if (other?.jobId === job.id)
        return this.problem(`leaf ${index} is of ${job.id}, and so is leaf ${outcome.leafIndex}`);
      this.#misplaced.add(job.id);
    }
    if (!isReceived(job)) return this.problem(`leaf ${index} is of ${job.id}, whose document is not known`);
    const manifest = manifestOf(job, this.#store.identity.environment, batch.sealedAt);
    if (!bytesEqual(leafData(manifest), leaf.data))
      return this.problem(`leaf ${index} is not the manifest of ${job.id}`);
    if (job.source === 'audit') this.#newestRecord = index;
    return { job, manifest };
  }

  /** Whether the receipt verifies. */
  async #receipt(job: ReceivedJob, batch: Batch, leafIndex: number): Promise<boolean> {
    const tile: ReadTile = async (level, index) => this.#tiles.get(tileName({ level, index }));
    const { identity } = this.#store;
    const receipt = await readReceipt(
      { identity, log: { batchOf: async () => batch, tile } },
      job,
      leafIndex,
    );
    const { outcome, checks } = this.#verify({
      document: job.content.document,
      receipt,
      subject: job.source === 'canary' ? 'canary' : 'document',
    });
    if (outcome === 'good') return true;
    const found = checks.find((check) => isOpen(check.outcome));
    this.problem(`the receipt of ${job.id} does not verify: ${found?.name}: ${found?.detail}`);
    return false;
  }

  /** Either its document is known, or where to fetch it from; and a request can have made it. */
  async #waitingJob(id: string): Promise<void> {
    this.report.waiting += 1;
    const sourceUrl = await this.#store.jobs.sourceUrl(id);
    const record = await this.#store.jobs.get(id);
    // Meanwhile the daemon can have fetched the document, or concluded the job.
    if (record === undefined || record.outcome !== undefined) return;
    const { job } = record;
    const isFetched = isReceived(job);
    if (!isFetched && sourceUrl === undefined)
      return this.problem(`${id} has neither a document nor a source`);
    const fault = faultOfWaiting(job, isFetched ? undefined : sourceUrl);
    if (fault !== undefined)
      this.problem(
        `${id} waits in a form that no request makes (${fault}): the daemon fails it at its next start; find out who wrote it`,
      );
  }

  problem(text: string): undefined {
    this.report.problemCount += 1;
    if (this.report.problems.length < this.#options.problemsMax) this.report.problems.push(text);
  }
}

function faultOf({ checkpoint: text, treeSize }: Batch, edge: Edge, origin: string): string | undefined {
  const checkpoint = parseCheckpoint(parseNote(text)?.text ?? '');
  if (checkpoint === undefined) return 'cannot be read';
  if (checkpoint.origin !== origin) return 'is of another log';
  if (checkpoint.treeSize !== treeSize) return `says size ${checkpoint.treeSize}`;
  return bytesEqual(checkpoint.root, rootOf(edge)) ? undefined : 'is not of these leaves';
}

const NOUNS: Record<JobReference['kind'], string> = {
  outcome: 'an outcome',
  idempotency: 'an idempotency entry',
  content: 'a document',
  source: 'a source URL',
  copy: 'a copy',
};

/** The changed tiles, and the unchanged ones at the edge of the tree. */
function tilesOf({ edge, tiles }: { edge: Edge; tiles: Tile[] }): Map<string, Uint8Array> {
  const partial = edge.partial.map((hashes, level) => {
    const index = Math.floor(edge.size / TILE_WIDTH ** (level + 1));
    return [tileName({ level, index }), hashes] as const;
  });
  return new Map([...partial, ...tiles.map((tile) => [tileName(tile), tile.hashes] as const)]);
}

const tileName = ({ level, index }: Pick<Tile, 'level' | 'index'>) => `${level}/${index}`;
