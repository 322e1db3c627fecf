-- Written by scripts/write_schema.py from the migrations: `make schema`. Changes made here are lost.

CREATE TABLE tenants (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
, log_pruned BIGINT NOT NULL DEFAULT 0, log_pruned_at BIGINT NOT NULL DEFAULT 0);

CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    hash TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    revoked_at BIGINT NOT NULL DEFAULT 0
, scopes TEXT NOT NULL DEFAULT 'read,write', session_of BIGINT NOT NULL DEFAULT 0, replaced_by BIGINT NOT NULL DEFAULT 0);

CREATE INDEX tokens_of_tenant ON tokens (tenant_id, id);

CREATE TABLE conversations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL, deleted_at BIGINT NOT NULL DEFAULT 0, former_key TEXT NOT NULL DEFAULT '', folder TEXT NOT NULL DEFAULT '', client TEXT NOT NULL DEFAULT '', client_session TEXT NOT NULL DEFAULT '',
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
    outcome TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0
, waiting BIGINT NOT NULL DEFAULT 0, forked_from TEXT NOT NULL DEFAULT '', fork_at BIGINT NOT NULL DEFAULT 0, context TEXT NOT NULL DEFAULT '', client_tools TEXT NOT NULL DEFAULT '', fingerprint TEXT NOT NULL DEFAULT '', client_agent TEXT NOT NULL DEFAULT '', refusals BIGINT NOT NULL DEFAULT 0, progress BIGINT NOT NULL DEFAULT 0);

CREATE INDEX turns_of_conversation ON turns (tenant_id, conversation_id, started_at);

CREATE TABLE todos (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    blocked_by BIGINT NOT NULL DEFAULT 0 CHECK (blocked_by >= 0), dequeued BIGINT NOT NULL DEFAULT 0, checks TEXT NOT NULL DEFAULT '', proof TEXT NOT NULL DEFAULT 'none', completed_by TEXT, priority BIGINT NOT NULL DEFAULT 2, due BIGINT NOT NULL DEFAULT 253402300800000, labels TEXT NOT NULL DEFAULT '',
    UNIQUE (tenant_id, uuid),
    CONSTRAINT ended_means_completed_at CHECK ((completed_at <> 0) = (status IN ('completed', 'canceled')))
);

CREATE INDEX todos_open_in_list ON todos (tenant_id, conversation_id, status, position, id) WHERE completed_at = 0;

CREATE INDEX todos_open ON todos (tenant_id, status, position, id) WHERE completed_at = 0;

CREATE INDEX todos_ended_in_list ON todos (tenant_id, conversation_id, completed_at, id) WHERE completed_at <> 0;

CREATE INDEX todos_ended ON todos (tenant_id, completed_at, id) WHERE completed_at <> 0;

CREATE INDEX todos_of_turn ON todos (tenant_id, turn_id, status, position, id) WHERE turn_id IS NOT NULL;

CREATE TABLE todo_edges (
    todo_id BIGINT NOT NULL REFERENCES todos (id) ON DELETE CASCADE,
    depends_on BIGINT NOT NULL REFERENCES todos (id) ON DELETE CASCADE,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    PRIMARY KEY (todo_id, depends_on)
);

CREATE INDEX todo_edges_back ON todo_edges (depends_on, todo_id);

CREATE TABLE todo_lists (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    turn_id TEXT NOT NULL DEFAULT '',
    next_position BIGINT NOT NULL,
    pending BIGINT NOT NULL DEFAULT 0,
    in_progress BIGINT NOT NULL DEFAULT 0,
    completed BIGINT NOT NULL DEFAULT 0,
    canceled BIGINT NOT NULL DEFAULT 0, plan_source TEXT,
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
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    turn_id TEXT,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at BIGINT NOT NULL
, subject TEXT, actor TEXT NOT NULL DEFAULT '');

CREATE INDEX events_of_tenant ON events (tenant_id, seq);

CREATE INDEX events_of_conversation ON events (tenant_id, conversation_id, seq);

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
    ended_at BIGINT NOT NULL DEFAULT 0, goal_id BIGINT REFERENCES goals (id) ON DELETE CASCADE, sub_goal_id BIGINT, begins_at BIGINT NOT NULL DEFAULT 0, hint TEXT NOT NULL DEFAULT '', unread BIGINT NOT NULL DEFAULT 0, repository TEXT NOT NULL DEFAULT '', base TEXT NOT NULL DEFAULT '', changes TEXT NOT NULL DEFAULT '', diff TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', replays TEXT NOT NULL DEFAULT '', pruned_at BIGINT NOT NULL DEFAULT 0, added_items BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT run_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'failed', 'canceled')))
);

