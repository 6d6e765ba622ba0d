import type { QuotaWindow } from '../job/job.ts';
import type { Limits, Standing } from './limits.ts';

/** What one request takes of its client's rate and quota. What comes to nothing is given back when this is closed. */
export class Allowance {
  readonly #limits: Limits;
  readonly #clientId: string;
  #purpose: string | undefined;
  #asked = false;
  #quota: QuotaWindow | undefined;

  constructor(limits: Limits, clientId: string) {
    this.#limits = limits;
    this.#clientId = clientId;
  }

  /** Before anything is received. Throws ServiceError `rate_limit_exceeded`. */
  takeRequest(): void {
    this.#limits.takeRequest(this.#clientId);
  }

  /** Throws ServiceError `quota_exceeded` if that is what will come of a job, whatever its purpose. */
  refuseExhausted(): void {
    this.#limits.refuseExhausted(this.#clientId);
  }

  /** The quota the job is to count against; asked again, the same. Throws ServiceError `quota_exceeded`. */
  takeJob(purpose: string | undefined): QuotaWindow | undefined {
    if (this.#asked) return this.#quota;
    this.isAbout(purpose);
    this.#quota = this.#limits.takeJob(this.#clientId, purpose);
    this.#asked = true;
    return this.#quota;
  }

  /** The job is accepted: it counts from now on. */
  keep(): void {
    this.#quota = undefined;
  }

  close(): void {
    if (this.#quota) this.#limits.giveBack({ clientId: this.#clientId, quota: this.#quota });
    this.#quota = undefined;
  }

  /** Says whose quota {@link standings} is to tell of; until then it is the one of jobs without a purpose. */
  isAbout(purpose: string | undefined): void {
    this.#purpose = purpose;
  }

  /** The policies that hold, and what is left of them. */
  standings(): Standing[] {
    const rate = this.#limits.rate(this.#clientId);
    const quota = this.#limits.quota(this.#clientId, this.#purpose);
    return [rate, quota].filter((standing) => standing !== undefined);
  }
}
