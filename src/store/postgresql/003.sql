-- The tables of layout 3. Every record is the bytes that encodeRecord makes (a checksum, then JSON): `text` holds neither NUL nor
-- lone surrogates, and callers' strings may. The columns beside a record are what is searched, joined or held by the database itself.
-- A table is filled by INSERT alone where nothing here says otherwise.

-- Identity, service time, the announced batch, what witnesses said, draft and survey of renewals. Rows are replaced.
CREATE TABLE notes (
  name text PRIMARY KEY,
  record bytea NOT NULL
);

-- How often something was changed, by any process. Whoever decides on its newest state locks the row first.
CREATE TABLE revisions (
  name text PRIMARY KEY,
  revision bigint NOT NULL
);
INSERT INTO revisions VALUES ('epochs', 0), ('endpoints', 0), ('trail', 0), ('renewals', 0);

-- The daemon whose turn it is. Whoever takes over raises the fence first: from then on the one before writes nothing more.
CREATE TABLE sequencer (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  -- Of this turn alone: a number could come back with a restored database.
  fence uuid NOT NULL,
  holder text NOT NULL,
  -- Why the daemon that seals can seal nothing: the code of the error; empty while it can.
  obstacle text NOT NULL DEFAULT ''
);
INSERT INTO sequencer VALUES (true, gen_random_uuid(), '');

-- When the daemon whose turn it is gave its last sign of life, and in which session. A front may read it, and hold nothing for which another
-- daemon waits.
CREATE TABLE life (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  fence uuid NOT NULL,
  -- Its process id at the server.
  session integer NOT NULL,
  beaten_at timestamptz NOT NULL
);

-- The newest checkpoint, changed only from the one before (compare and swap).
CREATE TABLE log_head (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  tree_size bigint NOT NULL,
  -- SHA-256 of the signed checkpoint; empty for an empty log.
  checkpoint_sha256 bytea NOT NULL
);
INSERT INTO log_head VALUES (true, 0, '');

CREATE TABLE epochs (
  revision bigint PRIMARY KEY,
  record bytea NOT NULL
);

CREATE TABLE jobs (
  -- A UUIDv7: jobs sort by the time of acceptance. This program never makes the nil UUID, and nobody may.
  id uuid PRIMARY KEY CONSTRAINT id_is_not_nil CHECK (id > '00000000-0000-0000-0000-000000000000'),
  client_id text COLLATE "C" NOT NULL,
  organization text COLLATE "C" NOT NULL,
  visibility text COLLATE "C" NOT NULL,
  document_sha256 bytea NOT NULL,
  -- SHA-256 of the customer reference, so that any string fits.
  reference_sha256 bytea,
  record bytea NOT NULL
);
-- A viewer sees the jobs of the own client, those of the own organization that are not private, and those of partners. Each of these
-- circles is a range of an index, in the order of ids, with and without a document or a reference.
CREATE INDEX jobs_of_client ON jobs (client_id, id);
CREATE INDEX jobs_of_organization ON jobs (organization, visibility, id) WHERE visibility <> 'private';
CREATE INDEX documents_of_client ON jobs (client_id, document_sha256, id);
CREATE INDEX documents_of_organization ON jobs (organization, visibility, document_sha256, id)
  WHERE visibility <> 'private';
CREATE INDEX references_of_client ON jobs (client_id, reference_sha256, id) WHERE reference_sha256 IS NOT NULL;
CREATE INDEX references_of_organization ON jobs (organization, visibility, reference_sha256, id)
  WHERE reference_sha256 IS NOT NULL AND visibility <> 'private';

-- The content of a job from a URL, once it was fetched.
CREATE TABLE contents (
  job_id uuid PRIMARY KEY REFERENCES jobs,
  record bytea NOT NULL
);

-- The URL of a document that is still to be fetched; it may hold secrets. Removed with the content or the failure.
CREATE TABLE sources (
  job_id uuid PRIMARY KEY,
  record bytea NOT NULL
);

-- The key of a copy without metadata, and so the copy. Removed when its time is over.
CREATE TABLE copies (
  job_id uuid PRIMARY KEY,
  record bytea NOT NULL
);

-- Jobs without an outcome. Removed with the outcome.
CREATE TABLE waiting (
  job_id uuid PRIMARY KEY
);

-- Jobs without an outcome that fronts accepted. A front cannot write to `waiting`, whose jobs are sealed as they are; those here are examined
-- first. Removed with the outcome.
CREATE TABLE arrivals (
  job_id uuid PRIMARY KEY REFERENCES jobs,
  -- Which front accepted it, by its login: each is looked at in its turn. No front can say that it was another one.
  accepted_by text NOT NULL DEFAULT session_user
);
CREATE INDEX arrivals_in_turn ON arrivals (accepted_by, job_id);