CREATE UNIQUE INDEX runs_one_turn_at_a_time ON runs (tenant_id, conversation_id)
    WHERE turn_id IS NOT NULL AND parent_run_id IS NULL AND ended_at = 0;

CREATE INDEX runs_of_turn ON runs (tenant_id, turn_id);

CREATE INDEX runs_of_tenant ON runs (tenant_id, created_at, id);

CREATE INDEX runs_of_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;

CREATE TABLE transcript (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    message TEXT NOT NULL,
    sent BIGINT NOT NULL DEFAULT 1,
    at BIGINT NOT NULL,
    PRIMARY KEY (run_id, n)
);

CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL
, kind TEXT NOT NULL DEFAULT 'text');

CREATE INDEX messages_of_conversation ON messages (tenant_id, conversation_id, id);

CREATE TABLE model_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    tier TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    at BIGINT NOT NULL
, cached_tokens BIGINT NOT NULL DEFAULT 0, cache_write_tokens BIGINT NOT NULL DEFAULT 0);

CREATE INDEX model_calls_of_tenant ON model_calls (tenant_id, at);

CREATE INDEX model_calls_of_run ON model_calls (run_id);

CREATE TABLE pools (
    tenant_id BIGINT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    ceiling BIGINT,
    spent BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    counted_from BIGINT NOT NULL DEFAULT 0
, operator_ceiling BIGINT);

CREATE TABLE memory_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL
, run_id TEXT, turn_id TEXT, goal_id BIGINT, origin_conversation_id BIGINT, person TEXT NOT NULL DEFAULT '', revision BIGINT NOT NULL DEFAULT 0, updated_at BIGINT NOT NULL DEFAULT 0);

CREATE INDEX memory_of_conversation ON memory_entries (tenant_id, conversation_id, id);

CREATE TABLE notices (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    turn_id TEXT REFERENCES turns (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL
, goal_id BIGINT REFERENCES goals (id) ON DELETE CASCADE, url TEXT NOT NULL DEFAULT '', done_at BIGINT NOT NULL DEFAULT 0);

CREATE INDEX notices_of_tenant ON notices (tenant_id, id);

CREATE TABLE halts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    why TEXT NOT NULL,
    since BIGINT NOT NULL,
    lifted_at BIGINT NOT NULL DEFAULT 0
, halted_by TEXT NOT NULL DEFAULT '', lifted_by TEXT NOT NULL DEFAULT '');

CREATE UNIQUE INDEX halts_in_force ON halts (lifted_at) WHERE lifted_at = 0;

CREATE TABLE worker_leases (
    executor_id TEXT PRIMARY KEY,
    beat_at BIGINT NOT NULL
, session_lock BIGINT NOT NULL DEFAULT 0, started_at BIGINT NOT NULL DEFAULT 0, slots BIGINT NOT NULL DEFAULT 0, version TEXT NOT NULL DEFAULT '');

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
, announce_at BIGINT NOT NULL DEFAULT 0);

CREATE INDEX jobs_due ON jobs (due_at, id) WHERE state IN ('queued', 'delayed');

CREATE INDEX jobs_running ON jobs (owner, id) WHERE state = 'running';

CREATE INDEX jobs_of_family ON jobs (family, state) WHERE family <> '';

CREATE INDEX jobs_of_tenant ON jobs (tenant_id, created_at, id);

CREATE INDEX jobs_in_state ON jobs (tenant_id, state, created_at, id);

CREATE TABLE schedules (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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

CREATE TABLE goals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    journaled BIGINT NOT NULL DEFAULT 0, pending BIGINT NOT NULL DEFAULT 0, in_progress BIGINT NOT NULL DEFAULT 0, completed BIGINT NOT NULL DEFAULT 0, failed BIGINT NOT NULL DEFAULT 0, skipped BIGINT NOT NULL DEFAULT 0, repository TEXT NOT NULL DEFAULT '', checks TEXT NOT NULL DEFAULT '', proof TEXT NOT NULL DEFAULT 'none', forked_from BIGINT NOT NULL DEFAULT 0, fork_at BIGINT NOT NULL DEFAULT 0, in_plan BIGINT NOT NULL DEFAULT 0, done BIGINT NOT NULL DEFAULT 0, repeat_of BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT goal_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'abandoned')))
);

CREATE INDEX goals_of_tenant ON goals (tenant_id, id);

CREATE INDEX goals_in_status ON goals (tenant_id, status, id);

