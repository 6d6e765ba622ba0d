import { createHash } from 'node:crypto';
/** Reads how a daemon was left: through its API while it runs, then from its store. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { bytesEqual } from '../../src/base/bytes.ts';
import { loadConfig } from '../../src/config/config.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { documentSha256 } from '../../src/job/job.ts';
import { parseNote } from '../../src/log/note.ts';
import { noteKeyId, verifySignature } from '../../src/log/verifierKey.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust, type TrustFile } from '../../src/manifest/trustFile.ts';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { openSealedPdf } from '../../src/prove/verify/sealedPdf.ts';
import { createVerifier } from '../../src/prove/verify/verify.ts';
import { openStoreAt, type StoreLocation } from '../../src/store/engines.ts';
import { askAdmin } from '../support/admin.ts';
import type { Answer, Client } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import type { FinalState } from './history.ts';
import { TERMS, type Workload } from './workload.ts';

const SETTLE_SECONDS = 60;
/** What is tried again waits for service time, of which a crash loses up to a minute. */
const TOLD_SECONDS = 90;
const READS_MAX = 20;
const AGAIN_MS = 1_000;

/** Waits until nothing is left to do, reads everything, and stops the daemon. */
export async function readFinalState(
  sandbox: Sandbox,
  daemon: Pick<Daemon, 'stop'>,
  workload: Workload,
): Promise<FinalState> {
  const { history, receiver } = workload;
  const receipts: Record<string, string> = {};
  const sealedPdfs: FinalState['sealedPdfs'] = {};
  let isSealing = await workload.settle();
  for (const name of [TERMS.listener, TERMS.limited.client]) {
    const client = workload.client(name);
    const jobs = () => listAll(client);
    const isDone = async () =>
      (await jobs()).every(({ phase }) => phase === 'completed' || phase === 'failed');
    // Where a new document is sealed, the checker names the jobs that are not done.
    await until('all jobs are done', async () => !isSealing || (await isDone()), SETTLE_SECONDS).catch(
      async () => {
        isSealing = await workload.isSealing();
      },
    );
    for (const { id, sealed_pdf_url } of await jobs()) {
      const { status, text } = await read(client, `/v1/jobs/${id}/receipt.json`);
      if (status === 200) receipts[id] = text;
      if (sealed_pdf_url === undefined) continue;
      sealedPdfs[id] = await readSealedPdf(client, id);
    }
    if (name !== TERMS.listener) continue;
    const isTold = async () => {
      const told = toldOf(workload);
      if (Object.keys(receipts).every((id) => told.has(id))) return true;
      return (await askAdmin(sandbox, '/status')).json<AdminStatus>().webhooks.pending === 0;
    };
    await until('all are told', isTold, TOLD_SECONDS).catch(() => {});
  }
  const { store } = loadConfig(sandbox.configFile, { files: 'unused' });
  // The daemon looks once a second for the records of commands. The checker names those that it leaves.
  const isTrailSealed = async () => areRecordsSealed(await readStore(store));
  await until('all records are sealed', isTrailSealed, SETTLE_SECONDS / 4).catch(() => {});
  const checkpoint = (await read(workload.client(TERMS.listener), '/v1/log/checkpoint')).text;
  const status = await daemon.stop();
  if (status !== 0) history.faults.push(`the daemon ended with ${status}`);
  history.messages = receiver.received.map(({ webhookId, body }) => ({ webhookId, body }));
  history.faults.push(...receiver.refused);
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  const verify = createVerifier(trust);
  const isGood = (text: string) => {
    const receipt = JSON.parse(text) as Receipt;
    return verify({ document: receipt.manifest.document, receipt }).outcome === 'good';
  };
  const notes = [checkpoint, ...history.checkpoints, ...Object.values(receipts).map(checkpointIn)];
  const unverified = Object.keys(receipts).filter((id) => !isGood(receipts[id] ?? ''));
  const { pending, ...left } = await readStore(store);
  const told = toldOf(workload);
  const newest = history.backups.at(-1)?.folder;
  const waiting = left.jobs.filter(({ outcome }) => !isSealing && outcome === 'waiting');
  return {
    ...left,
    ...(newest !== undefined && {
      backup: {
        ...(await readStore({ engine: 'lmdb', path: join(newest, 'store') })),
        check: await check(sandbox, '--input', newest),
      },
    }),
    late: [...waiting.map(({ id }) => id), ...pending.filter((id) => !told.has(id))],
    receipts,
    sealedPdfs,
    unverified,
    wrongSignatures: wrongSignatures(notes, trust),
    checkpoint,
    check: await check(sandbox),
    readAt: Date.now(),
  };
}

