import { statements } from './database.ts';

/**
 * Statements that change messages and their counts. Every statement locks the tallies of its endpoints first, in the order of their ids: so
 * the bounds hold, the counts are right, and no two wait for each other.
 */

export const OUTBOX_SQL = statements({
  /** Adds messages to every endpoint that receives that event, as many as its backlog takes; `rest` are the others. */
  tell: `WITH channel AS (
      SELECT id, client_id, $6 - pending AS room FROM endpoints JOIN tallies ON endpoint_id = id
      WHERE client_id = ANY ($2) AND $3 = ANY (told)
      ORDER BY id FOR UPDATE OF tallies
    ), message AS (
      SELECT channel.id AS endpoint_id, job.id AS message, room,
        row_number() OVER (PARTITION BY channel.id ORDER BY place) AS n
      FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS job (id, client_id, place)
      JOIN channel USING (client_id)
    ), queued AS (
      INSERT INTO outbox SELECT endpoint_id, $4, message, $5 FROM message WHERE n <= room
    ), told AS (
      SELECT endpoint_id, count(*) FILTER (WHERE n <= room) AS queued,
        coalesce(array_agg(message ORDER BY n) FILTER (WHERE n > room), '{}') AS rest
      FROM message GROUP BY endpoint_id
    )
    UPDATE tallies SET pending = pending + queued FROM told WHERE tallies.endpoint_id = told.endpoint_id
    RETURNING told.endpoint_id, queued, rest`,
  /** Adds dead letters, up to the limit; those beyond are dropped and counted. Removed endpoints get none. */
  bury: `WITH channel AS (
      SELECT endpoint_id, $6 - dead_letters AS graves FROM tallies JOIN endpoints ON id = endpoint_id
      WHERE endpoint_id = ANY ($1)
      ORDER BY endpoint_id FOR UPDATE OF tallies
    ), letter AS (
      SELECT endpoint_id, message, record, occurred_at,
        row_number() OVER (PARTITION BY endpoint_id ORDER BY place) <= graves AS is_kept
      FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bigint[]) WITH ORDINALITY
        AS letter (endpoint_id, message, record, occurred_at, place)
      JOIN channel USING (endpoint_id)
    ), buried AS (
      INSERT INTO dead_letters SELECT endpoint_id, $5, message, record FROM letter WHERE is_kept
    ), dead AS (
      SELECT endpoint_id, count(*) FILTER (WHERE is_kept) AS kept, count(*) FILTER (WHERE NOT is_kept) AS dropped,
        min(occurred_at) FILTER (WHERE NOT is_kept) AS dropped_from,
        max(occurred_at) FILTER (WHERE NOT is_kept) AS dropped_to
      FROM letter GROUP BY endpoint_id
    )
    UPDATE tallies SET
      dead_letters = dead_letters + kept,
      dropped = tallies.dropped + dead.dropped,
      dropped_from = least(tallies.dropped_from, dead.dropped_from),
      dropped_to = greatest(tallies.dropped_to, dead.dropped_to)
    FROM dead WHERE tallies.endpoint_id = dead.endpoint_id`,
  /**
   * Takes a message out of the backlog and, if it is due again, puts it back. A missing entry is not put back; for a removed endpoint,
   * nothing happens.
   */
  settle: `WITH channel AS (
      SELECT endpoint_id FROM tallies JOIN endpoints ON id = endpoint_id WHERE id = $1 FOR UPDATE OF tallies
    ), gone AS (
      DELETE FROM outbox USING channel
      WHERE outbox.endpoint_id = channel.endpoint_id AND at = $2 AND message = $3 RETURNING at
    ), again AS (
      INSERT INTO outbox SELECT $1, $4, $3, $5 FROM gone WHERE $4::bigint IS NOT NULL RETURNING at
    ), moved AS (
      SELECT (SELECT count(*) FROM gone) AS gone, (SELECT count(*) FROM again) AS again
    )
    UPDATE tallies SET
      pending = pending - gone + again,
      delivered = delivered + CASE WHEN $7::bytea IS NULL THEN 1 ELSE 0 END,
      delivered_at = CASE WHEN $7 IS NULL THEN $6 ELSE delivered_at END,
      failures = failures + CASE WHEN $7 IS NULL THEN 0 ELSE 1 END,
      failure = coalesce($7, failure)
    FROM channel, moved WHERE tallies.endpoint_id = channel.endpoint_id
    RETURNING gone > 0 AS was_there`,
  /** Adds a message to one endpoint, unless its backlog is full. */
  queue_message: `WITH channel AS (
      UPDATE tallies SET pending = pending + 1 WHERE endpoint_id = $1 AND pending < $5 RETURNING endpoint_id
    )
    INSERT INTO outbox SELECT endpoint_id, $2, $3, $4 FROM channel RETURNING at`,
  /** Takes the oldest dead letters of an endpoint, all or those named, as many as its backlog has room for; they count as pending from now on. */
  raise_dead_letters: `WITH channel AS (
      SELECT greatest($3 - pending, 0) AS room FROM tallies WHERE endpoint_id = $1 FOR UPDATE
    ), wanted AS (
      SELECT at, message FROM dead_letters
      WHERE endpoint_id = $1 AND ($2::uuid[] IS NULL OR message = ANY ($2))
      ORDER BY at, message LIMIT (SELECT room FROM channel)
    ), raised AS (
      DELETE FROM dead_letters USING wanted
      WHERE endpoint_id = $1 AND dead_letters.at = wanted.at AND dead_letters.message = wanted.message
      RETURNING wanted.message, record
    ), counted AS (
      UPDATE tallies SET pending = pending + raised, dead_letters = dead_letters - raised
      FROM (SELECT count(*) AS raised FROM raised) AS number WHERE endpoint_id = $1
    )
    SELECT message, record FROM raised`,
  /** Adds messages that already count as pending. */
  queue_messages: `INSERT INTO outbox
    SELECT $1, $2, message, record FROM unnest($3::uuid[], $4::bytea[]) AS raised (message, record)`,
  end_tallies: `DELETE FROM tallies AS ended
    WHERE NOT EXISTS (SELECT FROM endpoints WHERE id = endpoint_id)
      AND NOT EXISTS (SELECT FROM outbox WHERE endpoint_id = ended.endpoint_id)
      AND NOT EXISTS (SELECT FROM dead_letters WHERE endpoint_id = ended.endpoint_id)`,
  take_overdue: takeOld('outbox', 'pending'),
  take_forgotten: takeOld('dead_letters', 'dead_letters'),
  pending: page('outbox'),
  dead_letters: page('dead_letters'),
});