CREATE TABLE sub_goals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    check_ins BIGINT NOT NULL DEFAULT 0,
    checked_at BIGINT NOT NULL DEFAULT 0,
    progress_at BIGINT NOT NULL DEFAULT 0,
    progress_steps BIGINT NOT NULL DEFAULT 0,
    progress_effects BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL DEFAULT 0,
    ended_at BIGINT NOT NULL DEFAULT 0, waits_for BIGINT NOT NULL DEFAULT 0, waits_in_vain BIGINT NOT NULL DEFAULT 0, checks TEXT NOT NULL DEFAULT '', proof TEXT NOT NULL DEFAULT 'none', title TEXT NOT NULL DEFAULT '', superseded_by BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT sub_goal_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'failed', 'skipped')))
);

CREATE INDEX sub_goals_of_goal ON sub_goals (goal_id, id);

CREATE INDEX sub_goals_tried ON sub_goals (tenant_id, ended_at) WHERE status IN ('completed', 'failed');

CREATE TABLE sub_goal_edges (
    sub_goal_id BIGINT NOT NULL REFERENCES sub_goals (id) ON DELETE CASCADE,
    depends_on BIGINT NOT NULL REFERENCES sub_goals (id) ON DELETE CASCADE, tenant_id BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (sub_goal_id, depends_on)
);

