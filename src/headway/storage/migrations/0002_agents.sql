-- Agents at work: runs with their transcripts and effects, what they cost, what they remember, and who drives them.
-- Money is counted in billionths of a dollar.

-- How far a turn got is told by the run that answers it.
ALTER TABLE turns DROP COLUMN iterations;
ALTER TABLE turns DROP COLUMN iteration_limit;
ALTER TABLE turns DROP COLUMN resubmissions;

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    turn_id TEXT REFERENCES turns (id) ON DELETE CASCADE,
    parent_run_id TEXT REFERENCES runs (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    task TEXT NOT NULL,
    depth BIGINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'canceled')),
    result TEXT,
    iterations BIGINT NOT NULL DEFAULT 0,
    iteration_limit BIGINT NOT NULL,
    resubmissions BIGINT NOT NULL DEFAULT 0,
    refusals BIGINT NOT NULL DEFAULT 0,
    plan_mark TEXT NOT NULL DEFAULT '',
    reserved BIGINT NOT NULL DEFAULT 0,
    cost BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT run_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'failed', 'canceled')))
);
-- A conversation has one running turn at a time, whoever asks at the same moment.
CREATE UNIQUE INDEX runs_one_turn_at_a_time ON runs (tenant_id, conversation_id)
    WHERE turn_id IS NOT NULL AND parent_run_id IS NULL AND ended_at = 0;
CREATE INDEX runs_of_turn ON runs (tenant_id, turn_id);
CREATE INDEX runs_of_tenant ON runs (tenant_id, created_at, id);
CREATE INDEX runs_of_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;

-- What was said, in order. A row that is not sent any more was replaced by what came after it.
CREATE TABLE transcript (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    message TEXT NOT NULL,
    sent BIGINT NOT NULL DEFAULT 1,
    at BIGINT NOT NULL,
    PRIMARY KEY (run_id, n)
);

-- Tool calls: the one at this place in message n of the transcript.
CREATE TABLE effects (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    place BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'succeeded', 'failed', 'unknown')),
    result TEXT NOT NULL DEFAULT '',
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, n, place)
);

-- What a person reads of a conversation.
CREATE TABLE messages (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX messages_of_conversation ON messages (tenant_id, conversation_id, id);

CREATE TABLE model_calls (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    tier TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX model_calls_of_tenant ON model_calls (tenant_id, at);
CREATE INDEX model_calls_of_run ON model_calls (run_id);

-- A tenant's cost pool, kept so that nothing has to be added up: spent since counted_from, and reserved by calls on their way.
-- A ceiling of the tenant's own takes the place of the installation's.
CREATE TABLE pools (
    tenant_id BIGINT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    ceiling BIGINT,
    spent BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    counted_from BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE memory_entries (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX memory_of_conversation ON memory_entries (tenant_id, conversation_id, id);

-- What the operator was told.
CREATE TABLE notices (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    turn_id TEXT REFERENCES turns (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX notices_of_tenant ON notices (tenant_id, id);

-- The kill switch, for the whole installation. The row that was not lifted is the one in force.
CREATE TABLE halts (
    id {id},
    why TEXT NOT NULL,
    since BIGINT NOT NULL,
    lifted_at BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX halts_in_force ON halts (lifted_at) WHERE lifted_at = 0;

-- The processes that drive runs, and when each was last heard of.
CREATE TABLE worker_leases (
    executor_id TEXT PRIMARY KEY,
    beat_at BIGINT NOT NULL
);
