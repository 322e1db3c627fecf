-- The same as storage/migrations/0029_announcements.sql, while other processes work.
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS announce_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX CONCURRENTLY jobs_to_announce ON jobs (announce_at, due_at)
    WHERE state IN ('queued', 'delayed') AND due_at < 4611686018427387904;
