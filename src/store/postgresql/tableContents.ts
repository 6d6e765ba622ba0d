import { documentSha256 } from '../../job/job.ts';
import type { SuccessorSalt } from '../credentialStore.ts';
import { idOf, ownUuid } from '../ids.ts';
import { parseJob } from '../jobCodec.ts';
import { parseRecord } from '../records.ts';
import type { IdempotencyEntry } from '../store.ts';
import type { Section, StoreEntry } from '../storeContents.ts';
import type { WebhookEndpoint } from '../webhookStore.ts';
import type { Query } from './database.ts';
import { idempotencyBytes } from './idempotencyTable.ts';
import { referenceSha256 } from './jobRows.ts';

/** A section that is a table. The database itself converts columns to keys and values, which are bytes, and back. */
interface TableSection {
  table: string;
  /** Key and value of a row. */
  key: string;
  value: string;
  /** Columns by which rows are sorted like their keys, each with its derivation from a key `k`. */
  order: Record<string, string>;
  /** Columns with their derivation from a key `k`, a value `v`, and {@link Derived} values. */
  columns: Record<string, string>;
  derived?: Derived;
}

/** Values that only this program can derive from an entry: names and types, and the values in the same order. */
interface Derived {
  names: string[];
  types: string[];
  of(entry: StoreEntry): unknown[];
}

const uuid = (at = 1, of = 'k') => `encode(substr(${of}, ${at}, 16), 'hex')::uuid`;
const number = (at: number, bytes: number) =>
  `('x' || lpad(encode(substr(k, ${at}, ${bytes}), 'hex'), 16, '0'))::bit(64)::bigint`;

function records(table: string, column: string, key: string, from: string): TableSection {
  const order = { [column]: from };
  return { table, key, value: 'record', order, columns: { ...order, record: 'v' } };
}
const ofUuid = (table: string, column = 'job_id') => records(table, column, `uuid_send(${column})`, uuid());
const ofNumber = (table: string, column: string) =>
  records(table, column, `int8send(${column})`, number(1, 8));

function ofMessages(table: string): TableSection {
  const order = { endpoint_id: uuid(), at: number(17, 6), message: uuid(23) };
  const key = 'uuid_send(endpoint_id) || substr(int8send(at), 3) || uuid_send(message)';
  return { table, key, value: 'record', order, columns: { ...order, record: 'v' } };
}

const JOBS: TableSection = {
  ...ofUuid('jobs', 'id'),
  columns: {
    id: uuid(),
    client_id: 'client_id',
    organization: 'organization',
    visibility: 'visibility',
    document_sha256: 'document_sha256',
    reference_sha256: 'reference_sha256',
    record: 'v',
  },
  derived: {
    names: ['client_id', 'organization', 'visibility', 'document_sha256', 'reference_sha256'],
    types: ['text', 'text', 'text', 'bytea', 'bytea'],
    of: ({ key, value }) => {
      const job = parseJob(idOf('job', key.toString('hex')), value);
      const document = Buffer.from(documentSha256(job), 'hex');
      const reference = referenceSha256(job.customerReference) ?? null;
      return [job.clientId, job.organization, job.visibility, document, reference];
    },
  },
};

const ENDPOINTS: TableSection = {
  ...ofUuid('endpoints', 'id'),
  columns: { id: uuid(), client_id: 'client_id', told: `string_to_array(told, ',')`, record: 'v' },
  derived: {
    names: ['client_id', 'told'],
    types: ['text', 'text'],
    of: ({ value }) => {
      const { clientId, disabled, events } = parseRecord<WebhookEndpoint>(value);
      return [clientId, disabled === undefined ? events.join() : ''];
    },
  },
};

const IDEMPOTENCY: TableSection = {
  table: 'idempotency',
  key: 'substr(key, 1, 16)',
  value: 'record',
  order: { key: `k || decode(repeat('ff', 16), 'hex')` },
  columns: { key: 'claim', job_id: 'job_id', accepted_at: 'accepted_at', record: 'v' },
  derived: {
    names: ['claim', 'job_id', 'accepted_at'],
    types: ['bytea', 'uuid', 'bigint'],
    of: ({ value }) => {
      const entry = parseRecord<IdempotencyEntry>(value);
      return [idempotencyBytes(entry), ownUuid('job', entry.jobId), entry.acceptedAt];
    },
  },
};

