-- How urgent a todo is (0: urgent, 1: high, 2: normal, 3: low), when it is due (epoch milliseconds; 253402300800000: at no time, after
-- all others), and its labels, each between line breaks. Ready todos are ordered by the first two before their position.
ALTER TABLE todos ADD COLUMN priority BIGINT NOT NULL DEFAULT 2;
ALTER TABLE todos ADD COLUMN due BIGINT NOT NULL DEFAULT 253402300800000;
ALTER TABLE todos ADD COLUMN labels TEXT NOT NULL DEFAULT '';
CREATE INDEX todos_next_in_list ON todos (tenant_id, conversation_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;
CREATE INDEX todos_next ON todos (tenant_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;
-- Few todos have labels or a date: lists filtered by them need not read the others.
CREATE INDEX todos_with_labels ON todos (tenant_id, id) WHERE labels <> '';
CREATE INDEX todos_with_due ON todos (tenant_id, due) WHERE due < 253402300800000 AND completed_at = 0;
DROP INDEX todos_ready_in_list;
DROP INDEX todos_ready;
