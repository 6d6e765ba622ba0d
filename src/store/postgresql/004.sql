-- What makes the next API key from one that was replaced. It is not in the record of the key, which fronts read: with it, a key that has ended would
-- tell the one that is valid. Removed when the key has ended.
CREATE TABLE salts (
  key_hash bytea PRIMARY KEY CHECK (length(key_hash) = 32),
  -- When the key ends, in service time.
  ends_at bigint NOT NULL,
  record bytea NOT NULL
);

-- Earlier layouts kept it in the record. A record that is damaged stays as it is.
WITH found AS MATERIALIZED (
  SELECT key_hash, substr(record, 9) AS json FROM credentials
    WHERE substr(record, 1, 8) = substr(sha256(substr(record, 9)), 1, 8) AND position('"successorSalt":"'::bytea IN record) > 0
), split AS MATERIALIZED (
  SELECT key_hash, substring(text FROM '"successorSalt":"([0-9A-Za-z+/=]*)"') AS salt,
    coalesce(substring(text FROM '"serviceEnd":([0-9]{1,15})'), '0') AS ends_at,
    convert_to(regexp_replace(text, ',"successorSalt":"[0-9A-Za-z+/=]*"', ''), 'UTF8') AS json
  FROM found, convert_from(json, 'UTF8') AS text
), kept AS (
  INSERT INTO salts SELECT key_hash, ends_at::bigint, substr(sha256(json), 1, 8) || json
    FROM (SELECT key_hash, ends_at, convert_to(format('{"salt":"%s","endsAt":%s}', salt, ends_at), 'UTF8') FROM split)
      AS one (key_hash, ends_at, json)
)
UPDATE credentials SET record = substr(sha256(split.json), 1, 8) || split.json
  FROM split WHERE credentials.key_hash = split.key_hash;

-- Whether the daemon that seals scans documents for viruses: then a front accepts none that it did not scan.
ALTER TABLE sequencer ADD COLUMN scans boolean NOT NULL DEFAULT false;
