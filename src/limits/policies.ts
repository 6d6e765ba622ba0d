/** How many requests a client may send. Infinity means no limit. */
export interface RatePolicy {
  readonly requests: number;
  /** Milliseconds in which as many come back. */
  readonly windowMs: number;
}

/** How many jobs a client may create in each window. Infinity means no limit. */
export interface QuotaPolicy {
  readonly jobs: number;
  readonly windowMs: number;
}

/** Quotas by name: that of the purpose they are for, or {@link DEFAULT_QUOTA}. */
type Quotas = Readonly<Record<string, QuotaPolicy>>;

export interface LimitPolicies {
  /** Of each client. */
  readonly rate: RatePolicy;
  /** Of each client. */
  readonly quotas: Quotas;
  /** Limits of single clients instead of those above, by client. */
  readonly clients: Readonly<Record<string, { readonly rate?: RatePolicy; readonly quotas: Quotas }>>;
}

/** The quota of jobs without a purpose and of all purposes without a quota of their own: they share it, so that a new purpose does not evade it. */
export const DEFAULT_QUOTA = 'default';

export const NO_LIMITS: LimitPolicies = {
  rate: { requests: Number.POSITIVE_INFINITY, windowMs: 60_000 },
  quotas: {},
  clients: {},
};

export interface NamedQuota extends QuotaPolicy {
  name: string;
}

/** Finds the policy that applies. Purposes come from callers, so they are looked up in maps only. */
export class PolicyBook {
  readonly #rate: RatePolicy;
  readonly #quotas: Map<string, QuotaPolicy>;
  readonly #clients: Map<string, { rate: RatePolicy | undefined; quotas: Map<string, QuotaPolicy> }>;

  constructor({ rate, quotas, clients }: LimitPolicies) {
    this.#rate = rate;
    this.#quotas = new Map(Object.entries(quotas));
    this.#clients = new Map(
      Object.entries(clients).map(([name, own]) => [
        name,
        { rate: own.rate, quotas: new Map(Object.entries(own.quotas)) },
      ]),
    );
  }

  /** Undefined where there is no limit. */
  rate(clientId: string): RatePolicy | undefined {
    const rate = this.#clients.get(clientId)?.rate ?? this.#rate;
    return Number.isFinite(rate.requests) ? rate : undefined;
  }

  /** Undefined where there is no limit. */
  quota(clientId: string, purpose: string | undefined): NamedQuota | undefined {
    const own = purpose === undefined ? undefined : this.#named(clientId, purpose);
    const quota = own ?? this.#named(clientId, DEFAULT_QUOTA);
    return quota && Number.isFinite(quota.jobs) ? quota : undefined;
  }

  /** The quotas one of which every job of this client takes; none if there are purposes without limit. */
  inescapable(clientId: string): NamedQuota[] {
    const quotas = this.#all(clientId);
    return quotas.every((quota) => quota !== undefined) ? quotas : [];
  }

  /** Every quota that can apply to a job of this client. */
  quotas(clientId: string): NamedQuota[] {
    return this.#all(clientId).filter((quota) => quota !== undefined);
  }

  /** Clients with limits of their own. */
  get clients(): Iterable<string> {
    return this.#clients.keys();
  }

  /** One for each name a quota has; undefined for one without limit. */
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
