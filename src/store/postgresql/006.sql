-- By the acceptance key: which node accepted the job, exactly as it waits. Nobody who can only write the database makes one. None where the node
-- has no key, for rows of before, and for jobs of the audit trail, which follow from its records.
ALTER TABLE waiting ADD COLUMN mac bytea CHECK (length(mac) = 40);
ALTER TABLE arrivals ADD COLUMN mac bytea CHECK (length(mac) = 40);

-- The names of the acceptance keys of the daemon that seals: then a front without the first of its own among them accepts no job. Empty while it
-- has none.
ALTER TABLE sequencer ADD COLUMN acceptance_keys text NOT NULL DEFAULT '';
