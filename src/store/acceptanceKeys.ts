/**
 * The nodes of an environment share a key. With it, each node writes a MAC beside a job that it makes wait in a database. The owner of the
 * database can write rows, but lacks the key.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Job } from '../job/job.ts';
import { encodeJob } from './jobCodec.ts';
import { encodeRecord } from './records.ts';
import type { StoreIdentity } from './store.ts';

const KEY_BYTES = 32;
/** One key, or two while it is changed. */
const KEYS_MAX = 2;
const NAME_DIGITS = 16;
const DOMAIN = 'pdfseal accepted job 1';

/** A job as it waits. */
export interface AcceptedJob {
  job: Job;
  /** While the document is still to be fetched. */
  sourceUrl?: string | undefined;
}

interface Key {
  /** Says which key made a MAC, and nothing of the key. */
  name: string;
  bytes: Uint8Array;
}

/** The text of a file with a new key. */
export function newAcceptanceKey(): string {
  return `${randomBytes(KEY_BYTES).toString('hex')}\n`;
}

/** The keys in the text of a file: a line of 64 hexadecimal digits for each. Undefined for any other text. */
export function parseAcceptanceKeys(text: string): Uint8Array[] | undefined {
  const lines = text.replace(/\n$/, '').split('\n');
  const isGood =
    lines.length <= KEYS_MAX &&
    new Set(lines).size === lines.length &&
    lines.every((line) => /^[0-9a-f]{64}$/.test(line));
  return isGood ? lines.map((line) => Buffer.from(line, 'hex')) : undefined;
}

export class AcceptanceKeys {
  readonly #keys: readonly Key[];
  readonly #place: readonly string[];

  /** The first key makes MACs. MACs by any of them count. */
  constructor(
    keys: readonly Uint8Array[],
    { environment, logOrigin }: Pick<StoreIdentity, 'environment' | 'logOrigin'>,
  ) {
    this.#keys = keys.map((bytes) => ({ name: nameOf(bytes), bytes }));
    this.#place = [environment, logOrigin];
  }

  /** The names of the keys, in their order. */
  get names(): string[] {
    return this.#keys.map(({ name }) => name);
  }

  /** The name of the key and the MAC, 40 bytes in all. */
  macOf(accepted: AcceptedJob): Buffer {
    const [key] = this.#keys;
    if (key === undefined) throw new Error('there is no acceptance key');
    return Buffer.concat([Buffer.from(key.name, 'hex'), this.#mac(key, accepted)]);
  }

  /** Why a MAC does not show that a node accepted exactly this job; undefined if it does. */
  faultOf(accepted: AcceptedJob, mac: Uint8Array | null): string | undefined {
    if (mac === null) return 'it has no MAC: no node with the acceptance key accepted it';
    const name = Buffer.from(mac.subarray(0, NAME_DIGITS / 2)).toString('hex');
    const key = this.#keys.find((one) => one.name === name);
    if (key === undefined) return `its MAC is by the acceptance key ${name}, which this node does not have`;
    const expected = this.#mac(key, accepted);
    const found = mac.subarray(NAME_DIGITS / 2);
    const matches = found.length === expected.length && timingSafeEqual(found, expected);
    return matches ? undefined : 'its MAC is of another job: it was altered since a node accepted it';
  }

  /** Each part has its length before it, so no two jobs have the same bytes. */
  #mac({ bytes }: Key, { job, sourceUrl }: AcceptedJob): Buffer {
    const source = sourceUrl === undefined ? '' : encodeRecord(sourceUrl);
    const mac = createHmac('sha256', bytes);
    for (const part of [DOMAIN, ...this.#place, job.id, encodeJob(job), source]) {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(Buffer.byteLength(part));
      mac.update(length).update(part);
    }
    return mac.digest();
  }
}

function nameOf(key: Uint8Array): string {
  return hash('sha256', Buffer.concat([Buffer.from('pdfseal acceptance key'), key]), 'hex').slice(
    0,
    NAME_DIGITS,
  );
}
