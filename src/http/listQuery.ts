import { parseDay } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { duplicateField, invalidField, parseField } from '../job/fieldValues.ts';
import { JOB_ID_PATTERN, JOB_PHASES, type JobPhase } from '../job/job.ts';
import type { JobQuery, Viewer } from '../store/store.ts';

export const PAGE_LIMIT_DEFAULT = 50;
export const PAGE_LIMIT_MAX = 100;
const CURSOR_EXPECTED = 'must be the next_cursor of an earlier answer.';

/** The query of a list. The store filters by outcome; the page then filters by the phase of jobs without an outcome. */
interface ListQuery extends JobQuery {
  phase?: JobPhase;
}

type Reader = (value: string, name: string) => Partial<ListQuery>;

/** The other phases are those of jobs that wait. */
const OUTCOME_OF_PHASE: Partial<Record<JobPhase, JobQuery['outcome']>> = {
  completed: 'sealed',
  failed: 'failed',
};

const READERS: Readonly<Record<string, Reader>> = {
  limit: (value, name) => ({ limit: readLimit(value, name) }),
  cursor: (value, name) => ({ before: decodeCursor(value, name) }),
  document_sha256: (value) => ({ documentSha256: parseField('document_sha256', value) }),
  // The decoder writes U+FFFD for bytes that are not UTF-8. A reference with U+FFFD finds nothing anyway.
  customer_reference: (value) => ({ customerReference: parseField('customer_reference', value) }),
  purpose: (value) => ({ purpose: parseField('purpose', value) }),
  visibility: (value) => ({ visibility: parseField('visibility', value) }),
  phase: (value, name) => {
    const phase = JOB_PHASES.find((one) => one === value);
    if (phase === undefined) throw invalidField(name, `must be one of: ${JOB_PHASES.join(', ')}.`);
    return { phase, outcome: OUTCOME_OF_PHASE[phase] ?? 'waiting' };
  },
  created_from: (value, name) => ({ createdFrom: readTime(value, name) }),
  created_to: (value, name) => ({ createdTo: readTime(value, name) }),
};

/** Reads the query string of `GET /v1/jobs`. Throws ServiceError that names the invalid parameter. */
export function decodeListQuery(querystring: string, viewer: Viewer): ListQuery {
  return { viewer, limit: PAGE_LIMIT_DEFAULT, ...decodeQuery(querystring, READERS) };
}

/** Reads only `limit` and `cursor`; `decode` decodes the cursors of this list. Throws ServiceError that names the invalid parameter. */
export function readPage<T>(
  querystring: string,
  decode: (cursor: string) => T | undefined,
): { limit: number; after?: T } {
  const readers = {
    limit: (value: string, name: string) => ({ limit: readLimit(value, name) }),
    cursor: (value: string, name: string) => {
      const after = decode(value);
      if (after === undefined) throw invalidField(name, CURSOR_EXPECTED);
      return { after };
    },
  };
  return { limit: PAGE_LIMIT_DEFAULT, ...decodeQuery<{ limit?: number; after?: T }>(querystring, readers) };
}

function decodeQuery<T extends object>(
  querystring: string,
  readers: Readonly<Record<string, (value: string, name: string) => T>>,
): Partial<T> {
  const query: Partial<T> = {};
  const seen = new Set<string>();
  for (const [name, value] of new URLSearchParams(querystring)) {
    const read = Object.hasOwn(readers, name) ? readers[name] : undefined;
    if (!read) throw unknownParameter(name, `. The parameters are ${Object.keys(readers).join(', ')}.`);
    if (seen.has(name)) throw duplicateField(name);
    seen.add(name);
    Object.assign(query, read(value, name));
  }
  return query;
}

/** The opaque text with which the next page starts after this job. */
export function encodeCursor(jobId: string): string {
  return Buffer.from(jobId).toString('base64url');
}

function decodeCursor(value: string, name: string): string {
  const jobId = Buffer.from(value, 'base64url').toString();
  if (JOB_ID_PATTERN.test(jobId) && encodeCursor(jobId) === value) return jobId;
  throw invalidField(name, CURSOR_EXPECTED);
}

function readLimit(value: string, name: string): number {
  const limit = /^[0-9]{1,3}$/.test(value) ? Number(value) : 0;
  if (limit >= 1 && limit <= PAGE_LIMIT_MAX) return limit;
  throw invalidField(name, `must be an integer from 1 to ${PAGE_LIMIT_MAX}.`);
}

const RFC_3339 =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

function readTime(value: string, name: string): number {
  if (RFC_3339.test(value) && parseDay(value.slice(0, 10)) !== undefined) return Date.parse(value);
  throw invalidField(
    name,
    'must be an RFC 3339 time such as 2026-01-02T03:04:05Z (write + as %2B in a URL).',
  );
}

/** `rest`: the end of the sentence, and the remedy. */
export function unknownParameter(name: string, rest: string): ServiceError {
  const shown = JSON.stringify(name.slice(0, 64));
  return new ServiceError('unknown_parameter', `There is no query parameter ${shown}${rest}`);
}
