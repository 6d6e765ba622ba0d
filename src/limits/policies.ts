/** A limit on a client's requests. Infinity means no limit. */
export interface RatePolicy {
  readonly requests: number;
  /** Milliseconds in which `requests` become available again. */
  readonly windowMs: number;
}

/** A limit on the jobs that a client can create in each window. Infinity means no limit. */
export interface QuotaPolicy {
  readonly jobs: number;
  readonly windowMs: number;
}

/** Quotas by name: the purpose that the quota is for, or {@link DEFAULT_QUOTA}. */
type Quotas = Readonly<Record<string, QuotaPolicy>>;

export interface LimitPolicies {
  /** The limits of each client. */
  readonly rate: RatePolicy;
  /** The quotas of each client. */
  readonly quotas: Quotas;
  /** Limits of single clients, by client; they replace the limits above. */
  readonly clients: Readonly<Record<string, { readonly rate?: RatePolicy; readonly quotas: Quotas }>>;
}

/**
 * The quota of jobs without a purpose and of all purposes without their own quota. These purposes share it, so that a new purpose does
 * not evade the quota.
 */
export const DEFAULT_QUOTA = 'default';

export interface NamedQuota extends QuotaPolicy {
  name: string;
}

/** Finds the policy that applies. Callers choose purposes, so purposes are looked up in maps only. */
export class PolicyBook {
  readonly #rate: RatePolicy;
  readonly #quotas: Map<string, QuotaPolicy>;
  readonly #clients = new Map<string, { rate: RatePolicy | undefined; quotas: Map<string, QuotaPolicy> }>();

  constructor({ rate, quotas, clients }: LimitPolicies) {
    this.#rate = rate;
    this.#quotas = new Map(Object.entries(quotas));
    for (const [name, own] of Object.entries(clients))
      this.#clients.set(name, { rate: own.rate, quotas: new Map(Object.entries(own.quotas)) });
  }

  /** Undefined if there is no limit. */
  rate(clientId: string): RatePolicy | undefined {
    const rate = this.#clients.get(clientId)?.rate ?? this.#rate;
    return Number.isFinite(rate.requests) ? rate : undefined;
  }

  /** Undefined if there is no limit. */
  quota(clientId: string, purpose: string | undefined): NamedQuota | undefined {
    const own = purpose === undefined ? undefined : this.#named(clientId, purpose);
    const quota = own ?? this.#named(clientId, DEFAULT_QUOTA);
    return quota && Number.isFinite(quota.jobs) ? quota : undefined;
  }

  /** Every job of this client counts against one of these quotas. Empty if there are purposes without a limit. */
  inescapable(clientId: string): NamedQuota[] {
    if (this.quota(clientId, undefined) === undefined) return [];
    const quotas = this.#all(clientId);
    return quotas.every((quota) => quota !== undefined) ? quotas : [];
  }

  /** Every quota that can apply to a job of this client. */
  quotas(clientId: string): NamedQuota[] {
    return this.#all(clientId).filter((quota) => quota !== undefined);
  }

  /** Clients with their own limits. */
  get clients(): Iterable<string> {
    return this.#clients.keys();
  }

  /** One quota for each name; undefined for a name without a limit. */
  #all(clientId: string): (NamedQuota | undefined)[] {
    const own = this.#clients.get(clientId)?.quotas.keys() ?? [];
    const names = new Set([DEFAULT_QUOTA, ...this.#quotas.keys(), ...own]);
    return Array.from(names, (name) => this.quota(clientId, name));
  }

  #named(clientId: string, name: string): NamedQuota | undefined {
    const policy = this.#clients.get(clientId)?.quotas.get(name) ?? this.#quotas.get(name);
    return policy && { name, ...policy };
  }
}
