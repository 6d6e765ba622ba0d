/** How many requests a client may send. An endless number means no limit. */
export interface RatePolicy {
  readonly requests: number;
  /** Milliseconds in which as many come back. */
  readonly windowMs: number;
}

/** How many jobs a client may create in each window. An endless number means no limit. */
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
  /** What single clients have instead, by their names. */
  readonly clients: Readonly<Record<string, { readonly rate?: RatePolicy; readonly quotas: Quotas }>>;
}

/** The quota of all purposes without one of their own, and of jobs without a purpose: they share it, so that a new purpose is no way around it. */
export const DEFAULT_QUOTA = 'default';

export const NO_LIMITS: LimitPolicies = {
  rate: { requests: Number.POSITIVE_INFINITY, windowMs: 60_000 },
  quotas: {},
  clients: {},
};

export interface NamedQuota extends QuotaPolicy {
  name: string;
}

/** Finds the policy that holds. Purposes come from callers: they are only ever looked up in maps. */
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

  /** The quotas of which a job of this client is bound to take one; none if there are purposes without limit. */
  inescapable(clientId: string): NamedQuota[] {
    const quotas = this.#all(clientId);
    return quotas.every((quota) => quota !== undefined) ? quotas : [];
  }

  /** Every quota that can hold for a job of this client. */
  quotas(clientId: string): NamedQuota[] {
    return this.#all(clientId).filter((quota) => quota !== undefined);
  }

  /** Those with limits of their own. */
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
