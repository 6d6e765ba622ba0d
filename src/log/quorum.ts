/** The rule for the signatures that a checkpoint needs. */
export interface QuorumPolicy {
  /** Number of different classical keys that must sign; if regions are named, number of these regions. */
  needed: number;
  /** Several keys of one region count once. Keys of other regions do not count. */
  regions?: readonly string[];
  /** Number of post-quantum keys, of any region, that must sign as well. Absent if none must. */
  postQuantum?: number;
}

/** A key that can sign, and its region. Without an algorithm it is classical. */
interface Signer {
  region: string;
  algorithm?: string;
}

/** Largest number of signatures in a note (C2SP signed-note). */
const NEEDED_MAX = 16;

/** A region in a policy: lower-case letters, digits and dashes. */
const REGION = /^[a-z0-9][a-z0-9-]{0,62}$/;

/**
 * Parses `2`, `"2 of eu, us, ap"`, `"2 classical and 1 post-quantum"` or `"2 classical of eu, us, ap and 1 post-quantum"`. Undefined for
 * anything else, such as a number that can never be reached. Any input is safe.
 */
export function parseQuorum(value: unknown): QuorumPolicy | undefined {
  if (typeof value === 'number') return isNeeded(value, NEEDED_MAX) ? { needed: value } : undefined;
  if (typeof value !== 'string' || value.length > 2048) return undefined;
  const [rule = '', addition, ...more] = value.split(' and ');
  const [, digits, classical, , list] = /^ *([1-9][0-9]?)( +classical)?( +of +([^ ].*))?$/.exec(rule) ?? [];
  const isMixed = addition !== undefined;
  if (digits === undefined || more.length > 0 || (classical !== undefined) !== isMixed) return undefined;
  const policy = list === undefined ? isMixed && { needed: Number(digits) } : ofRegions(Number(digits), list);
  const postQuantum = isMixed ? Number(/^ *([1-9][0-9]?) +post-quantum *$/.exec(addition)?.[1]) : 0;
  if (!policy || !isNeeded(policy.needed + postQuantum, NEEDED_MAX)) return undefined;
  return isMixed ? { ...policy, postQuantum } : policy;
}

function ofRegions(needed: number, list: string): QuorumPolicy | undefined {
  const regions = list.split(',').map((region) => region.trim());
  const areRegions =
    regions.every((region) => REGION.test(region)) && new Set(regions).size === regions.length;
  return areRegions && isNeeded(needed, Math.min(regions.length, NEEDED_MAX))
    ? { needed, regions }
    : undefined;
}

/** The text form, as accepted by {@link parseQuorum}. */
export function encodeQuorum({ needed, regions, postQuantum }: QuorumPolicy): number | string {
  const list = regions === undefined ? '' : ` of ${regions.join(', ')}`;
  if (postQuantum !== undefined) return `${needed} classical${list} and ${postQuantum} post-quantum`;
  return regions === undefined ? needed : `${needed}${list}`;
}

/** Whether the signatures meet the policy. `signers` are the different keys that signed. */
export function meetsQuorum(policy: QuorumPolicy, signers: readonly Signer[]): boolean {
  return countOf(policy, signers) >= neededBy(policy);
}

/** Why signatures of these keys can never meet the policy; undefined if they can. */
export function quorumFault(policy: QuorumPolicy, keys: readonly Signer[]): string | undefined {
  const { classical, postQuantum } = split(keys);
  const missing = policy.regions?.find((region) => classical.every((key) => key.region !== region));
  if (missing !== undefined)
    return `region ${missing} has no ${postQuantum.length > 0 ? 'classical ' : ''}key`;
  if (meetsQuorum(policy, keys)) return undefined;
  const wanted = policy.postQuantum ?? 0;
  if (wanted > postQuantum.length)
    return `${wanted} of ${postQuantum.length} post-quantum keys can never sign`;
  return `${policy.needed} of ${classical.length} ${postQuantum.length > 0 ? 'classical ' : ''}keys can never sign`;
}

/** The regions that signed and the requirement of the policy, in words. */
export function describeQuorum(policy: QuorumPolicy, signers: readonly Signer[]): string {
  const { classical, postQuantum } = split(signers);
  const isMixed = policy.postQuantum !== undefined || postQuantum.length > 0;
  const regions = [...new Set(classical.map(({ region }) => region))].join(', ') || 'none';
  const counted = `${keysOf(classical, isMixed ? 'classical ' : '')} (regions: ${regions})`;
  const more = isMixed ? ` and ${keysOf(postQuantum, 'post-quantum ')}` : '';
  return `signed by ${counted}${more}; needed: ${encodeQuorum(policy)}`;
}

function keysOf({ length }: readonly Signer[], kind: string): string {
  return length === 1 ? `1 ${kind}key` : `${length} ${kind}keys`;
}

/**
 * How many signers count for the policy: different classical keys, or different regions of the policy. If the policy requires post-quantum
 * keys, additional signers of one kind never compensate for missing ones of the other.
 */
export function countOf(policy: QuorumPolicy, signers: readonly Signer[]): number {
  const { classical, postQuantum } = split(signers);
  const own = policy.regions?.filter((region) => classical.some((signer) => signer.region === region));
  const spare = (own ?? classical).length - policy.needed;
  const sparePostQuantum =
    policy.postQuantum === undefined ? Infinity : postQuantum.length - policy.postQuantum;
  return Math.max(neededBy(policy) + Math.min(spare, sparePostQuantum), 0);
}

/** Number of signers that must count. */
export function neededBy({ needed, postQuantum = 0 }: QuorumPolicy): number {
  return needed + postQuantum;
}

function split<One extends Signer>(signers: readonly One[]): { classical: One[]; postQuantum: One[] } {
  const isPostQuantum = ({ algorithm }: Signer) => algorithm === 'mldsa44';
  return {
    classical: signers.filter((one) => !isPostQuantum(one)),
    postQuantum: signers.filter(isPostQuantum),
  };
}

function isNeeded(count: number, max: number): boolean {
  return Number.isInteger(count) && count >= 1 && count <= max;
}
