-- Goals that run by themselves: the graph of their sub-goals, the journal, and the stretches in which a plan was pursued.

CREATE TABLE goals (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    source TEXT NOT NULL CHECK (source IN ('operator-injected', 'agent-discovered')),
    description TEXT NOT NULL,
    success_criteria TEXT NOT NULL DEFAULT '',
    evidence TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed', 'abandoned')),
    priority BIGINT NOT NULL DEFAULT 50,
    pause_kind TEXT NOT NULL DEFAULT '',
    pause_reason TEXT NOT NULL DEFAULT '',
    replan_count BIGINT NOT NULL DEFAULT 0,
    plan_no BIGINT NOT NULL DEFAULT 0,
    replan_why TEXT NOT NULL DEFAULT '',
    run_id TEXT,
    budget BIGINT NOT NULL DEFAULT 0,
    deadline_at BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    journaled BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT goal_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'abandoned')))
);
CREATE INDEX goals_of_tenant ON goals (tenant_id, id);
CREATE INDEX goals_in_status ON goals (tenant_id, status, id);

CREATE TABLE sub_goals (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    goal_id BIGINT NOT NULL REFERENCES goals (id) ON DELETE CASCADE,
    plan_no BIGINT NOT NULL,
    description TEXT NOT NULL,
    expected_outcome TEXT NOT NULL,
    kind TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('inline', 'agent')),
    role TEXT NOT NULL,
    priority BIGINT NOT NULL,
    expected_value DOUBLE PRECISION NOT NULL,
    cost_limit BIGINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in-progress', 'completed', 'failed', 'skipped')),
    outcome TEXT,
    reason TEXT NOT NULL DEFAULT '',
    divergence TEXT CHECK (divergence IN ('none', 'minor', 'major')),
    divergence_reason TEXT NOT NULL DEFAULT '',
    judged_under BIGINT NOT NULL DEFAULT 0,
    run_id TEXT,
    cost BIGINT NOT NULL DEFAULT 0,
    interrupted BIGINT NOT NULL DEFAULT 0,
    interventions BIGINT NOT NULL DEFAULT 0,
    checks BIGINT NOT NULL DEFAULT 0,
    checked_at BIGINT NOT NULL DEFAULT 0,
    progress_at BIGINT NOT NULL DEFAULT 0,
    progress_steps BIGINT NOT NULL DEFAULT 0,
    progress_effects BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL DEFAULT 0,
    ended_at BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT sub_goal_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'failed', 'skipped')))
);
CREATE INDEX sub_goals_of_goal ON sub_goals (goal_id, id);
-- What a tenant's plans learn from: the newest that were tried.
CREATE INDEX sub_goals_tried ON sub_goals (tenant_id, ended_at) WHERE status IN ('completed', 'failed');

CREATE TABLE sub_goal_edges (
    sub_goal_id BIGINT NOT NULL REFERENCES sub_goals (id) ON DELETE CASCADE,
    depends_on BIGINT NOT NULL REFERENCES sub_goals (id) ON DELETE CASCADE,
    PRIMARY KEY (sub_goal_id, depends_on)
);

-- Append-only, a row per entry.
CREATE TABLE journal (
    goal_id BIGINT NOT NULL REFERENCES goals (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (goal_id, n)
);

-- A stretch of time in which one plan was made and pursued. One that is active has a process behind it, or had.
CREATE TABLE planning_cycles (
    id {id},
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    goal_id BIGINT NOT NULL REFERENCES goals (id) ON DELETE CASCADE,
    status TEXT NOT NULL CHECK (status IN ('active', 'completed', 'interrupted')),
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX planning_cycles_one_at_a_time ON planning_cycles (goal_id) WHERE status = 'active';

-- A run may belong to a goal. Its main agent works on one sub-goal at a time, from that message of its transcript on.
ALTER TABLE runs ADD COLUMN goal_id BIGINT REFERENCES goals (id) ON DELETE CASCADE;
ALTER TABLE runs ADD COLUMN sub_goal_id BIGINT;
ALTER TABLE runs ADD COLUMN begins_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN hint TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_of_goal ON runs (goal_id) WHERE goal_id IS NOT NULL;
CREATE INDEX runs_of_sub_goal ON runs (sub_goal_id) WHERE sub_goal_id IS NOT NULL;

ALTER TABLE notices ADD COLUMN goal_id BIGINT REFERENCES goals (id) ON DELETE CASCADE;

-- Housekeeping looks for what ended long ago.
CREATE INDEX jobs_ended ON jobs (updated_at) WHERE state IN ('completed', 'canceled');
