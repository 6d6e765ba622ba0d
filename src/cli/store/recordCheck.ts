/** Compares the store with the audit records that made it, in both directions. */
import { isDeepStrictEqual } from 'node:util';
import { type ActName, type ActObject, parseAuditRecord } from '../../manifest/auditRecord.ts';
import { auditedRun } from '../../prove/renewal/renewalRun.ts';
import { RenewalTrees } from '../../prove/renewal/renewals.ts';
import { auditedKey } from '../../store/apiKeys.ts';
import type { Credential } from '../../store/credentialStore.ts';
import type { Store } from '../../store/store.ts';
import { trailEntries } from '../../store/trail.ts';

/** The part of an audit record that describes what was made or changed. */
interface Recorded {
  number: number;
  act: ActName;
  object: ActObject;
}

/** The state of a key according to its records. */
interface RecordedKey {
  /** Number of the record that issued it. */
  number: number;
  /** {@link auditedKey} as it stands after the newest record of the key. */
  object: ActObject;
  /** Number of the record that revoked it. */
  revokedBy?: number;
  /** A later rotation succeeded it, and it came from a rotation itself: its client's next rotation can forget it once it has ended. */
  isForgettable?: boolean;
}

/** Entries of a store that each follow from an audit record: none may be missing, altered or added. */
const RECONCILED = [
  { what: 'the API keys', problems: apiKeyProblems },
  { what: 'the renewals', problems: renewalRecordProblems },
] as const;

/** Differences between a store and its audit trail, in words. Damage that makes reading itself fail is a finding too. */
export async function recordProblems(
  store: Store,
  onPart: (what: string) => void = () => {},
): Promise<string[]> {
  const found: string[] = [];
  for (const { what, problems } of RECONCILED) {
    onPart(what);
    try {
      found.push(...(await problems(store)));
    } catch (error) {
      found.push(cannotBeRead(what, error));
    }
  }
  return found;
}

export function cannotBeRead(what: string, error: unknown): string {
  return `${what} cannot be read to its end: ${(error as Error).message}`;
}

/** Differences between the API keys and client certificates in a store and those that the audit trail issued and revoked. */
export async function apiKeyProblems(store: Pick<Store, 'trail' | 'credentials'>): Promise<string[]> {
  // A key that was revoked before is revoked now, a key that is there now was issued by the end, and a rotated key is as it was before or
  // after.
  const read = await betweenRecords(store, '{"act":"key.', () => store.credentials.all());
  const [earlier, recorded] = [keysOf(read.earlier), keysOf(read.records)];
  const seen = new Set<string>();
  const found = read.kept.flatMap((credential) => {
    const { id, clientId, revokedAt } = credential;
    const name = `API key ${id} of client ${clientId}`;
    const known = recorded.get(id);
    const before = earlier.get(id) ?? known;
    const revokedBy = before?.revokedBy;
    if (seen.has(id)) return [`${name} is in the store twice`];
    seen.add(id);
    if (known === undefined || before === undefined)
      return [`${name} is in the store, but no audit record issued it`];
    return [
      ...(revokedBy !== undefined && revokedAt === undefined
        ? [`${name} is valid in the store, but audit record ${revokedBy} revoked it`]
        : []),
      ...differences(known.object, auditedKey(credential))
        .filter((member) => differences(before.object, auditedKey(credential)).includes(member))
        .map((member) => `${name} has another ${member} in the store than audit record ${known.number} says`),
    ];
  });
  return [...found, ...missingKeys(earlier, recorded, read.kept)];
}

/**
 * Keys that were issued and not revoked, and that the store lacks. A key that has ended may be missing if a rotation, or the same
 * certificate, followed it.
 */
