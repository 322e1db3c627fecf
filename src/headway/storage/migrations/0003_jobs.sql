-- The engine room: jobs that keep things running, schedules that start them, and tokens that may throw the switch.

ALTER TABLE tokens ADD COLUMN operator BIGINT NOT NULL DEFAULT 0;

-- What keeps a thing running until it has ended. A run's job has the run's id; whoever owns the job may move the run.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'delayed', 'completed', 'canceled', 'dead')),
    payload TEXT NOT NULL,
    family TEXT NOT NULL DEFAULT '',
    attempts BIGINT NOT NULL DEFAULT 0,
    max_attempts BIGINT NOT NULL,
    errors TEXT NOT NULL DEFAULT '[]',
    result TEXT NOT NULL DEFAULT 'null',
    owner TEXT NOT NULL DEFAULT '',
    due_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX jobs_due ON jobs (due_at, id) WHERE state IN ('queued', 'delayed');
CREATE INDEX jobs_running ON jobs (owner, id) WHERE state = 'running';
CREATE INDEX jobs_of_family ON jobs (family, state) WHERE family <> '';
CREATE INDEX jobs_of_tenant ON jobs (tenant_id, created_at, id);
CREATE INDEX jobs_in_state ON jobs (tenant_id, state, created_at, id);

CREATE TABLE schedules (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    cron TEXT NOT NULL DEFAULT '',
    timezone TEXT NOT NULL DEFAULT 'UTC',
    every_ms BIGINT NOT NULL DEFAULT 0,
    work TEXT NOT NULL,
    paused BIGINT NOT NULL DEFAULT 0,
    next_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL DEFAULT 0,
    last_job TEXT NOT NULL DEFAULT '',
    skipped BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE paused = 0;

