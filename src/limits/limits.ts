import { type Clock, toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { formatDuration } from '../base/units.ts';
import type { Job, QuotaWindow } from '../job/job.ts';
import type { QuotaCount } from '../store/store.ts';
import { type LimitPolicies, type NamedQuota, PolicyBook } from './policies.ts';
import { Quotas } from './quotas.ts';
import { Rates } from './rates.ts';

/** A policy that applies to a request, and its remaining amount. */
export interface Standing {
  kind: 'rate' | 'quota';
  /** The name of the quota; absent for a rate. */
  name?: string;
  limit: number;
  windowMs: number;
  remaining: number;
  resetMs: number;
}

/** A client's usage of its rate and quotas. */
export interface ClientUsage {
  clientId: string;
  standings: Standing[];
}

/** Called at every refusal with the kind of limit; must not throw. */
export type RefusalObserver = (clientId: string, kind: Standing['kind']) => void;

/** Rates and quotas of all clients. The policies can change at any time; the counts stay. */
export class Limits {
  readonly #rates: Rates;
  readonly #quotas: Quotas;
  readonly #clock: Clock;
  readonly #onRefusal: RefusalObserver;
  #policies: PolicyBook;

  /** `counts` are the counts in the store. Windows of quotas are days and hours of `clock`; a rate has no windows. */
  constructor(
    policies: LimitPolicies,
    counts: QuotaCount[],
    clock: Clock,
    onRefusal: RefusalObserver = () => {},
    monotonicMs: Clock = () => Math.floor(performance.now()),
  ) {
    this.#onRefusal = onRefusal;
    this.#policies = new PolicyBook(policies);
    this.#rates = new Rates(monotonicMs);
    this.#quotas = new Quotas(clock, counts);
    this.#clock = clock;
  }

  /** Replaces the policies. */
  update(policies: LimitPolicies): void {
    this.#policies = new PolicyBook(policies);
  }

  /** Throws ServiceError `rate_limit_exceeded`; the refused request does not count. */
  takeRequest(clientId: string): void {
    const policy = this.#policies.rate(clientId);
    if (policy === undefined || this.tryTakeRequest(clientId)) return;
    this.#onRefusal(clientId, 'rate');
    const seconds = Math.ceil(this.#rates.remainder(clientId, policy).resetMs / 1000);
    const message = `This client may send ${policy.requests} requests in ${formatDuration(policy.windowMs)}. Repeat the request in ${seconds} s.`;
    throw new ServiceError('rate_limit_exceeded', message, { retryAfterSeconds: seconds });
  }

  /** Like {@link takeRequest}, but returns false instead of throwing. */
  tryTakeRequest(clientId: string): boolean {
    const policy = this.#policies.rate(clientId);
    return policy === undefined || this.#rates.take(clientId, policy);
  }

  /** Requests taken since the last call, to be reported to other nodes. */
  uncountedElsewhere(): Iterable<readonly [clientId: string, requests: number]> {
    return this.#rates.untold();
  }

  /** Counts requests taken by another node. */
  countElsewhere(clientId: string, requests: number): void {
    const policy = this.#policies.rate(clientId);
    if (policy !== undefined) this.#rates.add(clientId, policy, requests);
  }

  /** Throws ServiceError `quota_exceeded` if this client cannot create any job, whatever its purpose. */
  refuseExhausted(clientId: string): void {
    const quotas = this.#policies.inescapable(clientId);
    const spent = quotas.map((quota) => ({ quota, ...this.#quotas.remainder(clientId, quota.name, quota) }));
    if (spent.some(({ remaining }) => remaining > 0)) return;
    const [soonest] = spent.sort((a, b) => a.resetMs - b.resetMs);
    if (soonest) throw this.#quotaExceeded(clientId, soonest.quota, soonest.resetMs);
  }

  /** The quota that a job counts against from now on; undefined without a limit. Throws ServiceError `quota_exceeded`. */
  takeJob(clientId: string, purpose: string | undefined): QuotaWindow | undefined {
    const quota = this.#policies.quota(clientId, purpose);
    if (quota === undefined) return undefined;
    const window = this.#quotas.take(clientId, quota.name, quota);
    if (window) return window;
    throw this.#quotaExceeded(clientId, quota, this.#quotas.remainder(clientId, quota.name, quota).resetMs);
  }

  /** Returns the quota of a job that was not accepted. */
  giveBack({ clientId, quota }: Pick<Job, 'clientId' | 'quota'>): void {
    if (quota) this.#quotas.giveBack(clientId, quota);
  }

  rate(clientId: string): Standing | undefined {
    const policy = this.#policies.rate(clientId);
    if (policy === undefined) return undefined;
    const { requests: limit, windowMs } = policy;
    return { kind: 'rate', limit, windowMs, ...this.#rates.remainder(clientId, policy) };
  }

  quota(clientId: string, purpose: string | undefined): Standing | undefined {
    const quota = this.#policies.quota(clientId, purpose);
    return quota && this.#standing(clientId, quota);
  }

  /** The usage of every client with its own limits, of every other client with some usage, and of the clients in `known`, by name. */
  usage(known: readonly string[] = []): ClientUsage[] {
    const { clients: own } = this.#policies;
    const clients = new Set([...known, ...own, ...this.#rates.clients(), ...this.#quotas.clients()]);
    return [...clients].sort().map((clientId) => ({ clientId, standings: this.standings(clientId) }));
  }

  /** The rate of a client, if it has one, and each of its quotas. */
  standings(clientId: string): Standing[] {
    const quotas = this.#policies.quotas(clientId).map((quota) => this.#standing(clientId, quota));
    const rate = this.rate(clientId);
    return [...(rate ? [rate] : []), ...quotas];
  }

  #standing(clientId: string, quota: NamedQuota): Standing {
    const { name, jobs: limit, windowMs } = quota;
    return { kind: 'quota', name, limit, windowMs, ...this.#quotas.remainder(clientId, name, quota) };
  }

  #quotaExceeded(clientId: string, { name, jobs, windowMs }: NamedQuota, resetMs: number): ServiceError {
    this.#onRefusal(clientId, 'quota');
    const until = toRfc3339(this.#clock() + resetMs);
    const message = `The quota ${JSON.stringify(name)} of this client, ${jobs} jobs in ${formatDuration(windowMs)}, is used up. Repeat the request after ${until}.`;
    return new ServiceError('quota_exceeded', message, {
      parameter: 'purpose',
      retryAfterSeconds: Math.ceil(resetMs / 1000),
    });
  }
}
