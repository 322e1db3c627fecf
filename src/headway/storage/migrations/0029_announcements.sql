-- When an external engine that dispatches jobs is to hear of a waiting job, by the steady clock: 0 is at once. On Postgres, this is built
-- while other processes work: storage/postgres/migrations/0029_announcements.sql. Jobs that wait without a time (due_at = 2^62) are not
-- announced.
ALTER TABLE jobs ADD COLUMN announce_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX jobs_to_announce ON jobs (announce_at, due_at)
    WHERE state IN ('queued', 'delayed') AND due_at < 4611686018427387904;
