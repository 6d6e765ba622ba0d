import { assert } from '../../base/assert.ts';
import { OperatorError } from '../../base/errors.ts';
import { parseJob } from '../jobCodec.ts';
import { emptyTally, portableTally } from '../outboxEntry.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { IdempotencyEntry, StoreIdentity } from '../store.ts';
import type { Section, StoreContents, StoreEntry } from '../storeContents.ts';
import type { EndpointTally } from '../webhookStore.ts';
import { type Change, Commits } from './commits.ts';
import { moveSalts } from './credentialRecords.ts';
import { type DatabaseName, type Databases, openDatabases, scanKeys } from './databases.ts';
import { REVISIONS_KEPT } from './endpointRecords.ts';
import { identityChange } from './identity.ts';
import {
  counterKey,
  ENDPOINT_KEY_BYTES,
  expiryKey,
  JOB_KEY_BYTES,
  NOTHING,
  parseCounterKey,
  parseJobKey,
} from './keyLayout.ts';
import { encodeSealed, FAILED, outcomeKind } from './outcomeRecords.ts';
import { Postings } from './postings.ts';

/** Each page is one transaction of the store that is filled. */
const PAGE_ENTRIES = 2000;

/** Sections whose database has another name, or contains more. Every other one is the whole database of its name. */
const PLACES: Partial<Record<Section, { name: DatabaseName; prefix?: Buffer }>> = {
  failures: { name: 'outcomes' },
  dead_letters: { name: 'deadLetters' },
  renewals: { name: 'renewals', prefix: Buffer.from('run') },
  renewal_rows: { name: 'renewals', prefix: Buffer.from('row') },
};

/** Database and key of each note, by the name that it has in every engine. */
const NOTES: Record<string, [name: DatabaseName, key: string]> = {
  announced: ['identity', 'announced'],
  renewal_draft: ['renewals', 'draft'],
  renewal_survey: ['renewals', 'survey'],
  service_time: ['identity', 'service_time'],
  witnessing: ['identity', 'witnessing'],
};

/** Databases that are emptied together with a section: their keys do not follow from the entries alone. */
const INDEXED: Partial<Record<Section, DatabaseName[]>> = {
  jobs: ['scopes', 'lookups'],
  idempotency: ['expiry'],
};

const ENDPOINTS = Buffer.from('endpoints');

