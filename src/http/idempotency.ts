import type { IncomingMessage } from 'node:http';
import { parseItem } from 'structured-headers';
import { assert } from '../base/assert.ts';
import { ServiceError } from '../base/errors.ts';
import { IDEMPOTENCY_KEY_PATTERN } from '../job/id.ts';
import type { Job } from '../job/job.ts';
import type { IdempotencyEntry, IdempotencyKey, Store } from '../store/store.ts';

/** An earlier request with the same key. */
export interface Earlier {
  entry: IdempotencyEntry;
  job: Job;
}

/** A key that one request holds until its job is on disk. */
interface HeldKey extends Disposable {
  readonly key: IdempotencyKey;
  /** The request was received, and its job is being sealed: repeats can share its outcome. */
  sealing(request: Earlier): void;
}

/** `Retry-After` of a repeat whose first request is still being received, in seconds. */
const RECEIVED_SECONDS = 1;

/**
 * The keys of all creates. Keys of requests that are being received or sealed and are not in the store yet are in memory only: a crash
 * loses them together with their uploads.
 */
export class IdempotencyKeys {
  readonly #store: Pick<Store, 'jobs'>;
  readonly #held = new Map<string, Earlier | undefined>();

  constructor(store: Pick<Store, 'jobs'>) {
    this.#store = store;
  }

  /**
   * Returns the earlier request with the key, or holds the key for a new one. Throws ServiceError `idempotency_in_progress` while an earlier
   * request is still being received.
   */
  async claim(key: IdempotencyKey): Promise<Earlier | HeldKey> {
    const name = JSON.stringify([key.clientId, key.operation, key.key]);
    const earlier = (await this.#stored(key)) ?? this.#held.get(name);
    if (earlier) return earlier;
    if (this.#held.has(name)) {
      throw new ServiceError(
        'idempotency_in_progress',
        'A request with this Idempotency-Key is still being received. Repeat it later.',
        { retryAfterSeconds: RECEIVED_SECONDS },
      );
    }
    this.#held.set(name, undefined);
    using held = new DisposableStack();
    held.defer(() => this.#held.delete(name));
    // Checked again: the request that held the key until now may have been accepted in between.
    const accepted = await this.#stored(key);
    if (accepted) return accepted;
    const kept = held.move();
    return {
      key,
      sealing: (request) => this.#held.set(name, request),
      [Symbol.dispose]: () => kept.dispose(),
    };
  }

  /** The failure of a blocking create is temporary, so its key is free again. */
  async #stored(key: IdempotencyKey): Promise<Earlier | undefined> {
    const entry = await this.#store.jobs.idempotency(key);
    if (entry === undefined) return undefined;
    const record = await this.#store.jobs.get(entry.jobId);
    assert(record, `the job ${entry.jobId} of an idempotency entry is not in the store`);
    const hasFailed = record.job.mode === 'blocking' && record.outcome?.kind === 'failed';
    return hasFailed ? undefined : { entry, job: record.job };
  }
}

/**
 * The `Idempotency-Key` of a request: 8 to 128 visible ASCII characters, bare or as a structured-field string (RFC 9651, section
 * 3.3.3). Throws ServiceError `invalid_idempotency_key`.
 */
export function readIdempotencyKey(req: IncomingMessage): string | undefined {
  const values = req.headersDistinct['idempotency-key'];
  if (!values) return undefined;
  const [value = ''] = values;
  const key = value.startsWith('"') ? unquote(value) : value;
  if (values.length === 1 && key !== undefined && IDEMPOTENCY_KEY_PATTERN.test(key)) return key;
  throw new ServiceError(
    'invalid_idempotency_key',
    'Send Idempotency-Key once. It must have 8 to 128 visible ASCII characters, bare or in double quotes.',
  );
}

function unquote(value: string): string | undefined {
  try {
    const [item] = parseItem(value);
    return typeof item === 'string' ? item : undefined;
  } catch {
    return undefined;
  }
}
