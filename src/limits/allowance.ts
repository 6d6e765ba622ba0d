import type { QuotaWindow } from '../job/job.ts';
import type { Limits, Standing } from './limits.ts';

/** The part of a client's rate and quota that one request takes. {@link close} returns the quota of a job that was not accepted. */
export class Allowance {
  readonly #limits: Limits;
  readonly #clientId: string;
  #purpose: string | undefined;
  #isCounted = false;
  #asked = false;
  #quota: QuotaWindow | undefined;

  constructor(limits: Limits, clientId: string) {
    this.#limits = limits;
    this.#clientId = clientId;
  }

  /** Call this before the request is received; it is counted once. Throws ServiceError `rate_limit_exceeded`. */
  takeRequest(): void {
    if (!this.#isCounted) this.#limits.takeRequest(this.#clientId);
    this.#isCounted = true;
  }

  /** Like {@link takeRequest}, but returns false instead of throwing. For a request that can wait. */
  tryTakeRequest(): boolean {
    this.#isCounted ||= this.#limits.tryTakeRequest(this.#clientId);
    return this.#isCounted;
  }

  /** Throws ServiceError `quota_exceeded` if the client cannot create any job, whatever its purpose. */
  refuseExhausted(): void {
    this.#limits.refuseExhausted(this.#clientId);
  }

  /** The quota that the job counts against; the same at every call. Throws ServiceError `quota_exceeded`. */
  takeJob(purpose: string | undefined): QuotaWindow | undefined {
    if (this.#asked) return this.#quota;
    this.isAbout(purpose);
    this.#quota = this.#limits.takeJob(this.#clientId, purpose);
    this.#asked = true;
    return this.#quota;
  }

  /** The maximum number of jobs for the quota returned by {@link takeJob}. */
  get quotaJobsMax(): number | undefined {
    return this.#quota && this.#limits.quota(this.#clientId, this.#purpose)?.limit;
  }

  /** Records that the job is accepted: it counts from now on. */
  keep(): void {
    this.#quota = undefined;
  }

  close(): void {
    if (this.#quota) this.#limits.giveBack({ clientId: this.#clientId, quota: this.#quota });
    this.#quota = undefined;
  }

  /** Sets the purpose whose quota {@link standings} shows; before that it shows the quota of jobs without a purpose. */
  isAbout(purpose: string | undefined): void {
    this.#purpose = purpose;
  }

  /** The policies that apply, and the remaining amount of each. */
  standings(): Standing[] {
    const rate = this.#limits.rate(this.#clientId);
    const quota = this.#limits.quota(this.#clientId, this.#purpose);
    return [rate, quota].filter((standing) => standing !== undefined);
  }
}