function missingKeys(
  earlier: Map<string, RecordedKey>,
  recorded: Map<string, RecordedKey>,
  kept: readonly Credential[],
): string[] {
  const ids = new Set(kept.map(({ id }) => id));
  const newestOfHash = new Map(Array.from(recorded, ([id, { object }]) => [object.key_sha256, id]));
  return Array.from(earlier).flatMap(([id, { number, object }]) => {
    const now = recorded.get(id);
    if (ids.has(id) || now?.revokedBy !== undefined) return [];
    const isEnded = Date.parse(String(now?.object.expires_at)) <= Date.now();
    if (now?.isForgettable && isEnded) return [];
    if (newestOfHash.get(object.key_sha256) !== id) return [];
    return [
      `API key ${id} of client ${object.client} is not in the store, but audit record ${number} has it and none revoked it`,
    ];
  });
}

/** Differences between the renewals in a store and those that the audit trail recorded. */
export async function renewalRecordProblems(
  store: Pick<Store, 'trail' | 'renewals' | 'log'>,
): Promise<string[]> {
  const read = await betweenRecords(store, '{"act":"renewal.run"', () => store.renewals.runs());
  const runs = new Map(read.kept.map((run) => [run.number, run]));
  const trees = new RenewalTrees(store, read.kept);
  const missing = read.earlier.flatMap(({ number, object }) =>
    runs.has(Number(object.run))
      ? []
      : [`renewal ${object.run} is not in the store, but audit record ${number} made it: restore a backup`],
  );
  // Later renewals cannot be computed without the missing one.
  if (missing.length > 0) return missing;
  const recorded = new Map(read.records.map((record) => [record.object.run, record]));
  return read.kept.flatMap((run) => {
    const record = recorded.get(run.number);
    if (record === undefined) return [`renewal ${run.number} is in the store, but no audit record made it`];
    return differences(record.object, auditedRun(trees, run)).map(
      (member) =>
        `renewal ${run.number} has another ${member} in the store than audit record ${record.number} says: restore a backup`,
    );
  });
}

/**
 * Reads from the store between two readings of the records that begin with `begin`: commands may write meanwhile. A record that cannot be
 * read is a finding of the trail's own check.
 */
async function betweenRecords<Kept>(
  { trail }: Pick<Store, 'trail'>,
  begin: string,
  read: () => Promise<Kept>,
): Promise<{ earlier: Recorded[]; kept: Kept; records: Recorded[] }> {
  const recordsAfter = async (after: number): Promise<{ found: Recorded[]; newest: number }> => {
    const found: Recorded[] = [];
    let newest = after;
    for await (const { number, text } of trailEntries(trail, after)) {
      newest = number;
      const record = text.startsWith(begin) ? parseAuditRecord(text) : undefined;
      if (record !== undefined) found.push({ number, act: record.act, object: record.object });
    }
    return { found, newest };
  };
  const { found: earlier, newest } = await recordsAfter(0);
  const kept = await read();
  return { earlier, kept, records: [...earlier, ...(await recordsAfter(newest)).found] };
}

function keysOf(records: readonly Recorded[]): Map<string, RecordedKey> {
  const keys = new Map<string, RecordedKey>();
  const rotated = new Set<string>();
  for (const { number, act, object } of records) {
    const id = String(object.key);
    const known = keys.get(id);
    if (act === 'key.revoke' && known !== undefined) known.revokedBy = number;
    if (act !== 'key.issue' && act !== 'key.rotate') continue;
    const { replaces, replaced_expires_at: until, ...own } = object;
    keys.set(id, { number, object: own });
    if (act === 'key.rotate') rotated.add(id);
    const before = String(replaces);
    const old = keys.get(before);
    if (old === undefined) continue;
    const isForgettable = rotated.has(before);
    keys.set(before, { ...old, number, object: endedAt(old.object, until), isForgettable });
  }
  return keys;
}

function endedAt(object: ActObject, until: ActObject[string] | undefined): ActObject {
  return until === undefined ? object : { ...object, expires_at: until };
}

/** The members that differ from the record. */
function differences(recorded: ActObject, stored: ActObject): string[] {
  const members = new Set([...Object.keys(recorded), ...Object.keys(stored)]);
  return [...members].filter((member) => !isDeepStrictEqual(recorded[member], stored[member]));
}
