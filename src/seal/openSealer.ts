import { OperatorError } from '../base/errors.ts';
import { faultOfWaiting, UNSEALABLE } from '../job/acceptedJob.ts';
import type { Job } from '../job/job.ts';
import { emptyEdge } from '../log/tree.ts';
import { committedEdge } from './draft.ts';
import { Pending } from './pending.ts';
import { PendingJobs } from './pendingJobs.ts';
import { Pipeline } from './pipeline.ts';
import { RefusedJobs } from './refusedJobs.ts';
import { Sealer, type SealerOptions } from './sealer.ts';
import { SealingLoop } from './sealingLoop.ts';

/**
 * Opens the sealer at the tree that the newest checkpoint commits to. Throws OperatorError if tiles and checkpoint
 * disagree: the store is damaged, and another signature would hide that. It throws OperatorError also for a waiting job of the audit trail
 * that is not to be sealed (see {@link SealerOptions.requireRecord}), and for an announced batch with a job that no node accepted.
 */
export async function openSealer(
  options: SealerOptions,
  refused = new RefusedJobs(options.logger),
): Promise<Sealer> {
  const { store } = options;
  const head = await store.log.head();
  const edge =
    head === undefined
      ? emptyEdge()
      : await committedEdge(head, (level, index) => store.log.tile(level, index));
  if (edge === undefined) {
    throw new OperatorError(
      'the log in the store does not match its newest checkpoint; nothing will be signed. Run `pdfseal check`: its last line says what to do',
    );
  }
  const waiting = await store.jobs.waiting(Number.MAX_SAFE_INTEGER);
  for (const job of waiting) if (job.source === 'audit') await options.requireRecord(job);
  const faults = await store.acceptances?.faults(waiting);
  const announced = await store.log.announced();
  const shown = new Set(announced?.jobIds);
  const sealable: Job[] = [];
  for (const job of waiting) {
    const fault = faults?.get(job.id);
    // Witnesses may have seen the announced batch, so its jobs cannot fail any more.
    if (shown.has(job.id)) requireAccepted(job, fault);
    else if (await isSealable(job, fault, { ...options, refused })) sealable.push(job);
  }
  const pending = new PendingJobs(options);
  // A received job found waiting may already have been reported as `sealing`; a phase never goes back.
  for (const job of sealable) pending.enqueue(new Pending(job, job.content ? 'sealing' : 'queued'));
  const pipeline = new Pipeline(options, pending, edge, head);
  if (announced !== undefined) await pipeline.resume(announced, waiting);
  const loop = new SealingLoop(options, pending, pipeline);
  loop.start();
  return new Sealer(options, pending, loop);
}

function requireAccepted({ id }: Job, fault: string | undefined): void {
  if (fault === undefined) return;
  throw new OperatorError(
    `the batch that is to be sealed next has the job ${id}, which no node accepted: ${fault}`,
    {
      remedy:
        'somebody else wrote to the database: find out who. Then restore it, or see "Forked log" in the manual',
    },
  );
}

/** Fails a job that nobody can have accepted. `fault`: why it is not what a node accepted. */
async function isSealable(
  job: Job,
  fault: string | undefined,
  { store, clock, refused }: SealerOptions & { refused: RefusedJobs },
): Promise<boolean> {
  // The store gives no source of a job that was altered.
  const detail =
    fault ?? faultOfWaiting(job, job.content === undefined ? await store.jobs.sourceUrl(job.id) : undefined);
  if (detail === undefined) return true;
  refused.note({ event: 'waiting_refused', jobId: job.id, detail });
  await store.jobs.fail(job.id, { code: 'internal_error', message: UNSEALABLE, failedAt: clock() });
  return false;
}
