import { idOf, uuidOf } from '../ids.ts';
import { CANDIDATES_MAX, ID_SKEW_MS, isOrUnset, matches } from '../jobRules.ts';
import type { JobPage, JobQuery, Viewer } from '../store.ts';
import type { Database, Query } from './database.ts';
import { CONTENT, type JobRow, parseJobRow, referenceSha256 } from './jobRows.ts';

const UUID_HEX = 32;
const TIME_HEX = 12;
/** Sorts before every UUID that was issued; GREATEST sorts after all of them. */
const LEAST = '0'.repeat(UUID_HEX);
const GREATEST = 'f'.repeat(UUID_HEX);

interface Found extends JobRow {
  /** Whether it is the last one that the page may examine; then it is included whatever its outcome and visibility. */
  is_last: boolean;
}

/** The properties that distinguish one statement from another. */
interface Shape {
  by: 'jobs' | 'documents' | 'references';
  hasLeast: boolean;
  isFiltered: boolean;
  partners: number;
}

/**
 * If all jobs have the same reference, as far as the planner knows, it rates an index without references as equally good, and would read
 * all jobs in search of another one. The comparison excludes nothing, but makes the right index cheaper.
 */
const soughtIn = (column: string) => `AND ${column} = $5 AND (${column}, id) < ($5, $3)`;

const SOUGHT = {
  jobs: '',
  documents: soughtIn('document_sha256'),
  references: soughtIn('reference_sha256'),
} as const;

/**
 * The newest jobs of the viewer's circles (one range of an index each), and among those the ones with that outcome and visibility. The
 * ranges are merged as they are read, and jobs looked up until the page is full: the work is that of the entries that it examines, however
 * large the store is. Parameters: client, organization, the id that all are below, rows; if there are such filters, the document or
 * reference, the least id, outcome and visibility; partners.
 */
function listing({ by, hasLeast, isFiltered, partners }: Shape): Query {
  let parameters = by === 'jobs' ? 4 : 5;
  const parameter = () => `$${++parameters}`;
  const least = hasLeast ? `AND id >= ${parameter()}` : '';
  const [outcome, visibility] = isFiltered ? [`${parameter()}::text`, `${parameter()}::text`] : [];
  const circles = [
    'client_id = $1',
    `organization = $2 AND visibility = 'organization'`,
    `organization = $2 AND visibility = 'partner'`,
    ...Array.from({ length: partners }, () => `organization = ${parameter()} AND visibility = 'partner'`),
  ];
  // With a number here, the planner compares whole ranges, of which only the part that the page needs is read.
  const newest = `ORDER BY id DESC LIMIT ${CANDIDATES_MAX}`;
  const ranges = circles.map(
    (circle) => `(SELECT id FROM jobs WHERE ${circle} ${SOUGHT[by]} AND id < $3 ${least} ${newest})`,
  );
  const isLast = isFiltered ? `row_number() OVER (ORDER BY id DESC) = ${CANDIDATES_MAX}` : 'false';
  // Columns that the filter does not need are not looked up.
  const unless = (kind: string) => (isFiltered ? `${outcome} IS DISTINCT FROM '${kind}'` : 'true');
  const isWanted = `(is_last OR ${outcome} IS NULL OR ${outcome} =
          CASE WHEN leaf_index IS NOT NULL THEN 'sealed' WHEN failure IS NOT NULL THEN 'failed' ELSE 'waiting' END)
        AND (is_last OR ${visibility} IS NULL OR ${visibility} = j.visibility)`;
  // Each step keeps the order of the one before, and OFFSET keeps them apart: no step repeats the look-ups of another.
  const step = 'ORDER BY id DESC OFFSET 0';
  return {
    name: `list_${by}_${hasLeast ? 'since_' : ''}${isFiltered ? 'filtered_' : ''}${partners}`,
    text: `WITH found AS (SELECT DISTINCT id FROM (${ranges.join(' UNION ALL ')}) AS seen ${newest}),
        numbered AS (SELECT id, ${isLast} AS is_last FROM found),
        sealed AS (SELECT id, is_last,
          CASE WHEN ${unless('failed')} THEN (SELECT leaf_index FROM leaves WHERE job_id = numbered.id) END AS leaf_index
          FROM numbered ${step}),
        ended AS (SELECT id, is_last, leaf_index,
          CASE WHEN leaf_index IS NULL AND ${unless('sealed')} THEN (SELECT record FROM failures WHERE job_id = sealed.id) END AS failure
          FROM sealed ${step})
      SELECT j.id, j.record, ${CONTENT}, leaf_index, failure, is_last
      FROM ended CROSS JOIN LATERAL (SELECT id, visibility, record FROM jobs WHERE id = ended.id LIMIT 1) j
      ${isFiltered ? `WHERE ${isWanted}` : ''} ORDER BY ended.id DESC LIMIT $4`,
  };
}

