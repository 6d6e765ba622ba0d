import { createHash } from 'node:crypto';

// RFC 6962, section 2.1, word for word and as slow as it reads: what the fast implementation is held against.

type Hash = Uint8Array;

export function mth(leafHashes: readonly Hash[]): Hash {
  const [only] = leafHashes;
  if (only === undefined) return createHash('sha256').digest();
  if (leafHashes.length === 1) return only;
  const k = split(leafHashes.length);
  return createHash('sha256')
    .update(Uint8Array.of(1))
    .update(mth(leafHashes.slice(0, k)))
    .update(mth(leafHashes.slice(k)))
    .digest();
}

export function path(m: number, leafHashes: readonly Hash[]): Hash[] {
  if (leafHashes.length === 1) return [];
  const k = split(leafHashes.length);
  return m < k
    ? [...path(m, leafHashes.slice(0, k)), mth(leafHashes.slice(k))]
    : [...path(m - k, leafHashes.slice(k)), mth(leafHashes.slice(0, k))];
}

export function proof(m: number, leafHashes: readonly Hash[]): Hash[] {
  return subproof(m, leafHashes, true);
}

function subproof(m: number, leafHashes: readonly Hash[], whole: boolean): Hash[] {
  if (m === leafHashes.length) return whole ? [] : [mth(leafHashes)];
  const k = split(leafHashes.length);
  return m <= k
    ? [...subproof(m, leafHashes.slice(0, k), whole), mth(leafHashes.slice(k))]
    : [...subproof(m - k, leafHashes.slice(k), false), mth(leafHashes.slice(0, k))];
}

function split(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}
