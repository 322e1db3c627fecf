-- When a person deleted a conversation; 0: it is there. A deleted one is hidden and can be restored, until housekeeping deletes its rows.
-- Meanwhile another conversation may take its key, so `key` is then a new UUID, and `former_key` is what it was. On Postgres, this is
-- built while other processes work: storage/postgres/migrations/0031_conversations.sql.
ALTER TABLE conversations ADD COLUMN deleted_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE conversations ADD COLUMN former_key TEXT NOT NULL DEFAULT '';
CREATE INDEX conversations_deleted ON conversations (tenant_id, id) WHERE deleted_at <> 0;
