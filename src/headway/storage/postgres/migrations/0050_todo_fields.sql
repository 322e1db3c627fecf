-- The same as storage/migrations/0050_todo_fields.sql, while other processes work.
ALTER TABLE todos ADD COLUMN IF NOT EXISTS priority BIGINT NOT NULL DEFAULT 2;
ALTER TABLE todos ADD COLUMN IF NOT EXISTS due BIGINT NOT NULL DEFAULT 253402300800000;
ALTER TABLE todos ADD COLUMN IF NOT EXISTS labels TEXT NOT NULL DEFAULT '';
CREATE INDEX CONCURRENTLY todos_next_in_list ON todos (tenant_id, conversation_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;
CREATE INDEX CONCURRENTLY todos_next ON todos (tenant_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;
CREATE INDEX CONCURRENTLY todos_with_labels ON todos (tenant_id, id) WHERE labels <> '';
CREATE INDEX CONCURRENTLY todos_with_due ON todos (tenant_id, due) WHERE due < 253402300800000 AND completed_at = 0;
DROP INDEX CONCURRENTLY IF EXISTS todos_ready_in_list;
DROP INDEX CONCURRENTLY IF EXISTS todos_ready;
