/** The rule about the signatures that a checkpoint needs. */
export interface QuorumPolicy {
  /** How many different keys must sign; if regions are named, how many of these regions. */
  needed: number;
  /** Several keys of one region count once. Keys of other regions do not count. */
  regions?: readonly string[];
}

/** A key that can sign, and the region that holds it. */
interface Signer {
  region: string;
}

/** Largest number of signatures in a note (C2SP signed-note). */
const NEEDED_MAX = 16;

/** A region in a policy: lower-case letters, digits and dashes. */
const REGION = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Parses `2` or `"2 of eu, us, ap"`. Undefined for anything else, such as a number that can never be met. Any input is safe. */
export function parseQuorum(value: unknown): QuorumPolicy | undefined {
  if (typeof value === 'number') return isNeeded(value, NEEDED_MAX) ? { needed: value } : undefined;
  if (typeof value !== 'string' || value.length > 2048) return undefined;
  const [, digits, list] = /^ *([1-9][0-9]?) +of +([^ ].*)$/.exec(value) ?? [];
  if (list === undefined) return undefined;
  const regions = list.split(',').map((region) => region.trim());
  const areRegions =
    regions.every((region) => REGION.test(region)) && new Set(regions).size === regions.length;
  const needed = Number(digits);
  return areRegions && isNeeded(needed, Math.min(regions.length, NEEDED_MAX))
    ? { needed, regions }
    : undefined;
}

/** The text form, which {@link parseQuorum} reads. */
export function encodeQuorum({ needed, regions }: QuorumPolicy): number | string {
  return regions === undefined ? needed : `${needed} of ${regions.join(', ')}`;
}

/** Whether the signatures meet the policy. `signers` are the different keys that signed. */
export function meetsQuorum(policy: QuorumPolicy, signers: readonly Signer[]): boolean {
  return countOf(policy, signers) >= policy.needed;
}

/** Why signatures of these keys can never meet the policy; undefined when they can. */
export function quorumFault(policy: QuorumPolicy, keys: readonly Signer[]): string | undefined {
  const missing = policy.regions?.find((region) => keys.every((key) => key.region !== region));
  if (missing !== undefined) return `region ${missing} has no key`;
  return meetsQuorum(policy, keys) ? undefined : `${policy.needed} of ${keys.length} keys can never sign`;
}

/** The regions that signed and the requirement of the policy, in words. */
export function describeQuorum(policy: QuorumPolicy, signers: readonly Signer[]): string {
  const regions = [...new Set(signers.map(({ region }) => region))].join(', ') || 'none';
  const keys = signers.length === 1 ? '1 key' : `${signers.length} keys`;
  return `signed by ${keys} (regions: ${regions}); needed: ${encodeQuorum(policy)}`;
}

/** How many signers count for the policy: different keys, or different regions of the policy. */
export function countOf({ regions }: QuorumPolicy, signers: readonly Signer[]): number {
  if (regions === undefined) return signers.length;
  return regions.filter((region) => signers.some((signer) => signer.region === region)).length;
}

function isNeeded(count: number, max: number): boolean {
  return Number.isInteger(count) && count >= 1 && count <= max;
}
