import { bytesEqual } from '../base/bytes.ts';
import { contradiction } from '../history.ts';
import { documentSha256, isReceived, type Job, type ReceivedJob } from '../job/job.ts';
import { type Checkpoint, parseCheckpoint } from '../log/checkpoint.ts';
import { parseNote } from '../log/note.ts';
import { HASH_BYTES, levelWidth, TILE_WIDTH, tilePath, tileWidth } from '../log/tiles.ts';
import { appendLeaves, type Edge, emptyEdge, leafHash, rootOf } from '../log/tree.ts';
import { leafData, manifestOf } from '../manifest/manifest.ts';
import type { TrustFile } from '../manifest/trust.ts';
import { readReceipt } from '../receipts.ts';
import type { Batch, JobQuery, Leaf, Reference, Store, Viewer } from '../store/store.ts';
import { createVerifier } from '../verify.ts';

export interface LogReport {
  leaves: number;
  batches: number;
  completed: number;
  failed: number;
  waiting: number;
  /** How many things do not hold together; the first of them in words, `problemsMax` at most. */
  problemCount: number;
  problems: string[];
}

export interface CheckOptions {
  /** What every receipt must verify under. */
  trust: TrustFile;
  problemsMax: number;
  /** A checkpoint of an earlier time, which the log must extend. */
  earlier?: Checkpoint;
  /** Told the number of leaves checked so far. */
  onLeaves(leaves: number): void;
}

/**
 * Checks that everything in the store follows from its leaves and jobs, and that the log's keys signed for it. Only what
 * the log held at the call is checked; what a running daemon adds meanwhile does not disturb. Memory does not grow with
 * the store: batches, jobs and tiles are read one after the other.
 */
export async function checkLog(store: Store, options: CheckOptions): Promise<LogReport> {
  const check = new LogCheck(store, options);
  const size = (await store.head())?.treeSize ?? 0;
  await check.guarded('the log', () => check.batches(size));
  await check.guarded('what is behind its end', () => check.end(size));
  await check.guarded('its past', () => check.past());
  await check.guarded('the jobs', () => check.jobs(size));
  await check.guarded('what is kept of jobs', () => check.references());
  await check.guarded('the API keys', async () => void (await store.credentials()));
  await check.guarded('the counts of quotas', async () => void (await store.quotaCounts()));
  return check.report;
}

class LogCheck {
  readonly report: LogReport = {
    leaves: 0,
    batches: 0,
    completed: 0,
    failed: 0,
    waiting: 0,
    problemCount: 0,
    problems: [],
  };
  readonly #store: Store;
  readonly #options: CheckOptions;
  readonly #verify: ReturnType<typeof createVerifier>;

  constructor(store: Store, options: CheckOptions) {
    this.#store = store;
    this.#options = options;
    this.#verify = createVerifier(options.trust);
  }

