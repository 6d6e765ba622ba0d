import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type DocumentDigests, isOfClient } from '../../src/job/job.ts';
import { type Checkpoint, parseCheckpoint } from '../../src/log/checkpoint.ts';
import { parseNote } from '../../src/log/note.ts';
import { consistencyProof, verifyConsistency } from '../../src/log/proof.ts';
import { tilePath, tileWidth } from '../../src/log/tiles.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { Client, type JobBody } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { random } from '../support/seed.ts';
import { until } from '../support/until.ts';

const KILLS = 50;
const CLIENTS = 6;

/** One create, repeated with its key until it is answered; then repeated now and then. */
interface Create {
  key: string;
  document: Buffer<ArrayBuffer>;
  fields: Record<string, string>;
  headers: Record<string, string>;
  /** Id of the job its 202 named. */
  jobId?: string;
}

/** What clients of a daemon that is killed again and again were promised. */
class Ledger {
  readonly creates: Create[] = [];
  readonly broken: string[] = [];
  answers = 0;

  next(): Create {
    const repeat = this.creates.find((one) => one.jobId === undefined);
    if (repeat && random() < 0.7) return repeat;
    const answered = this.creates[Math.floor(random() * this.creates.length * 5)];
    return answered ?? this.#add();
  }

  #add(): Create {
    const n = this.creates.length;
    const create: Create = {
      key: `create-number-${n}`,
      document: Buffer.from(`%PDF-1.7\ndocument ${n} ${'x'.repeat(random() * 20_000)}\n%%EOF\n`),
      fields: { mode: n % 3 === 0 ? 'async' : 'blocking', customer_reference: `reference ${n}` },
      // The time of some callers runs out before, while or after their job is committed.
      headers: n % 3 === 1 ? { Prefer: 'wait=0' } : {},
    };
    this.creates.push(create);
    return create;
  }

  answered(create: Create, jobId: string): void {
    if (create.jobId !== undefined && create.jobId !== jobId) {
      this.broken.push(`${create.key}: ${create.jobId}, then ${jobId}`);
    }
    create.jobId = jobId;
    this.answers += 1;
  }
}

/** Posts until the daemon is gone. Answers other than 202, and 409 while the same create is being received, are faults. */
async function postUntilGone(client: Client, ledger: Ledger): Promise<void> {
  for (;;) {
    const create = ledger.next();
    const answer = await client
      .seal(create.document, create.fields, { ...create.headers, 'Idempotency-Key': create.key })
      .catch((error: unknown) => {
        if (error instanceof TypeError) return undefined; // fetch: the connection broke
        throw error;
      });
    if (!answer) return;
    if (answer.status === 202) ledger.answered(create, answer.json<JobBody>().id);
    else if (answer.status !== 409) ledger.broken.push(`${create.key}: ${answer.text}`);
  }
}

async function readCheckpoint(client: Client): Promise<Checkpoint | undefined> {
  const answer = await client.get('/v1/log/checkpoint');
  if (answer.status === 404) return undefined;
  const note = parseNote(answer.text);
  const checkpoint = note && parseCheckpoint(note.text);
  if (!checkpoint) throw new Error(`not a checkpoint: ${answer.text}`);
  return checkpoint;
}

/** Each tree the clients saw is a prefix of the last one, by consistency proofs over the published tiles. */
async function assertOnlyGrew(t: Test, client: Client, seen: Checkpoint[]): Promise<void> {
  const last = seen.at(-1);
  if (!last) throw new Error('no checkpoint was seen');
  const readTile = async (level: number, index: number) => {
    const width = tileWidth(level, index, last.treeSize);
    return (await client.get(`/v1/log/${tilePath({ level, index, width })}`)).bytes;
  };
  for (const { treeSize, root } of seen) {
    const proof = await consistencyProof(treeSize, last.treeSize, readTile);
    t.ok(
      verifyConsistency(treeSize, last.treeSize, proof, root, last.root),
      `${treeSize} of ${last.treeSize}`,
    );
  }
}

