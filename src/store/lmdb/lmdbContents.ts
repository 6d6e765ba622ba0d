import { assert } from '../../base/assert.ts';
import { OperatorError } from '../../base/errors.ts';
import { parseJob } from '../jobCodec.ts';
import { emptyTally, portableTally } from '../outboxEntry.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { IdempotencyEntry, StoreIdentity } from '../store.ts';
import type { Frozen, Section, StoreContents, StoreEntry } from '../storeContents.ts';
import type { EndpointTally } from '../webhookStore.ts';
import { type Change, Commits } from './commits.ts';
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
import { encodeSealed } from './outcomeRecords.ts';
import { Postings } from './postings.ts';

/** Each page is one transaction of the store that is filled. */
const PAGE_ENTRIES = 2000;
const FAILED = Buffer.from('f');

/** Sections that are whole databases, or the keys of one that begin alike. */
const PLACES: Partial<Record<Section, { name: DatabaseName; prefix?: Buffer }>> = {
  epochs: { name: 'epochs' },
  credentials: { name: 'credentials' },
  jobs: { name: 'jobs' },
  contents: { name: 'contents' },
  sources: { name: 'sources' },
  copies: { name: 'copies' },
  failures: { name: 'outcomes' },
  waiting: { name: 'waiting' },
  idempotency: { name: 'idempotency' },
  quotas: { name: 'quotas' },
  trail: { name: 'trail' },
  leaves: { name: 'leaves' },
  tiles: { name: 'tiles' },
  batches: { name: 'batches' },
  endpoints: { name: 'endpoints' },
  outbox: { name: 'outbox' },
  dead_letters: { name: 'deadLetters' },
  renewals: { name: 'renewals', prefix: Buffer.from('run') },
  renewal_rows: { name: 'renewals', prefix: Buffer.from('row') },
};

/** Where the notes are, by the names that they have in every engine. */
const NOTES: Record<string, { name: DatabaseName; key: Buffer }> = {
  announced: { name: 'identity', key: Buffer.from('announced') },
  renewal_draft: { name: 'renewals', key: Buffer.from('draft') },
  renewal_survey: { name: 'renewals', key: Buffer.from('survey') },
  service_time: { name: 'identity', key: Buffer.from('service_time') },
  witnessing: { name: 'identity', key: Buffer.from('witnessing') },
};

/** What else is emptied with a section: its keys do not follow from the entries alone. */
const INDEXED: Partial<Record<Section, DatabaseName[]>> = {
  jobs: ['scopes', 'lookups'],
  idempotency: ['expiry'],
};

const ENDPOINTS = Buffer.from('endpoints');

/** The inside of an embedded store. */
export class LmdbContents implements StoreContents {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #postings: Postings;

  private constructor(databases: Databases) {
    this.#databases = databases;
    this.#commits = new Commits(this.#databases);
    this.#postings = new Postings(this.#databases);
  }

  static async open(path: string): Promise<LmdbContents> {
    return new LmdbContents(await openDatabases(path, { readOnly: false }));
  }

  async identity(): Promise<StoreIdentity> {
    const bytes = this.#databases.identity.getBinary(Buffer.from('identity'));
    assert(bytes, 'the store has no identity');
    return parseRecord<StoreIdentity>(bytes, 'the identity of the store');
  }

  async setIdentity(identity: StoreIdentity): Promise<void> {
    await this.#commits.write({ changes: [identityChange(this.#databases, identity)] });
  }