const SALTS: TableSection = {
  ...records('salts', 'key_hash', 'key_hash', 'k'),
  columns: { key_hash: 'k', ends_at: 'ends_at', record: 'v' },
  derived: {
    names: ['ends_at'],
    types: ['bigint'],
    of: ({ value }) => [parseRecord<SuccessorSalt>(value).endsAt],
  },
};

const LEAVES: TableSection = {
  ...ofNumber('leaves', 'leaf_index'),
  value: 'uuid_send(job_id) || data',
  columns: { leaf_index: number(1, 8), job_id: uuid(1, 'v'), data: 'substr(v, 17)' },
};

const TILES: TableSection = {
  table: 'tiles',
  key: 'substr(int2send(level), 2) || int8send(index)',
  value: 'hashes',
  order: { level: number(1, 1), index: number(2, 8) },
  columns: { level: number(1, 1), index: number(2, 8), hashes: 'v' },
};

const RENEWAL_ROWS: TableSection = {
  table: 'renewal_rows',
  key: 'int8send(run) || int8send(row)',
  value: 'record',
  order: { run: number(1, 8), row: number(9, 8) },
  columns: { run: number(1, 8), row: number(9, 8), record: 'v' },
};

export const TABLES: Partial<Record<Section, TableSection>> = {
  epochs: ofNumber('epochs', 'revision'),
  credentials: records('credentials', 'key_hash', 'key_hash', 'k'),
  salts: SALTS,
  jobs: JOBS,
  contents: ofUuid('contents'),
  sources: ofUuid('sources'),
  copies: ofUuid('copies'),
  failures: ofUuid('failures'),
  waiting: { ...ofUuid('waiting'), value: `''::bytea`, columns: { job_id: uuid() } },
  idempotency: IDEMPOTENCY,
  trail: ofNumber('trail', 'number'),
  leaves: LEAVES,
  tiles: TILES,
  batches: ofNumber('batches', 'tree_size'),
  endpoints: ENDPOINTS,
  outbox: ofMessages('outbox'),
  dead_letters: ofMessages('dead_letters'),
  renewals: ofNumber('renewals', 'run'),
  renewal_rows: RENEWAL_ROWS,
};

/** The first entries, or those after a key. */
export function readTable(
  { table, key, value, order }: TableSection,
  isFirst: boolean,
  limit: number,
): Query {
  const columns = Object.keys(order).join(', ');
  const after = isFirst
    ? ''
    : `WHERE (${columns}) > (SELECT ${Object.values(order).join(', ')} FROM (SELECT $1::bytea AS k) AS last)`;
  return {
    name: `${isFirst ? 'first' : 'next'}_of_${table}`,
    text: `SELECT ${key} AS key, ${value} AS value FROM ${table} ${after} ORDER BY ${columns} LIMIT ${limit}`,
  };
}

export function lastOfTable({ table, key, order }: TableSection): Query {
  const columns = Object.keys(order).map((column) => `${column} DESC`);
  return {
    name: `last_of_${table}`,
    text: `SELECT ${key} AS key FROM ${table} ORDER BY ${columns.join(', ')} LIMIT 1`,
  };
}

/** The statement that adds entries, and its parameters. */
export function addToTable(
  { table, columns, derived }: TableSection,
  entries: readonly StoreEntry[],
): [Query, unknown[]] {
  const { names = [], types = [], of = () => [] } = derived ?? {};
  const arrays = ['bytea', 'bytea', ...types].map((type, n) => `$${n + 1}::${type}[]`).join(', ');
  const rows = entries.map((entry) => [entry.key, entry.value, ...of(entry)]);
  return [
    {
      name: `add_to_${table}`,
      text: `INSERT INTO ${table} (${Object.keys(columns).join(', ')})
        SELECT ${Object.values(columns).join(', ')} FROM unnest(${arrays}) AS entry (${['k', 'v', ...names].join(', ')})`,
    },
    ['k', 'v', ...names].map((_, n) => rows.map((row) => row[n])),
  ];
}
