-- Jobs without an outcome that fronts accepted. A front cannot write to `waiting`, whose jobs are sealed as they are; those here are examined
-- first. Removed with the outcome.
CREATE TABLE arrivals (
  job_id uuid PRIMARY KEY REFERENCES jobs
);

-- Why the daemon that seals can seal nothing: the code of the error; empty while it can.
ALTER TABLE sequencer ADD COLUMN obstacle text NOT NULL DEFAULT '';

-- The rows that a front reads and adds have rules (roles.ts), which do not bind the owner of the tables.
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE sources ENABLE ROW LEVEL SECURITY;
ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY;
