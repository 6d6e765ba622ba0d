import { isDeepStrictEqual } from 'node:util';
import { type ActObject, parseAuditRecord } from '../../manifest/auditRecord.ts';
import { auditedKey } from '../../store/apiKeys.ts';
import type { Credential } from '../../store/credentialStore.ts';
import type { Store } from '../../store/store.ts';

/** A key by its records. */
interface RecordedKey {
  /** Number of the record that issued it. */
  number: number;
  /** {@link auditedKey} as it stands after the newest record of the key. */
  object: ActObject;
  /** Number of the record that revoked it. */
  revokedBy?: number;
}

/** How the API keys in a store differ from those that the audit trail issued and revoked. */
export async function apiKeyProblems(store: Pick<Store, 'trail' | 'credentials'>): Promise<string[]> {
  // Commands may write meanwhile: what was revoked before is revoked now, what is there now was issued by the end, and what a rotation
  // changed is as it was before or after.
  const earlier = await recordedKeys(store);
  const credentials = await store.credentials.all();
  const recorded = await recordedKeys(store);
  const seen = new Set<string>();
  return credentials.flatMap((credential) => {
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
      ...differences(known.object, credential)
        .filter((member) => differences(before.object, credential).includes(member))
        .map((member) => `${name} has another ${member} in the store than audit record ${known.number} says`),
    ];
  });
}

async function recordedKeys({ trail }: Pick<Store, 'trail'>): Promise<Map<string, RecordedKey>> {
  const keys = new Map<string, RecordedKey>();
  for (let page = await trail.entries(0, PAGE); page.length > 0; ) {
    for (const { number, text } of page) keep(keys, number, text);
    page = await trail.entries(page.at(-1)?.number ?? 0, PAGE);
  }
  return keys;
}

const PAGE = 500;

/** A record that cannot be read is a finding of the trail's own check. */
function keep(keys: Map<string, RecordedKey>, number: number, text: string): void {
  const { act, object = {} } = parseAuditRecord(text) ?? {};
  const known = keys.get(String(object.key));
  if (act === 'key.revoke' && known !== undefined) known.revokedBy = number;
  if (act !== 'key.issue' && act !== 'key.rotate') return;
  const { replaces, replaced_expires_at: until, ...own } = object;
  keys.set(String(object.key), { number, object: own });
  const old = keys.get(String(replaces));
  if (old !== undefined) keys.set(String(replaces), { ...old, number, object: endedAt(old.object, until) });
}

function endedAt(object: ActObject, until: ActObject[string] | undefined): ActObject {
  return until === undefined ? object : { ...object, expires_at: until };
}

/** The members that are not as recorded. */
function differences(recorded: ActObject, credential: Credential): string[] {
  const stored = auditedKey(credential);
  const members = new Set([...Object.keys(recorded), ...Object.keys(stored)]);
  return [...members].filter((member) => !isDeepStrictEqual(recorded[member], stored[member]));
}
