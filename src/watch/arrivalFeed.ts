import type { Clock } from '../base/clock.ts';
import { Rounds } from '../base/rounds.ts';
import { UNSEALABLE } from '../job/acceptedJob.ts';
import type { Job } from '../job/job.ts';
import type { Fetching } from '../seal/fetching.ts';
import type { RefusedJobs } from '../seal/refusedJobs.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Arrival, ArrivalStore, SealingState } from '../store/arrivals.ts';
import type { Store } from '../store/store.ts';

export interface ArrivalFeedOptions {
  store: Pick<Store, 'jobs' | 'credentials'>;
  arrivals: ArrivalStore;
  sealer: Pick<Sealer, 'knows' | 'take' | 'obstacle'>;
  sources: Pick<Fetching, 'take'>;
  /** Whether this daemon scans documents. */
  scans: boolean;
  /** Maximum jobs of one front that are taken and have not ended. */
  jobsMax(): number;
  clock: Clock;
  /** Counts the jobs that are not sealed. */
  refused: RefusedJobs;
  /** How often it looks even where nothing was heard. Default: a second. */
  intervalMs?: number;
  /** Called if the store can no longer be read. */
  onFatal(error: unknown): void;
}

const INTERVAL_MS = 1000;

/**
 * Passes jobs accepted by fronts to the sealer, and reports to fronts whether anything can be sealed and whether documents are scanned. A
 * front's statements about a client are not trusted: a job that no request of a known client could have created fails.
 */
export function startArrivalFeed(options: ArrivalFeedOptions): { close(): Promise<void> } {
  const { arrivals, sealer, scans, intervalMs = INTERVAL_MS, onFatal } = options;
  /** Clients that had a credential at the last look-up. */
  let clients = new Set<string>();
  let known = new Set<string>();
  const look = async (signal: AbortSignal) => {
    while (!signal.aborted) {
      // A job known a moment ago may have got its outcome since the store was read: it is skipped once, instead of being read again.
      const before = known;
      known = new Set();
      let leftOut = 0;
      const isKnown = (jobId: string) => {
        if (sealer.knows(jobId)) known.add(jobId);
        else if (before.has(jobId)) leftOut += 1;
        else return false;
        return true;
      };
      const found = await arrivals.look(isKnown, options.jobsMax());
      // Each look reads the ids of all waiting jobs. New jobs cause a notification, so there is nothing to look for until most of these
      // have ended.
      if (found.length === 0 && leftOut <= known.size) return;
      if (!found.every(({ job }) => job === undefined || clients.has(nameOf(job))))
        clients = new Set((await options.store.credentials.all()).map(nameOf));
      for (const arrival of found) {
        await take(arrival, clients, options);
        known.add(arrival.jobId);
      }
    }
  };
  let told: SealingState | undefined;
  const tell = async () => {
    const obstacle = sealer.obstacle()?.code;
    if (told !== undefined && told.obstacle === obstacle) return;
    const state = { obstacle, scans };
    await arrivals.tell(state);
    told = state;
  };
  const telling = new Rounds(tell, intervalMs, onFatal);
  const looking = new Rounds(look, intervalMs, onFatal);
  arrivals.onNotice(() => void looking.now());
  void telling.now();
  void looking.now();
  return {
    close: async () => {
      await Promise.all([looking.close(), telling.close()]);
    },
  };
}

async function take(
  { jobId, job, fault }: Arrival,
  clients: ReadonlySet<string>,
  { store, sealer, sources, clock, refused }: ArrivalFeedOptions,
): Promise<void> {
  const isOfNobody = job !== undefined && !clients.has(nameOf(job));
  if (job !== undefined && !isOfNobody) {
    sealer.take(job);
    if (job.content === undefined) sources.take(job);
    return;
  }
  const detail = fault ?? 'no credential is of its client and organization';
  refused.note({ event: 'arrival_refused', jobId, detail });
  await store.jobs.fail(jobId, { code: 'internal_error', message: UNSEALABLE, failedAt: clock() });
}

function nameOf({ clientId, organization }: Pick<Job, 'clientId' | 'organization'>): string {
  return `${clientId} ${organization}`;
}