/**
 * Takes, at most `$2`, entries older than `$1`, and all entries of removed endpoints: these keep a tally until all their entries are gone.
 */
function takeOld(table: 'outbox' | 'dead_letters', count: 'pending' | 'dead_letters'): string {
  return `WITH old AS (
      SELECT old.* FROM tallies LEFT JOIN endpoints ON id = endpoint_id CROSS JOIN LATERAL (
        SELECT endpoint_id, at, message FROM ${table}
        WHERE endpoint_id = tallies.endpoint_id AND (id IS NULL OR at < $1)
        ORDER BY at, message LIMIT $2
      ) AS old
      ORDER BY old.endpoint_id, old.at, old.message LIMIT $2 FOR UPDATE OF tallies
    ), taken AS (
      DELETE FROM ${table} AS entry USING old
      WHERE (entry.endpoint_id, entry.at, entry.message) = (old.endpoint_id, old.at, old.message)
      RETURNING entry.*
    ), counted AS (
      UPDATE tallies SET ${count} = ${count} - n
      FROM (SELECT endpoint_id, count(*) AS n FROM taken GROUP BY endpoint_id) AS taken
      WHERE tallies.endpoint_id = taken.endpoint_id
    )
    SELECT endpoint_id, message, record FROM taken`;
}

function page(table: 'outbox' | 'dead_letters'): string {
  return `SELECT at, message, record FROM ${table}
    WHERE endpoint_id = $1 AND (at, message) > ($2, $3) ORDER BY at, message LIMIT $4`;
}
