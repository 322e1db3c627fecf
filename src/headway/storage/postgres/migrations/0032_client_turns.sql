-- The same as storage/migrations/0033_client_turns.sql, while other processes work.
ALTER TABLE questions ADD COLUMN IF NOT EXISTS client_call TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN IF NOT EXISTS context TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN IF NOT EXISTS client_tools TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN IF NOT EXISTS fingerprint TEXT NOT NULL DEFAULT '';
CREATE INDEX CONCURRENTLY turns_by_fingerprint ON turns (tenant_id, fingerprint) WHERE fingerprint <> '';
