-- Where a memory entry comes from: the run of the agent that wrote it, or the person who wrote it or last edited it. Entries from
-- before this migration have neither. `revision` counts the edits.
ALTER TABLE memory_entries ADD COLUMN run_id TEXT;
ALTER TABLE memory_entries ADD COLUMN turn_id TEXT;
ALTER TABLE memory_entries ADD COLUMN goal_id BIGINT;
ALTER TABLE memory_entries ADD COLUMN origin_conversation_id BIGINT;
ALTER TABLE memory_entries ADD COLUMN person TEXT NOT NULL DEFAULT '';
ALTER TABLE memory_entries ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
ALTER TABLE memory_entries ADD COLUMN updated_at BIGINT NOT NULL DEFAULT 0;
UPDATE memory_entries SET updated_at = created_at;
CREATE INDEX memory_of_tenant ON memory_entries (tenant_id, id);
