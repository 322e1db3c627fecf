-- A tool call can be proposed: it waits for a person's decision before it starts. SQLite cannot change a CHECK, so the table is
-- built again.
CREATE TABLE effects_with_proposals (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    place BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('proposed', 'started', 'succeeded', 'failed', 'unknown')),
    result TEXT NOT NULL DEFAULT '',
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, n, place)
);
INSERT INTO effects_with_proposals (run_id, n, place, tenant_id, call_id, tool, arguments, state, result, started_at, ended_at)
    SELECT run_id, n, place, tenant_id, call_id, tool, arguments, state, result, started_at, ended_at FROM effects;
DROP TABLE effects;
ALTER TABLE effects_with_proposals RENAME TO effects;

-- The decision about a proposed call. The digest binds it to the exact arguments: only these may run.
CREATE TABLE approvals (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    turn_id TEXT,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    goal_id BIGINT,
    n BIGINT NOT NULL,
    place BIGINT NOT NULL,
    call_id TEXT NOT NULL,
    role TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    digest TEXT NOT NULL,
    why TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('proposed', 'approved', 'rejected', 'expired', 'canceled')),
    reason TEXT NOT NULL DEFAULT '',
    decided_by TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX approvals_of_call ON approvals (run_id, n, place);
CREATE INDEX approvals_of_tenant ON approvals (tenant_id, state, id);

-- A question of an agent to a person. The run waits for the answer.
CREATE TABLE questions (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    turn_id TEXT,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    goal_id BIGINT,
    role TEXT NOT NULL,
    question TEXT NOT NULL,
    choices TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'canceled')),
    answered_by TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    answered_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX questions_of_run ON questions (run_id);
CREATE INDEX questions_of_tenant ON questions (tenant_id, state, id);

-- The number of approvals and questions that the turn's agents wait for.
ALTER TABLE turns ADD COLUMN waiting BIGINT NOT NULL DEFAULT 0;

-- Where a person can answer a notice: the path of a page.
ALTER TABLE notices ADD COLUMN url TEXT NOT NULL DEFAULT '';

-- Messages that people send to a running agent, which reads them at its next step. `unread` counts them.
CREATE TABLE steering (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    content TEXT NOT NULL,
    sender TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    read_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX steering_of_run ON steering (run_id, read_at, id);
ALTER TABLE runs ADD COLUMN unread BIGINT NOT NULL DEFAULT 0;
