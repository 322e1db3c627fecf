-- The same as storage/migrations/0031_conversations.sql, while other processes work.
ALTER TABLE conversations ADD COLUMN IF NOT EXISTS deleted_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN IF NOT EXISTS former_key TEXT NOT NULL DEFAULT '';
CREATE INDEX CONCURRENTLY conversations_deleted ON conversations (tenant_id, id) WHERE deleted_at <> 0;
