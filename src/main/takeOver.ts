import type { Logger } from 'pino';
import { OperatorError } from '../base/errors.ts';
import { actOfProcess } from '../store/acts.ts';
import type { Store } from '../store/store.ts';

/**
 * With the first acceptance key of a log, jobs that wait without a MAC are taken over: once, on record. `isTakenOver`: whether the sealed audit
 * trail says so. It is asked, and not the state folder, because every machine of the log reads it, and nobody can remove a sealed record from it
 * unseen. Throws OperatorError if it says so and this daemon has no key.
 */
export async function takeOverOnce(
  { acceptances, arrivals }: Pick<Store, 'acceptances' | 'arrivals'>,
  isTakenOver: boolean,
  logger: Pick<Logger, 'warn'>,
): Promise<void> {
  const isInDatabase = arrivals !== undefined;
  if (isTakenOver && isInDatabase && acceptances === undefined)
    throw new OperatorError('nodes of this log have an acceptance key, and this daemon has none', {
      remedy:
        'name it in the configuration: store.acceptance_key_credential. If it is lost, make another: `pdfseal store make-acceptance-key`',
    });
  if (isTakenOver || acceptances === undefined) return;
  const keys = acceptances.names;
  const jobs = await acceptances.takeOver((jobs) => actOfProcess('daemon', 'jobs.take_over', { jobs, keys }));
  logger.warn({ jobs }, 'jobs that waited without a MAC are taken over; from now on, each needs one');
}