CREATE TABLE failures (
  job_id uuid PRIMARY KEY REFERENCES jobs,
  record bytea NOT NULL
);

-- Removed when its retention is over; replaced where the job before failed, or its retention is over.
CREATE TABLE idempotency (
  -- SHA-256 of client, operation and key.
  key bytea PRIMARY KEY,
  job_id uuid NOT NULL,
  -- In service time.
  accepted_at bigint NOT NULL,
  record bytea NOT NULL
);
CREATE INDEX idempotency_by_age ON idempotency (accepted_at);

-- Jobs of a client that count against a quota in a window. Counted up with each job; removed when the window is long over.
CREATE TABLE quotas (
  client_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  starts_at bigint NOT NULL,
  ends_at bigint NOT NULL,
  jobs bigint NOT NULL CONSTRAINT jobs_were_counted CHECK (jobs >= 0),
  PRIMARY KEY (client_id, name, starts_at, ends_at)
);
CREATE INDEX quotas_by_end ON quotas (ends_at);

-- Who may not remove a count may not lower it.
CREATE FUNCTION keep_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a count of a quota was to be lowered' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER keep_count BEFORE UPDATE ON quotas FOR EACH ROW
  WHEN (NEW.jobs < OLD.jobs AND NOT has_table_privilege('pdfseal.quotas', 'DELETE')) EXECUTE FUNCTION keep_count();

CREATE TABLE leaves (
  leaf_index bigint PRIMARY KEY,
  job_id uuid NOT NULL UNIQUE REFERENCES jobs,
  data bytea NOT NULL CHECK (length(data) = 64)
);

-- Hash tiles as far as they are filled (C2SP tlog-tiles); those that are not full are replaced.
CREATE TABLE tiles (
  level smallint NOT NULL,
  index bigint NOT NULL,
  hashes bytea NOT NULL,
  PRIMARY KEY (level, index)
);

CREATE TABLE batches (
  tree_size bigint PRIMARY KEY,
  record bytea NOT NULL
);

-- API keys and client certificates. Rows are replaced, and removed when they are forgotten.
CREATE TABLE credentials (
  -- SHA-256 of the key, or of the name of a certificate.
  key_hash bytea PRIMARY KEY CHECK (length(key_hash) = 32),
  record bytea NOT NULL
);

-- The audit trail: numbers from 1, without gaps.
CREATE TABLE trail (
  number bigint PRIMARY KEY CHECK (number > 0),
  record bytea NOT NULL
);

-- Webhook endpoints. Rows are replaced, and removed at once; what belongs to them goes with the sweep.
CREATE TABLE endpoints (
  -- A UUIDv7: endpoints sort by age.
  id uuid PRIMARY KEY,
  client_id text COLLATE "C" NOT NULL,
  -- The events it is told of: none while it is disabled.
  told text[] COLLATE "C" NOT NULL,
  record bytea NOT NULL
);
CREATE INDEX endpoints_of_client ON endpoints (client_id);

-- How an endpoint fares: a row from the moment it is added until its last message is gone. Whoever adds messages locks it first, so that
-- the bounds hold and the counts of messages are right.
CREATE TABLE tallies (
  endpoint_id uuid PRIMARY KEY,
  pending bigint NOT NULL DEFAULT 0,
  dead_letters bigint NOT NULL DEFAULT 0,
  delivered bigint NOT NULL DEFAULT 0,
  failures bigint NOT NULL DEFAULT 0,
  dropped bigint NOT NULL DEFAULT 0,
  dropped_from bigint,
  dropped_to bigint,
  delivered_at bigint,
  -- The record of the last failure.
  failure bytea
);

-- What is still to be sent to an endpoint. Removed when it is delivered or given up.
CREATE TABLE outbox (
  endpoint_id uuid NOT NULL,
  -- When it is due, in service time.
  at bigint NOT NULL,
  -- The UUID of the job it is about, or its own.
  message uuid NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (endpoint_id, at, message)
);

-- What was given up. Removed when it is sent again, or after some time.
CREATE TABLE dead_letters (
  endpoint_id uuid NOT NULL,
  -- When it was given up, in service time.
  at bigint NOT NULL,
  message uuid NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (endpoint_id, at, message)
);

-- Renewals of time-stamps, without gaps.
CREATE TABLE renewals (
  run bigint PRIMARY KEY CHECK (run > 0),
  record bytea NOT NULL
);

-- The tiles of a run, or of the draft of the next one; those of a draft are removed when another run is drafted.
CREATE TABLE renewal_rows (
  run bigint NOT NULL,
  row bigint NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (run, row)
);

-- The rows that a front reads and adds have rules (roles.ts), which do not bind the owner of the tables.
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