  /** Does a part of the check; damage that makes reading itself fail is a finding too. */
  async guarded(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#problem(`${what} cannot be read to its end: ${(error as Error).message}`);
    }
  }

  /** From the first leaf to the last: the tree grows batch by batch as it once did. */
  async batches(size: number): Promise<void> {
    let edge = emptyEdge();
    while (edge.size < size) {
      const batch = await this.#store.batchOf(edge.size);
      if (batch === undefined || batch.firstLeaf !== edge.size || batch.treeSize <= edge.size) {
        return this.#problem(`no checkpoint covers leaf ${edge.size}: the rest of the log cannot be checked`);
      }
      const leaves = await this.#store.leaves(batch.firstLeaf, batch.treeSize);
      if (leaves.length !== batch.treeSize - batch.firstLeaf) {
        return this.#problem(
          `leaves are missing between ${batch.firstLeaf} and ${batch.treeSize}: the rest of the log cannot be checked`,
        );
      }
      edge = await this.#batch(edge, batch, leaves);
    }
  }

  /** Behind the newest checkpoint there is nothing; a daemon that goes on meanwhile moves it. */
  async end(size: number): Promise<void> {
    const leaves = await this.#store.leaves(size, Number.MAX_SAFE_INTEGER);
    const tiles = await this.#tilesBehind(size);
    if (((await this.#store.head())?.treeSize ?? 0) !== size) return;
    if (leaves.length > 0) this.#problem(`${leaves.length} leaves are behind the newest checkpoint, ${size}`);
    for (const path of tiles) this.#problem(`${path} reaches behind the newest checkpoint, ${size}`);
  }

  /** On each level the last tile, which must be as wide as the tree is, and the one after it, which must not be there. */
  async #tilesBehind(size: number): Promise<string[]> {
    const paths: string[] = [];
    for (let level = 0; level === 0 || levelWidth(level - 1, size) > 0; level++) {
      const last = Math.floor(levelWidth(level, size) / TILE_WIDTH);
      for (const index of [last, last + 1]) {
        const bytes = (await this.#store.tile(level, index))?.length ?? 0;
        if (bytes > tileWidth(level, index, size) * HASH_BYTES)
          paths.push(tilePath({ level, index, width: TILE_WIDTH }));
      }
    }
    return paths;
  }

  /** The log only grows: whatever it once signed it still holds. */
  async past(): Promise<void> {
    const { earlier } = this.#options;
    const problem = earlier && (await contradiction(this.#store, earlier));
    if (problem !== undefined) this.#problem(problem);
  }

  /** What is kept beside jobs is of jobs that are there; and a source URL, which may hold secrets, of none it is not needed for. */
  async references(): Promise<void> {
    for await (const { kind, jobId } of this.#store.references()) {
      const record = await this.#store.job(jobId);
      if (record === undefined) {
        this.#problem(`${NOUNS[kind]} is of ${jobId}, which is not in the store`);
      } else if (kind === 'source' && (isReceived(record.job) || record.outcome !== undefined)) {
        if ((await this.#store.sourceUrl(jobId)) !== undefined)
          this.#problem(`${jobId} still has its source URL, which nobody needs`);
      }
    }
  }

  /** Every job, whether it is in the log or not. */
  async jobs(size: number): Promise<void> {
    const unfinished = new Set<string>();
    let leafIndexMax = -1;
    for await (const record of this.#store.jobs()) {
      const { job, outcome } = record;
      await this.guarded(`what finds ${job.id}`, () => this.#indexes(job));
      if (outcome === undefined) unfinished.add(job.id);
      else if (outcome.kind === 'failed') this.report.failed += 1;
      else {
        if (outcome.leafIndex < size) this.report.completed += 1;
        leafIndexMax = Math.max(leafIndexMax, outcome.leafIndex);
      }
    }
    const sizeNow = (await this.#store.head())?.treeSize ?? 0;
    if (leafIndexMax >= sizeNow) {
      this.#problem(
        `a job is completed as leaf ${leafIndexMax}, but the log has ${sizeNow} leaves: it was cut`,
      );
    }
    if (this.report.completed !== size) {
      this.#problem(`${this.report.completed} jobs are completed, but the log has ${size} leaves`);
    }
    await this.#waiting(unfinished);
  }

  async #batch(edge: Edge, batch: Batch, leaves: Leaf[]): Promise<Edge> {
    const grown = appendLeaves(
      edge,
      leaves.map(({ data }) => leafHash(data)),
    );
    for (const { level, index, hashes } of grown.tiles) {
      const stored = await this.#store.tile(level, index);
      // The stored tile may be of a later size; what it began with never changes.
      if (stored === undefined || !bytesEqual(stored.subarray(0, hashes.length), hashes)) {
        this.#problem(`${tilePath({ level, index, width: TILE_WIDTH })} does not follow from the leaves`);
      }
    }
    this.#checkpoint(batch, grown.edge);
    for (const [offset, leaf] of leaves.entries()) {
      const index = batch.firstLeaf + offset;
      await this.guarded(`leaf ${index}`, () => this.#leaf(batch, index, leaf));
    }
    this.report.batches += 1;
    this.report.leaves = grown.edge.size;
    this.#options.onLeaves(grown.edge.size);
    return grown.edge;
  }

  /** The signatures on it are verified with each receipt that carries it. */
  #checkpoint(batch: Batch, edge: Edge): void {
    const name = `checkpoint ${batch.treeSize}`;
    const checkpoint = parseCheckpoint(parseNote(batch.checkpoint)?.text ?? '');
    if (checkpoint === undefined) this.#problem(`${name} cannot be read`);
    else if (checkpoint.origin !== this.#store.identity.logOrigin) this.#problem(`${name} is of another log`);
    else if (checkpoint.treeSize !== batch.treeSize)
      this.#problem(`${name} says size ${checkpoint.treeSize}`);
    else if (!bytesEqual(checkpoint.root, rootOf(edge))) this.#problem(`${name} is not of these leaves`);
  }

  async #leaf(batch: Batch, index: number, leaf: Leaf): Promise<void> {
    const record = await this.#store.job(leaf.jobId);
    if (record === undefined)
      return this.#problem(`leaf ${index} is of ${leaf.jobId}, which is not in the store`);
    const { job, outcome } = record;
    if (outcome?.kind !== 'sealed' || outcome.leafIndex !== index) {
      return this.#problem(`leaf ${index} is of ${job.id}, which does not say so`);
    }
    if (!isReceived(job)) return this.#problem(`leaf ${index} is of ${job.id}, whose document is not known`);
    if (!bytesEqual(leafData(manifestOf(job, this.#store.identity.environment, batch.sealedAt)), leaf.data)) {
      return this.#problem(`leaf ${index} is not the manifest of ${job.id}`);
    }
    await this.#receipt(job, index);
  }

  async #receipt(job: ReceivedJob, leafIndex: number): Promise<void> {
    const receipt = await readReceipt(this.#store, job, leafIndex);
    const { outcome, checks } = this.#verify({
      document: job.content.document,
      receipt,
      subject: job.source === 'canary' ? 'canary' : 'document',
    });
    if (outcome === 'good') return;
    const found = checks.find((check) => check.outcome !== 'passed');
    this.#problem(`the receipt of ${job.id} does not verify: ${found?.name}: ${found?.detail}`);
  }

  /** A job must be found by everyone who may see it, by its document and by its reference. */
  async #indexes(job: Job): Promise<void> {
    const { id, customerReference } = job;
    const queries: [string, Partial<JobQuery>][] = [
      ['', {}],
      [' and document_sha256', { documentSha256: documentSha256(job) }],
    ];
    if (customerReference !== undefined) queries.push([' and customer_reference', { customerReference }]);
    for (const [circle, viewer] of viewersOf(job)) {
      for (const [by, filter] of queries) {
        const { records } = await this.#store.list({ viewer, limit: 1, before: idAfter(id), ...filter });
        if (records[0]?.job.id !== id) this.#problem(`${id} is not found by its ${circle}${by}`);
      }
    }
  }

  /**
   * What has no outcome must be waiting, or nobody will ever seal it. The list is read after the jobs were, so one that is
   * not on it must have come to its end in between.
   */
  async #waiting(unfinished: Set<string>): Promise<void> {
    const waiting = new Set<string>();
    for (let page = await this.#store.waiting(PAGE); page.length > 0; ) {
      for (const { id } of page) waiting.add(id);
      page = await this.#store.waiting(PAGE, page.at(-1)?.id);
    }
    for (const id of unfinished) {
      if (waiting.has(id)) await this.#waitingJob(id);
      else if ((await this.#store.job(id))?.outcome === undefined)
        this.#problem(`${id} has no outcome and does not wait`);
    }
    for (const id of waiting) {
      const record = await this.#store.job(id);
      if (record?.outcome !== undefined && (await this.#isWaiting(id)))
        this.#problem(`${id} waits, but has an outcome`);
    }
  }

  /** Either its document is known, or where to fetch it from. */
  async #waitingJob(id: string): Promise<void> {
    this.report.waiting += 1;
    if ((await this.#store.sourceUrl(id)) !== undefined) return;
    const record = await this.#store.job(id);
    if (record !== undefined && record.outcome === undefined && !isReceived(record.job))
      this.#problem(`${id} has neither a document nor a source`);
  }

  async #isWaiting(id: string): Promise<boolean> {
    return (await this.#store.waiting(1, idBefore(id)))[0]?.id === id;
  }

  #problem(text: string): void {
    this.report.problemCount += 1;
    if (this.report.problems.length < this.#options.problemsMax) this.report.problems.push(text);
  }
}

const NOUNS: Record<Reference['kind'], string> = {
  outcome: 'an outcome',
  idempotency: 'an idempotency entry',
  content: 'a document',
  source: 'a source URL',
  copy: 'a copy',
};

const PAGE = 1000;
/** No client and no organization has this name. */
const NOBODY = '';

/** One viewer for each circle that may see the job, and of no other circle. */
function viewersOf({ clientId, organization, visibility }: Job): [circle: string, viewer: Viewer][] {
  const nobody: Viewer = { clientId: NOBODY, organization: NOBODY, partnerOf: [] };
  const viewers: [string, Viewer][] = [['client', { ...nobody, clientId }]];
  if (visibility !== 'private') viewers.push(['organization', { ...nobody, organization }]);
  if (visibility === 'partner') viewers.push(['partners', { ...nobody, partnerOf: [organization] }]);
  return viewers;
}

function idAfter(jobId: string): string {
  return idAt(jobId, 1n);
}

function idBefore(jobId: string): string {
  return idAt(jobId, -1n);
}

/** Job ids are numbers of 128 bits in hexadecimal, and no two are neighbours by chance. */
function idAt(jobId: string, distance: bigint): string {
  const number = BigInt(`0x${jobId.slice('job_'.length)}`) + distance;
  return `job_${number.toString(16).padStart(32, '0')}`;
}
