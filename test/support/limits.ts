import type { LimitPolicies } from '../../src/limits/policies.ts';

export const NO_LIMITS: LimitPolicies = {
  rate: { requests: Number.POSITIVE_INFINITY, windowMs: 60_000 },
  quotas: {},
  clients: {},
};
