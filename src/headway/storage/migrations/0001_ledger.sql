-- The ground floor: tenants, conversations, turns, todos and the log of what happened to them.
-- One text for both databases; {id} is the dialect's self-numbering primary key. Times are epoch milliseconds.

CREATE TABLE tenants (
    id {id},
    name TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
);

CREATE TABLE tokens (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    hash TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    revoked_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX tokens_of_tenant ON tokens (tenant_id, id);

CREATE TABLE conversations (
    id {id},
    uuid TEXT NOT NULL UNIQUE,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (tenant_id, key)
);
CREATE INDEX conversations_of_tenant ON conversations (tenant_id, id);

CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    request TEXT NOT NULL DEFAULT '',
    mode TEXT NOT NULL DEFAULT 'plan',
    status TEXT NOT NULL,
    iterations BIGINT NOT NULL DEFAULT 0,
    iteration_limit BIGINT NOT NULL DEFAULT 10,
    resubmissions BIGINT NOT NULL DEFAULT 0,
    outcome TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX turns_of_conversation ON turns (tenant_id, conversation_id, started_at);

-- conversation_id 0 is the tenant-wide list; a row with a turn_id is part of that turn's plan.
-- blocked_by counts the dependencies that have not ended, so that "ready" is an index, not a search.
CREATE TABLE todos (
    id {id},
    uuid TEXT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    turn_id TEXT REFERENCES turns (id) ON DELETE CASCADE,
    agent_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    description TEXT NOT NULL,
    completion_criteria TEXT NOT NULL,
    agent_type TEXT,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'canceled')),
    position BIGINT NOT NULL,
    outcome TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL DEFAULT 0,
    completed_at BIGINT NOT NULL DEFAULT 0,
    blocked_by BIGINT NOT NULL DEFAULT 0 CHECK (blocked_by >= 0),
    UNIQUE (tenant_id, uuid),
    CONSTRAINT ended_means_completed_at CHECK ((completed_at <> 0) = (status IN ('completed', 'canceled')))
);
-- Open rows are read in order of position, ended ones by most recent: an index each, per list and per tenant.
CREATE INDEX todos_open_in_list ON todos (tenant_id, conversation_id, status, position, id) WHERE completed_at = 0;
CREATE INDEX todos_open ON todos (tenant_id, status, position, id) WHERE completed_at = 0;
CREATE INDEX todos_ended_in_list ON todos (tenant_id, conversation_id, completed_at, id) WHERE completed_at <> 0;
CREATE INDEX todos_ended ON todos (tenant_id, completed_at, id) WHERE completed_at <> 0;
CREATE INDEX todos_of_turn ON todos (tenant_id, turn_id, status, position, id) WHERE turn_id IS NOT NULL;
CREATE INDEX todos_ready_in_list ON todos (tenant_id, conversation_id, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;
CREATE INDEX todos_ready ON todos (tenant_id, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;

CREATE TABLE todo_edges (
    todo_id BIGINT NOT NULL REFERENCES todos (id) ON DELETE CASCADE,
    depends_on BIGINT NOT NULL REFERENCES todos (id) ON DELETE CASCADE,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    PRIMARY KEY (todo_id, depends_on)
);
CREATE INDEX todo_edges_back ON todo_edges (depends_on, todo_id);

-- What is kept so that nothing has to be counted: the next free position and the rows by status, per list.
CREATE TABLE todo_lists (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    turn_id TEXT NOT NULL DEFAULT '',
    next_position BIGINT NOT NULL,
    pending BIGINT NOT NULL DEFAULT 0,
    in_progress BIGINT NOT NULL DEFAULT 0,
    completed BIGINT NOT NULL DEFAULT 0,
    canceled BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, conversation_id, turn_id)
);

CREATE TABLE leases (
    todo_id BIGINT PRIMARY KEY REFERENCES todos (id) ON DELETE CASCADE,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    agent_id TEXT NOT NULL,
    token TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX leases_by_expiry ON leases (tenant_id, expires_at);

CREATE TABLE events (
    seq {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    turn_id TEXT,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX events_of_tenant ON events (tenant_id, seq);
CREATE INDEX events_of_conversation ON events (tenant_id, conversation_id, seq);

-- Answers given to POSTs that carried an Idempotency-Key, written in the transaction of what they answer.
CREATE TABLE idempotency_keys (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    status BIGINT NOT NULL DEFAULT 0,
    answer TEXT NOT NULL DEFAULT '',
    at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, route, key)
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (at);