const listings = new Map<string, Query>();

/** The statement of that shape; its text is made once. */
function listingOf(shape: Shape): Query {
  const key = Object.values(shape).join(' ');
  const known = listings.get(key) ?? listing(shape);
  listings.set(key, known);
  return known;
}

export async function findJobs(database: Database, query: JobQuery): Promise<JobPage> {
  const { viewer, outcome, visibility } = query;
  const limit = Math.min(query.limit, CANDIDATES_MAX - 1); // One more is read, to know whether there is one.
  const [least, below] = bounds(query);
  const [by, ...sought] = lookupOf(query);
  const isFiltered = outcome !== undefined || visibility !== undefined;
  const partners = partnersOf(viewer);
  const shape = { by, hasLeast: least !== undefined, isFiltered, partners: partners.length };
  const rows = await database.listing<Found>(viewer.clientId, listingOf(shape), [
    viewer.clientId,
    viewer.organization,
    below,
    limit + 1,
    ...sought,
    ...(least === undefined ? [] : [least]),
    ...(isFiltered ? [outcome ?? null, visibility ?? null] : []),
    ...partners,
  ]);
  const page = rows.slice(0, limit);
  const records = page
    .map(parseJobRow)
    .filter((record) => matches(query, record) && isOrUnset(outcome, record.outcome?.kind ?? 'waiting'));
  const hasMore = rows.length > limit || rows.at(-1)?.is_last === true;
  const last = page.at(-1);
  return { records, ...(hasMore && last && { next: idOf('job', last.id) }) };
}

/**
 * The partners whose jobs a viewer sees, filled up to a power of two with values that no job has: a statement is prepared for each number
 * of them.
 */
function partnersOf({ organization, partnerOf }: Viewer): (string | null)[] {
  const partners = [...new Set(partnerOf)].filter((partner) => partner !== organization);
  const length = partners.length === 0 ? 0 : 2 ** Math.ceil(Math.log2(partners.length));
  return Array.from({ length }, (_, n) => partners[n] ?? null);
}

/** Looks up by the document or the reference, whichever is named; a second filter is applied to the results. */
function lookupOf({ documentSha256, customerReference }: JobQuery): [Shape['by'], Buffer?] {
  if (documentSha256 !== undefined) return ['documents', Buffer.from(documentSha256, 'hex')];
  const reference = referenceSha256(customerReference);
  return reference === undefined ? ['jobs'] : ['references', reference];
}

/** The smallest id requested, if there is one, and the one all must be below. Nothing is below a malformed one. */
function bounds({ before, createdFrom, createdTo }: JobQuery): [string | undefined, string] {
  let below = GREATEST;
  if (before !== undefined) below = uuidOf('job', before) ?? LEAST;
  if (createdTo !== undefined) {
    const end = idAt(createdTo + ID_SKEW_MS);
    if (end < below) below = end;
  }
  return [createdFrom === undefined ? undefined : idAt(createdFrom - ID_SKEW_MS), below];
}

/** The smallest id of that millisecond (RFC 9562, section 5.7: a UUIDv7 begins with it). */
function idAt(epochMs: number): string {
  const ms = Math.min(Math.max(epochMs, 0), 2 ** 48 - 1);
  return ms.toString(16).padStart(TIME_HEX, '0').padEnd(UUID_HEX, '0');
}