/** Raw access to an embedded store. */
export async function lmdbContents(path: string): Promise<StoreContents> {
  const databases = await openDatabases(path, { readOnly: false });
  const commits = new Commits(databases);
  const postings = new Postings(databases);
  await moveSalts(databases, commits);

  async function* pages(section: Section, after?: Buffer): AsyncIterable<StoreEntry[]> {
    const place = placeOf(section);
    if (place === undefined) {
      yield entriesOf(section);
      return;
    }
    const { database, prefix, end } = place;
    let start = Buffer.concat([prefix, after ?? Buffer.alloc(prefix.length > 0 ? 0 : 1)]);
    for (;;) {
      databases.root.resetReadTxn();
      const range = database.getRange({ start, exclusiveStart: true, end, limit: PAGE_ENTRIES });
      const raw = Array.from(range, ({ key, value }) => ({
        key: Buffer.from(key),
        value: Buffer.from(value),
      }));
      const last = raw.at(-1);
      if (last === undefined) return;
      start = last.key;
      yield raw
        .filter(({ value }) => section !== 'failures' || outcomeKind(value) === 'failed')
        .map(({ key, value }) => ({
          key: key.subarray(prefix.length),
          value: section === 'failures' ? value.subarray(FAILED.length) : value,
        }));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Undefined for a section that is kept in another form. */
  function placeOf(section: Section) {
    if (section === 'notes' || section === 'revision' || section === 'tallies') return undefined;
    const { name, prefix = NOTHING } = PLACES[section] ?? { name: section as DatabaseName };
    return { database: databases[name], prefix, end: Buffer.concat([prefix, Buffer.alloc(64, 0xff)]) };
  }

  /** Entries of a section that is small, and kept in another form. */
  function entriesOf(section: Section): StoreEntry[] {
    if (section === 'notes')
      return Object.entries(NOTES).flatMap(([note, [name, key]]) => {
        const value = databases[name].getBinary(Buffer.from(key));
        return value === undefined ? [] : [{ key: Buffer.from(note), value: Buffer.from(value) }];
      });
    if (section === 'revision') {
      const [newest] = databases.endpointRevisions.getKeys({ reverse: true, limit: 1 });
      return [{ key: ENDPOINTS, value: newest === undefined ? counterKey(0) : Buffer.from(newest) }];
    }
    return endpointKeys().map((key) => {
      const bytes = databases.tallies.getBinary(key);
      return { key, value: portableTally(bytes && parseRecord<EndpointTally>(bytes)) };
    });
  }

  /** Keys of existing endpoints, and of removed ones that still have entries. */
  function endpointKeys(): Buffer[] {
    const keys = new Set<string>();
    for (const name of ['endpoints', 'tallies', 'outbox', 'deadLetters'] as const) {
      for (const key of databases[name].getKeys({}))
        keys.add(Buffer.from(key).toString('hex', 0, ENDPOINT_KEY_BYTES));
    }
    return [...keys].sort().map((hex) => Buffer.from(hex, 'hex'));
  }

  /** The changes for an entry, and for the entries that follow from it. */
  function changesFor(section: Section, { key, value }: StoreEntry): Change[] {
    if (section === 'notes') {
      const note = NOTES[key.toString()];
      assert(note, `this version does not know the note ${key}`);
      const [name, place] = note;
      return [{ database: databases[name], key: Buffer.from(place), value }];
    }
    if (section === 'revision') {
      const newest = parseCounterKey(value);
      const kept = Math.min(newest, REVISIONS_KEPT);
      const database = databases.endpointRevisions;
      return Array.from({ length: kept }, (_, n) => ({
        database,
        key: counterKey(newest - n),
        value: NOTHING,
      }));
    }
    if (section === 'tallies') {
      const tally = { ...emptyTally(), ...parseRecord<Partial<EndpointTally>>(value) };
      return [{ database: databases.tallies, key, value: encodeRecord(tally) }];
    }
    const place = placeOf(section);
    assert(place, `the section ${section} has no database`);
    const stored = section === 'failures' ? Buffer.concat([FAILED, value]) : value;
    return [
      { database: place.database, key: Buffer.concat([place.prefix, key]), value: stored },
      ...following(section, { key, value }),
    ];
  }

  function following(section: Section, { key, value }: StoreEntry): Change[] {
    const { outcomes, expiry } = databases;
    if (section === 'jobs') return postings.changesFor(parseJob(parseJobKey(key), value), key);
    if (section === 'idempotency') {
      const { acceptedAt } = parseRecord<IdempotencyEntry>(value);
      return [{ database: expiry, key: expiryKey(acceptedAt, key), value: NOTHING }];
    }
    if (section === 'leaves') {
      const job = value.subarray(0, JOB_KEY_BYTES);
      return [{ database: outcomes, key: job, value: encodeSealed(parseCounterKey(key)) }];
    }
    return [];
  }

  return {
    async identity() {
      const bytes = databases.identity.getBinary(Buffer.from('identity'));
      assert(bytes, 'the store has no identity');
      return parseRecord<StoreIdentity>(bytes, 'the identity of the store');
    },

    async setIdentity(identity) {
      await commits.write({ changes: [identityChange(databases, identity)] });
    },

    async count(section) {
      return placeOf(section)?.database.getStats().entryCount ?? 0;
    },

    pages,

    async last(section) {
      const place = placeOf(section);
      if (place === undefined) return undefined;
      const { database, prefix, end } = place;
      const [key] = database.getKeys({ start: end, end: prefix, reverse: true, limit: 1 });
      return key && Buffer.from(key).subarray(prefix.length);
    },

    async add(section, entries) {
      const changes = entries.flatMap((entry) => changesFor(section, entry));
      if (changes.length > 0) await commits.write({ changes });
    },

    async clear(section) {
      for (const name of INDEXED[section] ?? []) {
        for await (const key of scanKeys(databases, name))
          await commits.write({ changes: [{ database: databases[name], key: Buffer.from(key) }] });
      }
      for await (const entries of pages(section)) {
        const changes = entries.flatMap((entry) => changesFor(section, entry));
        await commits.write({ changes: changes.map(({ database, key }) => ({ database, key })) });
      }
    },

    finish: async () => {}, // Everything is written with its section.

    async freeze() {
      databases.root.resetReadTxn();
      const { root, lock, identity: database } = databases;
      assertAlone(root);
      const newest = () => (root.getStats() as { lastTxnId?: number }).lastTxnId;
      const seen = newest();
      return {
        leave: async (identity) => {
          const { key, value = NOTHING } = identityChange(databases, identity);
          return lock.holding('shared', async () => {
            let put: Promise<boolean> | undefined;
            root.transactionSync(() => {
              if (newest() === seen) put = database.put(key, value);
            });
            await put;
            await root.flushed;
            return put !== undefined;
          });
        },
        end: async () => {},
      };
    },

    async close() {
      await commits.idle();
      await databases.close();
    },
  };
}

/** Throws OperatorError while another process has the store open: it could write to it later. */
function assertAlone(root: Databases['root']): void {
  root.readerCheck(); // forgets processes that have ended
  const pids = Array.from(root.readerList().matchAll(/^ *(\d+) /gm), ([, pid]) => Number(pid));
  const other = pids.find((pid) => pid !== process.pid);
  if (other === undefined) return;
  throw new OperatorError(`process ${other} has the store open`, {
    remedy: 'run this again once it has ended',
  });
}
