import { OperatorError } from '../base/errors.ts';
import { faultOfWaiting, UNSEALABLE } from '../job/acceptedJob.ts';
import type { Job } from '../job/job.ts';
import { emptyEdge } from '../log/tree.ts';
import { committedEdge } from './draft.ts';
import { Sealer, type SealerOptions } from './sealer.ts';

/**
 * Opens the sealer with the tree that the newest checkpoint commits to. Throws OperatorError if tiles and checkpoint disagree: the store is
 * damaged, and another signature would hide that. Also throws OperatorError for a waiting audit trail job that must not be sealed: see
 * {@link SealerOptions.requireRecord}.
 */
export async function openSealer(options: SealerOptions): Promise<Sealer> {
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
  const announced = await store.log.announced();
  const shown = new Set(announced?.jobIds);
  const sealable: Job[] = [];
  // Witnesses may have seen the announced batch, so its jobs are not checked again.
  for (const job of waiting) if (!shown.has(job.id) && (await isSealable(job, options))) sealable.push(job);
  const sealer = new Sealer(options, edge, head, sealable);
  if (announced !== undefined) await sealer.resume(announced, waiting);
  sealer.start();
  return sealer;
}

/** Fails a job that cannot have been accepted. */
async function isSealable(job: Job, { store, clock, logger }: SealerOptions): Promise<boolean> {
  const sourceUrl = job.content === undefined ? await store.jobs.sourceUrl(job.id) : undefined;
  const detail = faultOfWaiting(job, sourceUrl);
  if (detail === undefined) return true;
  logger.error(
    { event: 'waiting_refused', job_id: job.id, detail },
    'the store has a job that was never accepted',
  );
  await store.jobs.fail(job.id, { code: 'internal_error', message: UNSEALABLE, failedAt: clock() });
  return false;
}
