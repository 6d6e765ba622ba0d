import { idOf, LEAST_UUID, uuidOf } from '../ids.ts';
import { CANDIDATES_MAX, ID_SKEW_MS, matches } from '../jobRules.ts';
import type { JobPage, JobQuery, Viewer } from '../store.ts';
import type { Database, Query } from './database.ts';
import { JOB_COLUMNS, type JobRow, parseJobRow, referenceSha256 } from './jobRows.ts';

/** Sorts after every UUID that was given out. */
const GREATEST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
const TIME_HEX = 12;

interface Found extends JobRow {
  /** How many jobs were looked at, and the oldest of them. */
  looked: number;
  oldest: string;
}

/**
 * The newest jobs of the viewer's circles (one range of an index each), and of those the ones with that outcome. The work is that of
 * `$6` entries of an index for each circle, however large the store is. Parameters: client, organizations and visibilities of the other
 * circles, the bounds of the id, candidates per circle, outcome, visibility, rows, and what the document or reference is.
 */
function listing(name: string, filter: string): Query {
  const range = `AND id < $4 AND id >= $5 ${filter} ORDER BY id DESC LIMIT $6`;
  return {
    name: `list_${name}`,
    text: `WITH found AS MATERIALIZED (
        SELECT id FROM (
          (SELECT id FROM jobs WHERE client_id = $1 ${range})
          UNION
          SELECT other.id FROM unnest($2::text[], $3::text[]) AS circle (organization, visibility)
          CROSS JOIN LATERAL (
            SELECT id FROM jobs WHERE organization = circle.organization AND visibility = circle.visibility
              AND visibility <> 'private' ${range}
          ) other
        ) seen ORDER BY id DESC LIMIT $6),
      looked AS (SELECT count(*) AS looked, (SELECT id FROM found ORDER BY id LIMIT 1) AS oldest FROM found)
      SELECT ${JOB_COLUMNS}, looked, oldest
      FROM looked LEFT JOIN (found JOIN jobs j USING (id)) ON
        ($7::text IS NULL OR $7 = CASE WHEN (SELECT leaf_index FROM leaves WHERE job_id = j.id) IS NOT NULL THEN 'sealed'
          WHEN (SELECT record FROM failures WHERE job_id = j.id) IS NOT NULL THEN 'failed' ELSE 'waiting' END)
        AND ($8::text IS NULL OR $8 = j.visibility)
      ORDER BY j.id DESC LIMIT $9`,
  };
}

const ALL = listing('jobs', '');
const BY_DOCUMENT = listing('documents', 'AND document_sha256 = $10');
const BY_REFERENCE = listing('references', 'AND reference_sha256 = $10');

/** So many candidates for each job of a page are enough for most filters; where they are not, all are looked at that a page may look at. */
const CANDIDATES_PER_JOB = 4;

export async function findJobs(database: Database, query: JobQuery): Promise<JobPage> {
  const { limit, outcome, visibility } = query;
  const isFiltered = outcome !== undefined || visibility !== undefined;
  if (!isFiltered) return lookAt(database, query, limit + 1);
  const few = CANDIDATES_PER_JOB * (limit + 1);
  if (few < CANDIDATES_MAX) {
    const page = await lookAt(database, query, few);
    if (page.records.length === limit || page.next === undefined) return page;
  }
  return lookAt(database, query, CANDIDATES_MAX);
}

/** A page of the newest so many jobs that the viewer sees. */
async function lookAt(database: Database, query: JobQuery, candidates: number): Promise<JobPage> {
  const { viewer, limit, outcome, visibility } = query;
  const [least, below] = bounds(query);
  const circles = circlesOf(viewer);
  const [statement, ...sought] = lookupOf(query);
  const rows = await database.listing<Found>(viewer.clientId, statement, [
    viewer.clientId,
    circles.map(([organization]) => organization),
    circles.map(([, visibility]) => visibility),
    below,
    least,
    candidates,
    outcome ?? null,
    visibility ?? null,
    limit + 1,
    ...sought,
  ]);
  const [{ looked, oldest } = { looked: 0, oldest: LEAST_UUID }] = rows;
  const found = rows.filter(({ id }) => id !== null);
  const page = found.slice(0, limit);
  const records = page.map(parseJobRow).filter((record) => matches(query, record));
  const last = found.length > limit ? page.at(-1)?.id : looked >= candidates ? oldest : undefined;
  return { records, ...(last !== undefined && { next: idOf('job', last) }) };
}

/** Whose jobs a viewer sees beside the own ones. */
function circlesOf({ organization, partnerOf }: Viewer): [organization: string, visibility: string][] {
  const own = ['organization', 'partner'].map((visibility): [string, string] => [organization, visibility]);
  const partners = [...new Set(partnerOf)].filter((partner) => partner !== organization);
  return [...own, ...partners.map((partner): [string, string] => [partner, 'partner'])];
}

/** By the document or the reference, whichever is named; another filter beside it is applied to what is found. */
function lookupOf({ documentSha256, customerReference }: JobQuery): [Query, Buffer?] {
  if (documentSha256 !== undefined) return [BY_DOCUMENT, Buffer.from(documentSha256, 'hex')];
  const reference = referenceSha256(customerReference);
  return reference === undefined ? [ALL] : [BY_REFERENCE, reference];
}

/** The smallest id asked for, and the one all must be below. Nothing is below a malformed one. */
function bounds({ before, createdFrom = 0, createdTo }: JobQuery): [string, string] {
  const below = [GREATEST];
  if (before !== undefined) below.push(dashed(uuidOf('job', before) ?? ''.padEnd(32, '0')));
  if (createdTo !== undefined) below.push(idAt(createdTo + ID_SKEW_MS));
  const [least = GREATEST] = below.sort();
  return [idAt(createdFrom - ID_SKEW_MS), least];
}

/** The smallest id of that millisecond (RFC 9562, section 5.7: a UUIDv7 begins with it). */
function idAt(epochMs: number): string {
  const ms = Math.min(Math.max(epochMs, 0), 2 ** 48 - 1);
  return dashed(ms.toString(16).padStart(TIME_HEX, '0').padEnd(32, '0'));
}

function dashed(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
