-- A fork is a copy of a turn up to one of its steps, or of a goal up to an entry of its journal, that continues on its own.
ALTER TABLE turns ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN fork_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE goals ADD COLUMN forked_from BIGINT NOT NULL DEFAULT 0;
ALTER TABLE goals ADD COLUMN fork_at BIGINT NOT NULL DEFAULT 0;

-- The model that a run asks instead of its role's; empty: its role's.
ALTER TABLE runs ADD COLUMN model TEXT NOT NULL DEFAULT '';
-- Whose recorded results answer the run's calls: the id of a run, or goal:ID for all runs of a goal. Empty: its calls are made.
ALTER TABLE runs ADD COLUMN replays TEXT NOT NULL DEFAULT '';
-- 1: the result was recorded by another run, and this run did not make the call.
ALTER TABLE effects ADD COLUMN replayed BIGINT NOT NULL DEFAULT 0;

-- The numbers and UUIDs under which the copied messages of a fork know its todos.
CREATE TABLE todo_copies (
    conversation_id BIGINT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    former_name TEXT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    todo_id BIGINT NOT NULL REFERENCES todos (id) ON DELETE CASCADE,
    PRIMARY KEY (conversation_id, former_name)
);
CREATE INDEX todo_copies_of_todo ON todo_copies (todo_id);
