import t from 'tap';
import { apiKeyProblems } from '../../src/cli/store/keyCheck.ts';
import { type ActObject, encodeAuditRecord } from '../../src/manifest/auditRecord.ts';
import { auditedKey } from '../../src/store/apiKeys.ts';
import type { Credential } from '../../src/store/credentialStore.ts';
import { sampleCredential } from '../store/samples.ts';

const actor = { via: 'command' } as const;

/** A trail and keys, and what a command adds to the trail once the keys were read. */
function storeOf(
  credentials: Credential[],
  acts: [string, ActObject][],
  meanwhile: [string, ActObject][] = [],
) {
  const texts: string[] = [];
  const write = (records: [string, ActObject][]) => {
    for (const [act, object] of records) {
      const place = { number: texts.length + 1, previous: texts.at(-1), atMs: 0, environment: 'test' };
      texts.push(encodeAuditRecord({ act: act as 'key.issue', actor, object, outcome: 'done' }, place));
    }
  };
  write(acts);
  return {
    trail: {
      entries: async (after: number) =>
        texts.slice(after).map((text, index) => ({ number: after + index + 1, jobId: '', text })),
    },
    credentials: {
      all: async () => {
        write(meanwhile);
        return credentials;
      },
    },
  } as unknown as Parameters<typeof apiKeyProblems>[0];
}

const key = sampleCredential({ id: 'key_1' });
const next = sampleCredential({ id: 'key_2' });
const until = '2027-01-01T00:00:00.000Z';
const ended = { ...key, expiresAt: Date.parse(until), replacedBy: 'key_2' };
const { key_sha256: _, ...withoutDigest } = auditedKey(key);
const issue: [string, ActObject] = ['key.issue', auditedKey(key)];
const rotate: [string, ActObject] = [
  'key.rotate',
  { ...auditedKey(next), replaces: 'key_1', replaced_expires_at: until },
];
const revoke: [string, ActObject] = ['key.revoke', { key: 'key_1', client: 'billing' }];

t.test('keys that match the audit trail are good, even while a command writes', async (t) => {
  for (const [what, store] of [
    ['issued', storeOf([key], [issue])],
    ['rotated', storeOf([ended, next], [issue, rotate])],
    ['revoked', storeOf([{ ...key, revokedAt: 1 }], [issue, revoke])],
    ['about to be issued', storeOf([key], [], [issue])],
    ['rotated before the keys were read', storeOf([ended, next], [issue], [rotate])],
    ['rotated after the keys were read', storeOf([key], [issue], [rotate])],
    ['revoked after the keys were read', storeOf([key], [issue], [revoke])],
  ] as const)
    t.strictSame(await apiKeyProblems(store), [], what);
});

t.test('keys that differ from the audit trail are problems', async (t) => {
  for (const [store, problem] of [
    [storeOf([key], []), 'is in the store, but no audit record issued it'],
    [storeOf([key, { ...key, keyHash: 'ab'.repeat(32) }], [issue]), 'is in the store twice'],
    [storeOf([key], [issue, revoke]), 'is valid in the store, but audit record 2 revoked it'],
    [storeOf([key, next], [issue, rotate]), 'has another expires_at in the store than audit record 2 says'],
    [storeOf([{ ...key, organization: 'other' }], [issue]), 'has another organization in the store'],
    [storeOf([{ ...key, keyHash: 'ab'.repeat(32) }], [issue]), 'has another key_sha256 in the store'],
    [storeOf([key], [['key.issue', withoutDigest]]), 'has another key_sha256 in the store'],
  ] as const)
    t.match(await apiKeyProblems(store), [`API key key_1 of client billing ${problem}`], problem);
});
