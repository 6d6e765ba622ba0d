-- When a front accepted it, by the clock of the database: no front can say another time. Unknown for rows of before.
ALTER TABLE arrivals ADD COLUMN arrived_at timestamptz;
ALTER TABLE arrivals ALTER COLUMN arrived_at SET DEFAULT clock_timestamp();