function digestsOf(document: Buffer): DocumentDigests {
  const hex = (algorithm: string) => createHash(algorithm).update(document).digest('hex');
  return { sha256: hex('sha256'), sha512: hex('sha512'), bytes: document.length };
}

/** Leaves of that tree that the service made for itself: canaries and records of the audit trail. */
async function countOwn(path: string, treeSize: number): Promise<number> {
  const store = await openStore({ path, readOnly: true });
  let count = 0;
  for await (const { job, outcome } of store.jobs.all()) {
    if (!isOfClient(job) && outcome?.kind === 'sealed' && outcome.leafIndex < treeSize) count += 1;
  }
  await store.close();
  return count;
}

t.test(`killed ${KILLS} times under load, it keeps every promise`, async (t) => {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], code: 'dist', stamped: true });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  const ledger = new Ledger();
  const first = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  await first.stop();
  const seen: Checkpoint[] = [];

  for (let kill = 0; kill < KILLS; kill++) {
    const daemon = await sandbox.start();
    const before = await readCheckpoint(client);
    if (before) seen.push(before);
    const posting = Array.from({ length: CLIENTS }, () => postUntilGone(client, ledger));
    const answered = ledger.answers;
    if (kill % 2 === 0) await until('something is promised', () => ledger.answers > answered);
    await sleep(random() * 500);
    await daemon.kill();
    await Promise.all(posting);
    // Now and then it dies again before it is up.
    if (kill % 5 === 0) {
      const starting = sandbox.start().catch(() => {});
      await sleep(random() * 1000);
      await sandbox.kill();
      await starting;
    }
  }

  const daemon = await sandbox.start();
  for (const create of ledger.creates) {
    // Without an answer there is a whole job or none; its key names it, as the repeat below shows.
    const path = `/v1/jobs?document_sha256=${digestsOf(create.document).sha256}`;
    for (const { id } of (await client.get(path)).json<{ jobs: JobBody[] }>().jobs)
      ledger.answered(create, id);
    const answer = await client.seal(create.document, create.fields, { 'Idempotency-Key': create.key });
    t.equal(answer.status, 202, create.key);
    ledger.answered(create, answer.json<JobBody>().id);
  }
  t.strictSame(ledger.broken, [], 'a repeat names the same job, and nothing was refused');

  const leaves = new Set<number>();
  for (const { key, document, jobId } of ledger.creates) {
    const path = `/v1/jobs/${jobId}`;
    await until(`${key} is completed`, async () => {
      return (await client.get(path)).json<JobBody>().phase === 'completed';
    });
    const receipt = (await client.get(`${path}/receipt.json`)).json<Receipt>();
    const verdict = verifyReceipt({ document: digestsOf(document), receipt, trust });
    t.equal(verdict.outcome, 'good', `${key}: ${JSON.stringify(verdict.checks)}`);
    leaves.add(receipt.evidence.leaf_index);
    const same = await client.get(`/v1/jobs?document_sha256=${receipt.document_sha256}`);
    t.equal(same.json<{ jobs: unknown[] }>().jobs.length, 1, `${key} made one job`);
  }
  const last = await readCheckpoint(client);
  if (!last) throw new Error('the log is empty');
  seen.push(last);
  t.equal(leaves.size, ledger.creates.length, 'every job has a leaf of its own');
  await assertOnlyGrew(t, client, seen);
  t.comment(`${ledger.creates.length} jobs, ${seen.length} checkpoints`);

  t.equal(await daemon.stop(), 0);
  const own = await countOwn(join(sandbox.dir, 'state', 'store'), last.treeSize);
  t.equal(last.treeSize, leaves.size + own, 'and the log has no others but its own');
  const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  t.equal(check.status, 0, check.stdout + check.stderr);
});