/** The jobs whose webhooks came, before the log went back to a backup or since. */
function toldOf({ receiver, history }: Workload): Set<string> {
  const ids = [...history.told, ...receiver.received.map(({ webhookId }) => webhookId)];
  return new Set(ids.map((id) => id.replace('msg_', 'job_')));
}

function checkpointIn(receipt: string): string {
  return (JSON.parse(receipt) as Receipt).evidence.checkpoint;
}

async function readSealedPdf(client: Client, id: string): Promise<FinalState['sealedPdfs'][string]> {
  const { status, bytes } = await read(client, `/v1/jobs/${id}/sealed.pdf`);
  if (status !== 200) return { document: '', receipt: '', isWhole: false };
  const reader = readerOf({
    bytes: bytes.length,
    read: (position, length) => bytes.subarray(position, position + length),
  });
  const { finding, receipt = '', documentBytes = 0 } = await openSealedPdf(reader);
  const document = createHash('sha256').update(bytes.subarray(0, documentBytes)).digest('hex');
  return { document, receipt, isWhole: finding.outcome === 'passed' };
}

/** Of keys that the trust file has: lines of witnesses are not ours. */
function wrongSignatures(notes: string[], { logs }: TrustFile): string[] {
  const keys = logs.flatMap(({ origin, epochs }) =>
    epochs.flatMap(({ keys }) => keys.map((key) => ({ key, id: noteKeyId(origin, key) }))),
  );
  return [...new Set(notes)].flatMap((text) => {
    const note = parseNote(text);
    if (note === undefined) return [`not a checkpoint: ${text}`];
    return note.signatures.flatMap(({ name, keyId, signature }) => {
      const known = keys.find(({ id }) => bytesEqual(id, keyId));
      const isWrong = known && !verifySignature(known.key, Buffer.from(note.text), signature);
      return isWrong ? [`a signature of ${name} by ${known.key.region} is wrong: ${text}`] : [];
    });
  });
}

/** Again where the service is too busy to answer, as a client does. */
async function read(client: Client, path: string): Promise<Answer> {
  for (let left = READS_MAX; ; left--) {
    const answer = await client.get(path);
    if (answer.status !== 503 || left === 0) return answer;
    await sleep(AGAIN_MS);
  }
}

interface JobPage {
  jobs: { id: string; phase: string; sealed_pdf_url?: string }[];
  next_cursor?: string;
}

async function listAll(client: Client): Promise<JobPage['jobs']> {
  const found: JobPage['jobs'] = [];
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const answer = await read(client, `/v1/jobs?limit=100${cursor && `&cursor=${cursor}`}`);
    const page: JobPage = answer.json<JobPage>();
    found.push(...page.jobs);
    cursor = page.next_cursor;
  }
  return found;
}

type Left = Pick<FinalState, 'jobs' | 'leaves' | 'trail' | 'quotaCounts'>;

function areRecordsSealed({ trail, jobs }: Left): boolean {
  const sealed = new Set(jobs.filter(({ outcome }) => outcome === 'sealed').map(({ id }) => id));
  return trail.every(({ jobId }) => sealed.has(jobId));
}

/** `pending`: the jobs whose webhooks are still to be sent. */
export async function readStore(location: StoreLocation): Promise<Left & { pending: string[] }> {
  const store = await openStoreAt(location, { readOnly: true });
  try {
    const jobs: FinalState['jobs'] = [];
    for await (const { job, outcome } of store.jobs.all()) {
      jobs.push({
        id: job.id,
        client: job.clientId,
        document: documentSha256(job),
        outcome: outcome?.kind ?? 'waiting',
        ...(outcome?.kind === 'sealed' && { leafIndex: outcome.leafIndex }),
        ...(job.quota && { window: job.quota.startsAt }),
      });
    }
    const pending: string[] = [];
    for (const { id } of await store.webhooks.endpoints.all())
      for (const { webhookId } of await store.webhooks.outbox.pending(id, { limit: Number.MAX_SAFE_INTEGER }))
        pending.push(webhookId.replace('msg_', 'job_'));
    const leaves = await store.log.leaves(0, Number.MAX_SAFE_INTEGER);
    return {
      jobs,
      pending,
      leaves: leaves.map(({ jobId, data }) => ({ jobId, data: Buffer.from(data).toString('hex') })),
      trail: await store.trail.entries(0, Number.MAX_SAFE_INTEGER),
      quotaCounts: (await store.jobs.quotaCounts()).map(({ clientId: client, startsAt: window, jobs }) => ({
        client,
        window,
        jobs,
      })),
    };
  } finally {
    await store.close();
  }
}

async function check(sandbox: Sandbox, ...more: string[]): Promise<FinalState['check']> {
  const args = ['check', '--config', sandbox.configFile, ...more];
  const { status, stdout, stderr } = await sandbox.pdfseal(args);
  return { status, output: stdout + stderr };
}