CREATE TABLE journal (
    goal_id BIGINT NOT NULL REFERENCES goals (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (goal_id, n)
);

CREATE TABLE planning_cycles (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    goal_id BIGINT NOT NULL REFERENCES goals (id) ON DELETE CASCADE,
    status TEXT NOT NULL CHECK (status IN ('active', 'completed', 'interrupted')),
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX planning_cycles_one_at_a_time ON planning_cycles (goal_id) WHERE status = 'active';

CREATE INDEX runs_of_goal ON runs (goal_id) WHERE goal_id IS NOT NULL;

CREATE INDEX runs_of_sub_goal ON runs (sub_goal_id) WHERE sub_goal_id IS NOT NULL;

CREATE INDEX jobs_ended ON jobs (updated_at) WHERE state IN ('completed', 'canceled');

CREATE TABLE machine_clocks (
    boot_id TEXT PRIMARY KEY,
    ahead_ms BIGINT NOT NULL
);

CREATE INDEX sub_goal_edges_above ON sub_goal_edges (depends_on);

CREATE INDEX sub_goals_at_hand ON sub_goals (goal_id, id)
    WHERE status = 'in-progress' OR (status IN ('completed', 'failed') AND divergence IS NULL);

CREATE INDEX sub_goals_ready ON sub_goals (goal_id, mode, (priority * expected_value) DESC, id)
    WHERE status = 'pending' AND waits_for = 0;

CREATE INDEX sub_goals_diverged ON sub_goals (goal_id, judged_under) WHERE divergence IN ('minor', 'major');

CREATE INDEX sub_goals_in_vain ON sub_goals (goal_id) WHERE status = 'pending' AND waits_in_vain > 0;

CREATE INDEX sub_goals_done ON sub_goals (goal_id, id) WHERE status = 'completed';

CREATE INDEX runs_of_conversation ON runs (tenant_id, conversation_id, created_at)
    WHERE turn_id IS NOT NULL AND parent_run_id IS NULL;

CREATE TABLE attachments (
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    data BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (turn_id, n)
);

CREATE TABLE "effects" (
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
    ended_at BIGINT NOT NULL DEFAULT 0, images TEXT NOT NULL DEFAULT '', replayed BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, n, place)
);

CREATE TABLE "requests" (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    reason TEXT NOT NULL DEFAULT '',
    decided_by TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT NOT NULL DEFAULT 0
, kind TEXT NOT NULL DEFAULT 'approval', question TEXT NOT NULL DEFAULT '', choices TEXT NOT NULL DEFAULT '[]', answer TEXT NOT NULL DEFAULT '', state TEXT NOT NULL DEFAULT 'open');

CREATE TABLE steering (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    content TEXT NOT NULL,
    sender TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    read_at BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX steering_of_run ON steering (run_id, read_at, id);

CREATE INDEX memory_of_tenant ON memory_entries (tenant_id, id);

CREATE TABLE receipts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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

CREATE TABLE todo_copies (
    conversation_id BIGINT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    former_name TEXT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    todo_id BIGINT NOT NULL REFERENCES todos (id) ON DELETE CASCADE,
    PRIMARY KEY (conversation_id, former_name)
);

CREATE INDEX todo_copies_of_todo ON todo_copies (todo_id);

CREATE INDEX events_of_subject ON events (tenant_id, subject, seq) WHERE subject IS NOT NULL;

CREATE INDEX events_of_turn ON events (tenant_id, turn_id, seq) WHERE turn_id IS NOT NULL;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    old TEXT NOT NULL,
    new TEXT NOT NULL
);

CREATE INDEX audit_of_tenant ON audit (tenant_id, seq);

CREATE INDEX tokens_of_session ON tokens (tenant_id, session_of) WHERE session_of <> 0;

CREATE TABLE id_ranges (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    next BIGINT NOT NULL,
    ends BIGINT NOT NULL, bytes BIGINT,
    PRIMARY KEY (tenant_id, kind)
);

CREATE TABLE id_blocks (
    kind TEXT NOT NULL,
    block BIGINT NOT NULL,
    next BIGINT NOT NULL,
    taken BIGINT NOT NULL,
    PRIMARY KEY (kind, block)
);

CREATE INDEX jobs_due_of_tenant ON jobs (tenant_id, due_at, id) WHERE state IN ('queued', 'delayed');

CREATE TABLE housekeeping (
    task TEXT PRIMARY KEY,
    started_at BIGINT NOT NULL
);

CREATE INDEX runs_with_transcript ON runs (tenant_id, ended_at, id) WHERE ended_at <> 0 AND pruned_at = 0;

CREATE INDEX runs_of_ended_turns ON runs (tenant_id, ended_at, id)
    WHERE ended_at <> 0 AND turn_id IS NOT NULL AND parent_run_id IS NULL;

CREATE INDEX conversations_by_activity ON conversations (tenant_id, updated_at, id);

CREATE INDEX goals_ended ON goals (tenant_id, ended_at, id) WHERE ended_at <> 0;

CREATE INDEX receipts_of_tenant ON receipts (tenant_id, id);

CREATE INDEX runs_replaying ON runs (tenant_id, replays) WHERE ended_at = 0 AND replays <> '';

CREATE INDEX turns_by_conversation ON turns (conversation_id);

CREATE INDEX messages_by_conversation ON messages (conversation_id);

CREATE INDEX messages_by_turn ON messages (turn_id);

CREATE INDEX runs_by_turn ON runs (turn_id) WHERE turn_id IS NOT NULL;

CREATE INDEX todos_by_turn ON todos (turn_id) WHERE turn_id IS NOT NULL;

CREATE INDEX notices_by_turn ON notices (turn_id) WHERE turn_id IS NOT NULL;

CREATE INDEX notices_by_goal ON notices (goal_id) WHERE goal_id IS NOT NULL;

CREATE INDEX planning_cycles_by_goal ON planning_cycles (goal_id);

CREATE TABLE cells (
    name TEXT PRIMARY KEY,
    url TEXT NOT NULL DEFAULT '',
    public_url TEXT NOT NULL DEFAULT '',
    home TEXT NOT NULL DEFAULT '',
    first_tenant_id BIGINT NOT NULL,
    is_self BIGINT NOT NULL DEFAULT 0,
    added_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX cells_self ON cells (is_self) WHERE is_self = 1;

CREATE TABLE placements (
    tenant_name TEXT PRIMARY KEY,
    cell TEXT NOT NULL,
    placed_at BIGINT NOT NULL
);

CREATE INDEX placements_of_cell ON placements (cell, tenant_name);

CREATE TABLE moves (
    id TEXT PRIMARY KEY,
    tenant BIGINT NOT NULL,
    tenant_name TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    state TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE INDEX moves_of_tenant ON moves (tenant_name, started_at);

CREATE TABLE departed_tokens (
    hash TEXT PRIMARY KEY,
    tenant BIGINT NOT NULL,
    cell TEXT NOT NULL
);

CREATE INDEX departed_tokens_of_tenant ON departed_tokens (tenant);

CREATE TABLE parked (
    tenant BIGINT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, kind, id)
);

CREATE INDEX jobs_to_announce ON jobs (announce_at, due_at)
    WHERE state IN ('queued', 'delayed') AND due_at < 4611686018427387904;

CREATE INDEX conversations_deleted ON conversations (tenant_id, id) WHERE deleted_at <> 0;

CREATE INDEX turns_by_fingerprint ON turns (tenant_id, fingerprint) WHERE fingerprint <> '';

CREATE TABLE webhooks (
    id TEXT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    kinds TEXT NOT NULL,
    conversation_id BIGINT NOT NULL,
    goal_id BIGINT NOT NULL,
    description TEXT NOT NULL,
    paused BIGINT NOT NULL DEFAULT 0,
    sent_to BIGINT NOT NULL,
    secrets TEXT NOT NULL,
    recent TEXT NOT NULL DEFAULT '[]',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE TABLE files (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    path TEXT NOT NULL,
    latest BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX files_by_time ON files (tenant_id, updated_at, id);

CREATE TABLE file_versions (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    file_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    change TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    media_type TEXT NOT NULL,
    renamed_from TEXT NOT NULL,
    at BIGINT NOT NULL,
    tool TEXT NOT NULL,
    role TEXT NOT NULL,
    run_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    goal_id BIGINT NOT NULL,
    sub_goal_id BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    data BYTEA,
    PRIMARY KEY (tenant_id, file_id, n),
    FOREIGN KEY (tenant_id, file_id) REFERENCES files (tenant_id, id) ON DELETE CASCADE
);

CREATE INDEX file_versions_of_turn ON file_versions (tenant_id, turn_id) WHERE turn_id <> '';

CREATE INDEX file_versions_of_goal ON file_versions (tenant_id, goal_id) WHERE goal_id <> 0;

CREATE INDEX file_versions_of_conversation ON file_versions (tenant_id, conversation_id) WHERE conversation_id <> 0;

CREATE TABLE comments (
    id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    todo_id BIGINT NOT NULL,
    person TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL, edited_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX comments_of_todo ON comments (tenant_id, todo_id, id);

CREATE INDEX comments_of_conversation ON comments (tenant_id, conversation_id, id) WHERE conversation_id <> 0;

CREATE TABLE spending_days (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    day BIGINT NOT NULL,
    model TEXT NOT NULL,
    role TEXT NOT NULL,
    goal_id BIGINT NOT NULL DEFAULT 0,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, model, role, goal_id)
);

CREATE TABLE saved_views (
    id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    filters TEXT NOT NULL,
    person TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, folded_name)
);

CREATE INDEX open_notices ON notices (tenant_id, id) WHERE done_at = 0;

CREATE INDEX open_notices_by_url ON notices (tenant_id, url) WHERE done_at = 0;

CREATE TABLE dispatch_secrets (
    service TEXT PRIMARY KEY,
    secret TEXT NOT NULL
);

CREATE INDEX conversations_of_clients ON conversations (tenant_id, folder, id) WHERE client <> '';

CREATE TABLE guard_rules (
    id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    folder TEXT NOT NULL,
    subject TEXT NOT NULL,
    checks TEXT NOT NULL,
    is_confirmed BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX guard_rules_of_folder ON guard_rules (tenant_id, folder, id);

CREATE INDEX todos_next_in_list ON todos (tenant_id, conversation_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;

CREATE INDEX todos_next ON todos (tenant_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;

CREATE INDEX todos_with_labels ON todos (tenant_id, id) WHERE labels <> '';

CREATE INDEX todos_with_due ON todos (tenant_id, due) WHERE due < 253402300800000 AND completed_at = 0;

CREATE UNIQUE INDEX requests_of_call ON requests (tenant_id, run_id, n, place) WHERE kind = 'approval';

CREATE INDEX requests_of_run ON requests (tenant_id, run_id);

CREATE INDEX requests_of_state ON requests (tenant_id, state, id);

INSERT INTO sqlite_sequence VALUES ('requests', 0);

INSERT INTO id_blocks VALUES ('tokens', 0, 1, 0);

INSERT INTO id_blocks VALUES ('conversations', 0, 1, 0);

INSERT INTO id_blocks VALUES ('todos', 0, 1, 0);

INSERT INTO id_blocks VALUES ('messages', 0, 1, 0);

INSERT INTO id_blocks VALUES ('memory_entries', 0, 1, 0);

INSERT INTO id_blocks VALUES ('notices', 0, 1, 0);

INSERT INTO id_blocks VALUES ('schedules', 0, 1, 0);

INSERT INTO id_blocks VALUES ('goals', 0, 1, 0);

INSERT INTO id_blocks VALUES ('sub_goals', 0, 1, 0);

INSERT INTO id_blocks VALUES ('receipts', 0, 1, 0);

INSERT INTO id_blocks VALUES ('steering', 0, 1, 0);

INSERT INTO id_blocks VALUES ('events', 0, 1, 0);

INSERT INTO id_blocks VALUES ('comments', 0, 1, 0);

INSERT INTO id_blocks VALUES ('saved_views', 0, 1, 0);

INSERT INTO id_blocks VALUES ('guard_rules', 0, 1, 0);

INSERT INTO id_blocks VALUES ('requests', 0, 1, 0);
