-- What must hold before a todo, a sub-goal or a goal counts as done: a JSON list of checks, or nothing. `proof` says what is known.
ALTER TABLE todos ADD COLUMN checks TEXT NOT NULL DEFAULT '';
ALTER TABLE todos ADD COLUMN proof TEXT NOT NULL DEFAULT 'none';
ALTER TABLE sub_goals RENAME COLUMN checks TO check_ins;
ALTER TABLE sub_goals ADD COLUMN checks TEXT NOT NULL DEFAULT '';
ALTER TABLE sub_goals ADD COLUMN proof TEXT NOT NULL DEFAULT 'none';
ALTER TABLE goals ADD COLUMN checks TEXT NOT NULL DEFAULT '';
ALTER TABLE goals ADD COLUMN proof TEXT NOT NULL DEFAULT 'none';

-- One run of the checks, or a person's decision to complete the work without them. `seq` is the last event before it.
CREATE TABLE receipts (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    subject TEXT NOT NULL CHECK (subject IN ('todo', 'sub_goal', 'goal')),
    subject_id BIGINT NOT NULL,
    ok BIGINT NOT NULL,
    results TEXT NOT NULL,
    versions TEXT NOT NULL,
    override TEXT NOT NULL DEFAULT '',
    made_by TEXT NOT NULL,
    run_id TEXT,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX receipts_of_subject ON receipts (tenant_id, subject, subject_id, id);
CREATE INDEX todos_with_checks ON todos (tenant_id, id) WHERE checks <> '';
