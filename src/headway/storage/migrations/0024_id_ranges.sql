-- A tenant's ids come from ranges of its own, so they do not show how many rows other tenants have. `id_ranges` has the range that
-- a tenant is using for a kind of row; `id_blocks` has every range that was given out, and is never cleaned: ids are not reused.
-- The ranges of a kind have the same size: 1,000 ids, or 1,000,000 numbers of events. The first one of each kind continues after the rows
-- that exist, so that in an installation with one tenant the ids count 1, 2, 3.
CREATE TABLE id_ranges (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    next BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, kind)
);
CREATE TABLE id_blocks (
    kind TEXT NOT NULL,
    block BIGINT NOT NULL,
    next BIGINT NOT NULL,
    taken BIGINT NOT NULL,
    PRIMARY KEY (kind, block)
);
INSERT INTO id_blocks SELECT 'tokens', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM tokens;
INSERT INTO id_blocks SELECT 'conversations', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM conversations;
INSERT INTO id_blocks SELECT 'todos', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM todos;
INSERT INTO id_blocks SELECT 'messages', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM messages;
INSERT INTO id_blocks SELECT 'memory_entries', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM memory_entries;
INSERT INTO id_blocks SELECT 'notices', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM notices;
INSERT INTO id_blocks SELECT 'schedules', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM schedules;
INSERT INTO id_blocks SELECT 'goals', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM goals;
INSERT INTO id_blocks SELECT 'sub_goals', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM sub_goals;
INSERT INTO id_blocks SELECT 'approvals', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM approvals;
INSERT INTO id_blocks SELECT 'questions', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM questions;
INSERT INTO id_blocks SELECT 'receipts', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM receipts;
INSERT INTO id_blocks SELECT 'steering', COALESCE(MAX(id), 0) / 1000, COALESCE(MAX(id), 0) + 1, 0 FROM steering;
INSERT INTO id_blocks SELECT 'events', COALESCE(MAX(seq), 0) / 1000000, COALESCE(MAX(seq), 0) + 1, 0 FROM events;
