import t from 'tap';
import { apiKeyProblems, renewalRecordProblems } from '../../src/cli/store/recordCheck.ts';
import { type Act, type ActObject, encodeAuditRecord } from '../../src/manifest/auditRecord.ts';
import { missingRoots, renewalLapses, renewalProblems } from '../../src/prove/renewal/renewalCheck.ts';
import { auditedKey } from '../../src/store/apiKeys.ts';
import type { Credential } from '../../src/store/credentialStore.ts';
import type { RenewalRun } from '../../src/store/renewalStore.ts';
import type { Store } from '../../src/store/store.ts';
import { sampleCredential } from '../store/samples.ts';
import { BEGIN, DAY_MS } from '../support/authority.ts';
import { MemoryLog, renew, YEAR_MS, YearlyAuthority } from '../support/renewals.ts';

const actor = { via: 'command' } as const;

function trailOf(texts: readonly string[]): Pick<Store['trail'], 'entries'> {
  return {
    entries: async (after) =>
      texts.slice(after).map((text, index) => ({ number: after + index + 1, jobId: '', text })),
  };
}

function append(texts: string[], act: Act): void {
  const place = { number: texts.length + 1, previous: texts.at(-1), atMs: 0, environment: 'test' };
  texts.push(encodeAuditRecord(act, place));
}

/** A trail and keys, and what a command adds to the trail once the keys were read. */
function storeOf(
  credentials: Credential[],
  acts: [string, ActObject][],
  meanwhile: [string, ActObject][] = [],
) {
  const texts: string[] = [];
  const write = (records: [string, ActObject][]) => {
    for (const [act, object] of records)
      append(texts, { act: act as 'key.issue', actor, object, outcome: 'done' });
  };
  write(acts);
  return {
    trail: trailOf(texts),
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

t.test('a key that was issued and not revoked must be in the store', async (t) => {
  const gone = 'API key key_1 of client billing is not in the store, but audit record';
  t.match(await apiKeyProblems(storeOf([], [issue])), [gone]);
  t.match(await apiKeyProblems(storeOf([next], [issue, rotate])), [gone], 'an administrator issued it');
  const expired = auditedKey({ ...key, expiresAt: 1 });
  t.match(await apiKeyProblems(storeOf([], [['key.issue', expired]])), [gone], 'an expired key is listed');
  t.strictSame(await apiKeyProblems(storeOf([], [issue, revoke])), [], 'a revoked key gives no access');
});

t.test('keys that a rotation forgot, and certificates that were issued anew, may be gone', async (t) => {
  const last = sampleCredential({ id: 'key_3' });
  const rotation = (by: Credential, replaces: string, ends: string): [string, ActObject] => [
    'key.rotate',
    { ...auditedKey(by), replaces, replaced_expires_at: ends },
  ];
  const forgotten = (ends: string) => storeOf([ended, last], [issue, rotate, rotation(last, 'key_2', ends)]);
  t.strictSame(await apiKeyProblems(forgotten('2026-01-01T00:00:00.000Z')), []);
  const valid = '9999-01-01T00:00:00.000Z';
  t.match(await apiKeyProblems(forgotten(valid)), [/^API key key_2 .* not in the store/], 'not ended yet');
  const again = { ...key, id: 'key_4' };
  t.strictSame(await apiKeyProblems(storeOf([again], [issue, ['key.issue', auditedKey(again)]])), []);
});

t.test('renewals that differ from the audit trail are problems', async (t) => {
  const authorities = [await YearlyAuthority.make('alpha'), await YearlyAuthority.make('beta')] as const;
  const [alpha, beta] = authorities;
  const trusted = authorities.map((one) => one.trusted);
  const memory = new MemoryLog();
  await memory.seal(3, BEGIN + DAY_MS, alpha);
  const at = BEGIN + YEAR_MS;
  const theft = { root: beta.trusted.root, since: at + 2 * DAY_MS };
  await renew(memory.store, { digest: 'sha512', at, authorities: [alpha], trusted, theft });
  await renew(memory.store, { digest: 'sha512', at: at + DAY_MS, authorities: [alpha], trusted });
  const texts: string[] = [];
  for (const act of memory.acts) append(texts, act);
  const [first, second] = await memory.renewals.runs();
  if (first === undefined || second === undefined) throw new Error('there are no runs');
  const store = (runs: RenewalRun[], records = texts) => ({
    trail: trailOf(records),
    log: memory.log,
    renewals: { runs: async () => runs, row: memory.renewals.row },
  });
  const problems = (...given: Parameters<typeof store>) =>
    renewalRecordProblems(store(...given) as unknown as Store);
  t.strictSame(await problems([first, second]), []);
  t.match(await problems([]), [
    /^renewal 1 is not .* audit record 1 made it/,
    /^renewal 2 is not in the store/,
  ]);
  t.match(await problems([first]), [/^renewal 2 is not in the store, but audit record 2 made it/]);
  t.match(await problems([first, second], texts.slice(0, 1)), [/^renewal 2 .*, but no audit record made it/]);
  const { thefts: _, ...withoutTheft } = first;
  t.match(await problems([withoutTheft, second]), [/^renewal 1 has another distrusted in the store/]);
  const token = await alpha.stamp('sha512', Buffer.alloc(64), at + 2 * DAY_MS);
  const other = { ...second, tokens: [{ ...token, authority: 'gamma' }] };
  t.match(await problems([first, other]), [
    /^renewal 2 has another authorities in the store than audit record 2 says/,
    /^renewal 2 has another stamped_at/,
  ]);

  for (const text of ['', 'AAAA', 'not Base64', token.token.slice(0, 400)]) {
    const garbled = { ...second, tokens: [{ ...token, authority: 'alpha', token: text }] };
    const damaged = store([first, garbled]) as unknown as Store;
    await t.rejects(
      renewalRecordProblems(damaged),
      { message: 'a time-stamp in the store is damaged: it cannot be read' },
      text,
    );
    await t.rejects(renewalProblems(damaged, trusted), text);
    await t.rejects(
      missingRoots(damaged, trusted),
      { message: 'a time-stamp in the store is damaged: it cannot be read' },
      text,
    );
    await t.rejects(
      renewalLapses(damaged, trusted, at + 3 * DAY_MS),
      { message: 'a time-stamp in the store is damaged: it cannot be read' },
      text,
    );
  }
});
