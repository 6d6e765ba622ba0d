import type { IncomingMessage } from 'node:http';
import { parseItem } from 'structured-headers';
import { ServiceError } from '../base/errors.ts';
import { IDEMPOTENCY_KEY_PATTERN } from '../job/id.ts';
import type { IdempotencyKey } from '../store/store.ts';

const RETRY_AFTER_SECONDS = 1;

/**
 * The `Idempotency-Key` of a request: 8 to 128 visible ASCII characters, bare or as a structured-field string
 * (RFC 9651, section 3.3.3). Throws ServiceError `invalid_idempotency_key`.
 */
export function readIdempotencyKey(req: IncomingMessage): string | undefined {
  const values = req.headersDistinct['idempotency-key'];
  if (!values) return undefined;
  const [value = ''] = values;
  const key = value.startsWith('"') ? unquote(value) : value;
  if (values.length === 1 && key !== undefined && IDEMPOTENCY_KEY_PATTERN.test(key)) return key;
  throw new ServiceError(
    'invalid_idempotency_key',
    'Idempotency-Key must be sent once and be 8 to 128 visible ASCII characters, bare or in double quotes.',
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

/**
 * The keys of requests that are being received, before anything of them is in the store. In memory: a crash forgets them
 * together with the uploads they stood for.
 */
export class Reservations {
  readonly #held = new Set<string>();

  /** Takes the key; the function returned gives it back. Throws ServiceError `idempotency_in_progress`. */
  take({ clientId, operation, key }: IdempotencyKey): () => void {
    const name = JSON.stringify([clientId, operation, key]);
    if (this.#held.has(name)) {
      throw new ServiceError(
        'idempotency_in_progress',
        'A request with this Idempotency-Key is still being received. Repeat it later.',
        { retryAfterSeconds: RETRY_AFTER_SECONDS },
      );
    }
    this.#held.add(name);
    return () => this.#held.delete(name);
  }
}