  async count(section: Section): Promise<number> {
    const place = PLACES[section];
    return (place && this.#databases[place.name].getStats().entryCount) ?? 0;
  }

  async *pages(section: Section, after?: Buffer): AsyncIterable<StoreEntry[]> {
    const place = PLACES[section];
    if (place === undefined) {
      yield this.#few(section);
      return;
    }
    const { name, prefix = NOTHING } = place;
    const end = Buffer.concat([prefix, Buffer.alloc(64, 0xff)]);
    let start = after === undefined ? (prefix.length > 0 ? prefix : Buffer.alloc(1)) : join(prefix, after);
    for (;;) {
      this.#databases.root.resetReadTxn();
      const range = this.#databases[name].getRange({ start, exclusiveStart: true, end, limit: PAGE_ENTRIES });
      const raw = Array.from(range, ({ key, value }) => ({
        key: Buffer.from(key),
        value: Buffer.from(value),
      }));
      const last = raw.at(-1);
      if (last === undefined) return;
      start = last.key;
      yield raw
        .filter(({ value }) => section !== 'failures' || value[0] !== 's'.charCodeAt(0))
        .map(({ key, value }) => ({ key: key.subarray(prefix.length), value: valueIn(section, value) }));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async last(section: Section): Promise<Buffer | undefined> {
    const place = PLACES[section];
    if (place === undefined) return undefined;
    const { name, prefix = NOTHING } = place;
    const start = Buffer.concat([prefix, Buffer.alloc(64, 0xff)]);
    const [key] = this.#databases[name].getKeys({ start, end: prefix, reverse: true, limit: 1 });
    return key && Buffer.from(key).subarray(prefix.length);
  }

  async add(section: Section, entries: readonly StoreEntry[]): Promise<void> {
    const changes = entries.flatMap((entry) => this.#changes(section, entry));
    if (changes.length > 0) await this.#commits.write({ changes });
  }

  async clear(section: Section): Promise<void> {
    for (const name of INDEXED[section] ?? []) {
      for await (const key of scanKeys(this.#databases, name))
        await this.#commits.write({ changes: [{ database: this.#databases[name], key: Buffer.from(key) }] });
    }
    for await (const entries of this.pages(section)) {
      const changes = entries.flatMap((entry) => this.#changes(section, entry));
      await this.#commits.write({ changes: changes.map(({ database, key }) => ({ database, key })) });
    }
  }

  async finish(): Promise<void> {} // Everything is written with its section.

  async freeze(): Promise<Frozen> {
    this.#databases.root.resetReadTxn();
    const { root, lock, identity: database } = this.#databases;
    assertAlone(root);
    const newest = () => (root.getStats() as { lastTxnId?: number }).lastTxnId;
    const seen = newest();
    return {
      leave: async (identity) => {
        const { key, value = NOTHING } = identityChange(this.#databases, identity);
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
  }

  async close(): Promise<void> {
    await this.#commits.idle();
    await this.#databases.close();
  }

  /** A section that is small, and kept in another form. */
  #few(section: Section): StoreEntry[] {
    const databases = this.#databases;
    if (section === 'notes')
      return Object.entries(NOTES).flatMap(([note, { name, key }]) => {
        const value = databases[name].getBinary(key);
        return value === undefined ? [] : [{ key: Buffer.from(note), value: Buffer.from(value) }];
      });
    if (section === 'revision') {
      const [newest] = databases.endpointRevisions.getKeys({ reverse: true, limit: 1 });
      return [{ key: ENDPOINTS, value: newest === undefined ? counterKey(0) : Buffer.from(newest) }];
    }
    return this.#endpointKeys().map((key) => {
      const bytes = databases.tallies.getBinary(key);
      return { key, value: portableTally(bytes && parseRecord<EndpointTally>(bytes)) };
    });
  }

  /** Of endpoints that are there, and of those that have something left. */
  #endpointKeys(): Buffer[] {
    const keys = new Set<string>();
    for (const name of ['endpoints', 'tallies', 'outbox', 'deadLetters'] as const) {
      for (const key of this.#databases[name].getKeys({}))
        keys.add(Buffer.from(key).toString('hex', 0, ENDPOINT_KEY_BYTES));
    }
    return [...keys].sort().map((hex) => Buffer.from(hex, 'hex'));
  }

  /** An entry, and what follows from it. */
  #changes(section: Section, { key, value }: StoreEntry): Change[] {
    const databases = this.#databases;
    if (section === 'notes') {
      const note = NOTES[key.toString()];
      assert(note, `this version does not know the note ${key}`);
      return [{ database: databases[note.name], key: note.key, value }];
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
    const { name, prefix = NOTHING } = PLACES[section] ?? { name: 'jobs' };
    const stored = section === 'failures' ? Buffer.concat([FAILED, value]) : value;
    return [
      { database: databases[name], key: Buffer.concat([prefix, key]), value: stored },
      ...this.#following(section, { key, value }),
    ];
  }

  #following(section: Section, { key, value }: StoreEntry): Change[] {
    const { outcomes, expiry } = this.#databases;
    if (section === 'jobs') return this.#postings.changesFor(parseJob(parseJobKey(key), value), key);
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
}

function valueIn(section: Section, value: Buffer): Buffer {
  if (section === 'failures') return value.subarray(1);
  return section === 'waiting' ? NOTHING : value;
}

function join(prefix: Buffer, key: Buffer): Buffer {
  return Buffer.concat([prefix, key]);
}

/** Throws OperatorError while another process has the store open: it could write to it later. */
function assertAlone(root: Databases['root']): void {
  root.readerCheck(); // forgets those that are gone
  const pids = Array.from(root.readerList().matchAll(/^ *(\d+) /gm), ([, pid]) => Number(pid));
  const other = pids.find((pid) => pid !== process.pid);
  if (other === undefined) return;
  throw new OperatorError(`process ${other} has the store open`, {
    remedy: 'run this again once it has ended',
  });
}
