-- Which front accepted it, by its login: each is looked at in its turn. No front can say that it was another one.
ALTER TABLE arrivals ADD COLUMN accepted_by text NOT NULL DEFAULT session_user;
CREATE INDEX arrivals_in_turn ON arrivals (accepted_by, job_id);

-- Ids and counts that this program never makes, and nobody may. Rows of before were not made by others.
ALTER TABLE jobs ADD CONSTRAINT id_is_not_nil CHECK (id > '00000000-0000-0000-0000-000000000000') NOT VALID;
ALTER TABLE quotas ADD CONSTRAINT jobs_were_counted CHECK (jobs >= 0) NOT VALID;

-- Who may not remove a count may not lower it.
CREATE FUNCTION keep_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a count of a quota was to be lowered' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER keep_count BEFORE UPDATE ON quotas FOR EACH ROW
  WHEN (NEW.jobs < OLD.jobs AND NOT has_table_privilege('pdfseal.quotas', 'DELETE')) EXECUTE FUNCTION keep_count();

-- When the daemon whose turn it is gave its last sign of life, and in which session. A front may read it, and hold nothing for which another
-- daemon waits.
CREATE TABLE life (
  single boolean PRIMARY KEY DEFAULT true CHECK (single),
  fence uuid NOT NULL,
  -- Its process id at the server.
  session integer NOT NULL,
  beaten_at timestamptz NOT NULL
);
