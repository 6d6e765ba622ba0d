/** Evidence records over simulated decades: authorities that come and go, and renewals of many records at once. */

import { digestOfTree } from '../../src/asn1/archiveTimestamp.ts';
import type { Certificate } from '../../src/asn1/certificate.ts';
import { type EvidenceRecord, encodeEvidenceRecord, renewalLeaf } from '../../src/asn1/evidenceRecord.ts';
import { pathInLevels, reducedTree, treeLevels, treeRoot } from '../../src/asn1/hashTree.ts';
import { encodeQuery } from '../../src/asn1/timestampQuery.ts';
import { parseResponse } from '../../src/asn1/timestampResponse.ts';
import type { DigestName } from '../../src/base/crypto.ts';
import type { BuiltInAuthority } from '../../src/tsa/builtInAuthority.ts';
import { issueRoot, issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { HeldClock, makeAuthority, softKey } from './authority.ts';

/** 1 January of that year, milliseconds since the epoch. */
export const yearMs = (year: number): number => Date.UTC(year, 0);

/** An authority whose certificates are valid from the beginning of one year to that of another. */
export interface Era {
  root: Certificate;
  certificate: Certificate;
  clock: HeldClock;
  /** It stamps at the time of the clock. */
  authority: BuiltInAuthority;
}

export async function makeEra(from: number, to: number): Promise<Era> {
  const [rootKey, unitKey] = [softKey('ecdsa-p256'), softKey('ecdsa-p256')];
  const validity = { notBefore: yearMs(from), notAfter: yearMs(to) };
  const organization = `Era of ${from}`;
  const root = await issueRoot(
    { subject: { country: 'DE', organization, commonName: 'Root' }, ...validity },
    rootKey,
  );
  const certificate = await issueTimestampingCertificate(
    { subject: { organization, commonName: 'Unit' }, key: unitKey.key, issuer: root, ...validity },
    rootKey,
  );
  const clock = new HeldClock(yearMs(from));
  const authority = makeAuthority(
    [{ signer: { ...unitKey, ready: true }, chain: [certificate, root] }],
    clock,
  );
  return { root, certificate, clock, authority };
}

/** A token of the era over that hash. */
export async function stamp(
  era: Era,
  algorithm: DigestName,
  digest: Uint8Array,
  at: number,
  certReq = true,
): Promise<Uint8Array> {
  era.clock.time = at;
  const query = encodeQuery({ imprint: { algorithm, digest }, certReq });
  const { token } = parseResponse(await era.authority.answerQuery(query));
  if (token === undefined) throw new Error('no token');
  return Uint8Array.from(token);
}

export interface Archived {
  data: Uint8Array;
  record?: EvidenceRecord;
}

/** The items after one renewal of them all: one token over one tree. */
export async function renew(
  items: Archived[],
  digest: DigestName,
  era: Era,
  at: number,
): Promise<Required<Archived>[]> {
  const leaves = items.map(({ data, record }) => renewalLeaf(record, digest, data));
  const token = await stamp(era, digest, treeRoot(digest, leaves), at);
  return items.map(({ data, record }, index) => {
    const leaf = leaves[index] ?? new Uint8Array(0);
    const reducedHashTree = reducedTree(leaf, pathInLevels(treeLevels(digest, leaves), index));
    const timestamp = { ...(reducedHashTree && { reducedHashTree }), token };
    const { digests = [], certificates = [], chains = [] } = record ?? {};
    const last = chains.at(-1);
    const goesOn = last?.[0] !== undefined && digestOfTree(last[0]) === digest;
    return {
      data,
      record: {
        digests: [...new Set([...digests, digest])],
        certificates,
        chains: goesOn ? [...chains.slice(0, -1), [...last, timestamp]] : [...chains, [timestamp]],
      },
    };
  });
}

export const DATA = Buffer.from('a signed checkpoint');

/**
 * Five records over 40 years: {@link DATA} is the first. Each authority ends a year after the next one began; the third
 * renewal is a hash renewal from SHA-512 to SHA-384.
 */
export async function fourGenerations() {
  const [first, second, third, fourth] = await Promise.all([
    makeEra(2030, 2041),
    makeEra(2040, 2051),
    makeEra(2050, 2061),
    makeEra(2060, 2071),
  ]);
  const items = [DATA, ...[1, 2, 3, 4].map((n) => Buffer.from(`checkpoint ${n}`))].map((data) => ({ data }));
  const initial: Required<Archived>[] = [];
  for (const item of items) initial.push(...(await renew([item], 'sha512', first, yearMs(2031))));
  const renewed = await renew(initial, 'sha512', second, yearMs(2040) + 1);
  const rehashed = await renew(renewed, 'sha384', third, yearMs(2050) + 1);
  const last = await renew(rehashed, 'sha384', fourth, yearMs(2060) + 1);
  const eras = [first, second, third, fourth];
  return {
    first,
    second,
    third,
    fourth,
    roots: eras.map(({ root }) => root),
    initial,
    renewed,
    rehashed,
    last,
  };
}

/** A copy of the record of the first item. */
export function recordOf(items: Archived[]): EvidenceRecord {
  const record = items[0]?.record;
  if (record === undefined) throw new Error('no record');
  return structuredClone(record);
}

/** DER of the record of an item. */
export function derOf({ record }: Archived): Uint8Array {
  if (record === undefined) throw new Error('no record');
  return Uint8Array.from(encodeEvidenceRecord(record));
}
