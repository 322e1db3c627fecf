-- The schema. One text for both databases: a line that ends with `-- sqlite` or `-- postgres` is for that database
-- alone, and {id} is a column that numbers its rows. Times are epoch milliseconds, 0 is never. Money is counted in
-- billionths of a dollar.
--
-- Every table with rows of tenants has a tenant_id. On Postgres, keys begin with it, so a tenant's rows can be copied
-- from another database, whose ids were given out separately; where a foreign key leads to a row of the tenant, one to
-- the tenant is not needed. In SQLite's keys, ids are unique without the tenant, because storage/logged_transaction.py gives them
-- out for the whole database. Row-level security on Postgres covers every table that has the column
-- (storage/postgres/fence.py).

-- Tenants, and the tokens with which they sign in.

-- Rows that are older than the retention setting are deleted in the background. `log_pruned` is the highest number of an
-- event that was deleted for its age, and `log_pruned_at` when that event was logged: a reader that asks for older
-- events is told so.
CREATE TABLE tenants (
    id {id},
    PRIMARY KEY (id),  -- postgres
    name TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    log_pruned BIGINT NOT NULL DEFAULT 0,
    log_pruned_at BIGINT NOT NULL DEFAULT 0
);

-- `scopes` is what a token may do, comma-separated: read, write, admin (for the administrators of a tenant) and operator
-- (for those who run the installation: only tokens of the tenant `local` have it). `session_of` is the token that a
-- browser session was opened with, and that it ends with; 0: no session, -1: a session that the login link opened.
-- `replaced_by` is the token that a rotation created instead; 0: none.
CREATE TABLE tokens (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    hash TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL DEFAULT '',
    scopes TEXT NOT NULL DEFAULT 'read,write',
    session_of BIGINT NOT NULL DEFAULT 0,
    replaced_by BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL DEFAULT 0,
    last_used_at BIGINT NOT NULL DEFAULT 0,
    revoked_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX tokens_of_tenant ON tokens (tenant_id, id);  -- sqlite
CREATE INDEX tokens_of_session ON tokens (tenant_id, session_of) WHERE session_of <> 0;

-- Who did what to access, limits and rules. tenant_id 0 is the installation. There is no foreign key: the deletion of a
-- tenant is itself recorded. `old` and `new` are JSON.
CREATE TABLE audit (
    seq {id},
    PRIMARY KEY (tenant_id, seq),  -- postgres
    tenant_id BIGINT NOT NULL,
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    old TEXT NOT NULL,
    new TEXT NOT NULL
);
CREATE INDEX audit_of_tenant ON audit (tenant_id, seq);  -- sqlite
CREATE INDEX audit_in_order ON audit (seq);  -- postgres

-- A tenant's ids come from ranges of its own, so they do not show how many rows other tenants have. `id_ranges` has the
-- range that a tenant is using for a kind of row; `id_blocks` has every range that was given out, and is never cleaned:
-- ids are not reused. The ranges of a kind have the same size: 1,000 ids, or 1,000,000 numbers of events. `bytes` is how
-- many bytes of text and files the tenant has stored. They are counted in the row that numbers the tenant's events,
-- because every change updates that row; in the rows of other kinds this stays 0.
CREATE TABLE id_ranges (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    next BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    bytes BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, kind)
);
CREATE TABLE id_blocks (
    kind TEXT NOT NULL,
    block BIGINT NOT NULL,
    next BIGINT NOT NULL,
    taken BIGINT NOT NULL,
    PRIMARY KEY (kind, block)
);
INSERT INTO id_blocks (kind, block, next, taken) VALUES
    ('tokens', 0, 1, 0), ('conversations', 0, 1, 0), ('todos', 0, 1, 0), ('messages', 0, 1, 0), ('memory_entries', 0, 1, 0),
    ('notices', 0, 1, 0), ('schedules', 0, 1, 0), ('goals', 0, 1, 0), ('sub_goals', 0, 1, 0), ('requests', 0, 1, 0),
    ('receipts', 0, 1, 0), ('steering', 0, 1, 0), ('events', 0, 1, 0), ('comments', 0, 1, 0),
    ('saved_views', 0, 1, 0), ('guard_rules', 0, 1, 0);

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

-- Conversations, turns and messages.

-- `deleted_at` is when a person deleted the conversation. It is then hidden and can be restored, until housekeeping
-- deletes its rows. Meanwhile another conversation may take its key, so `key` is then a new UUID, and `former_key` is
-- what it was. `folder` is the folder that agents of the conversation work in, set by an editor; empty: the tenant's
-- workspace. A session of a coding assistant is a conversation with the name of its client and the client's own id of
-- the session.
CREATE TABLE conversations (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    uuid TEXT NOT NULL UNIQUE,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    former_key TEXT NOT NULL DEFAULT '',
    title TEXT NOT NULL DEFAULT '',
    folder TEXT NOT NULL DEFAULT '',
    client TEXT NOT NULL DEFAULT '',
    client_session TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT NOT NULL DEFAULT 0,
    UNIQUE (tenant_id, key)
);
CREATE INDEX conversations_of_tenant ON conversations (tenant_id, id);  -- sqlite
CREATE INDEX conversations_by_activity ON conversations (tenant_id, updated_at, id);
CREATE INDEX conversations_deleted ON conversations (tenant_id, id) WHERE deleted_at <> 0;
CREATE INDEX conversations_of_clients ON conversations (tenant_id, folder, id) WHERE client <> '';

-- `waiting` is the number of approvals and questions that the turn's agents wait for. A fork is a copy of a turn up to
-- one of its steps, or of a goal up to an entry of its journal (`fork_at`), that continues on its own. Chat clients send
-- with a message: instructions and context for the agent, the tools that the client itself has (JSON, by name), and the
-- fingerprint of its history up to this message, by which a client that names no conversation finds its own again. The
-- plan of a coding assistant is a turn: `client_agent` is the client's id of a sub-agent whose plan it is, `refusals`
-- counts how often in a row the agent was not allowed to stop, and `progress` the items that had ended at the last of
-- them.
CREATE TABLE turns (
    id TEXT NOT NULL,
    tenant_id BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    request TEXT NOT NULL DEFAULT '',
    mode TEXT NOT NULL DEFAULT 'plan',
    status TEXT NOT NULL,
    outcome TEXT,
    waiting BIGINT NOT NULL DEFAULT 0,
    forked_from TEXT NOT NULL DEFAULT '',
    fork_at BIGINT NOT NULL DEFAULT 0,
    context TEXT NOT NULL DEFAULT '',
    client_tools TEXT NOT NULL DEFAULT '',
    fingerprint TEXT NOT NULL DEFAULT '',
    client_agent TEXT NOT NULL DEFAULT '',
    refusals BIGINT NOT NULL DEFAULT 0,
    progress BIGINT NOT NULL DEFAULT 0,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (id),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (conversation_id) REFERENCES conversations (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, id),  -- postgres
    FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX turns_of_conversation ON turns (tenant_id, conversation_id, started_at);
CREATE INDEX turns_by_conversation ON turns (conversation_id);  -- sqlite
CREATE INDEX turns_by_fingerprint ON turns (tenant_id, fingerprint) WHERE fingerprint <> '';

-- What a person reads of a conversation. `kind` is text that a person or an agent wrote, the runtime's closing words at
-- the end of a turn, or the part of an answer that was written when the turn was stopped.
CREATE TABLE messages (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL,
    conversation_id BIGINT NOT NULL,
    turn_id TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    kind TEXT NOT NULL DEFAULT 'text',
    content TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (conversation_id) REFERENCES conversations (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (turn_id) REFERENCES turns (id) ON DELETE CASCADE  -- sqlite
    FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX messages_of_conversation ON messages (tenant_id, conversation_id, id);
CREATE INDEX messages_by_conversation ON messages (conversation_id);  -- sqlite
CREATE INDEX messages_by_turn ON messages (turn_id);

-- The files that came with a turn's message, numbered from 1. BYTEA is Postgres' type for bytes; SQLite stores bytes in
-- a column of any type.
CREATE TABLE attachments (
    turn_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    data BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (turn_id, n),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (turn_id) REFERENCES turns (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, turn_id, n),  -- postgres
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id) ON DELETE CASCADE  -- postgres
);

-- Todos.

-- conversation_id 0 is the tenant-wide list; a row with a turn_id is part of that turn's plan. `blocked_by` counts the
-- dependencies that have not ended, so that "ready" is an index, not a search. `priority` is 0 (urgent), 1 (high), 2
-- (normal) or 3 (low); `due` is a time, or 253402300800000, which is after all others: at no time. Ready todos are
-- ordered by these two before their position. `labels` has each label between line breaks. `dequeued` is 1 for a done
-- item of a turn that was deleted from the queue: the row stays, with its status; the queue no longer shows it. `checks`
-- is what must hold before the todo counts as done: a JSON list, or nothing; `proof` says what is known about it.
-- `completed_by` is how it was completed: check, effect, agent or person. NULL: it is not completed.
CREATE TABLE todos (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    uuid TEXT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    turn_id TEXT,
    agent_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    description TEXT NOT NULL,
    completion_criteria TEXT NOT NULL,
    agent_type TEXT,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'canceled')),
    priority BIGINT NOT NULL DEFAULT 2,
    due BIGINT NOT NULL DEFAULT 253402300800000,
    labels TEXT NOT NULL DEFAULT '',
    position BIGINT NOT NULL,
    outcome TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL DEFAULT 0,
    completed_at BIGINT NOT NULL DEFAULT 0,
    completed_by TEXT,
    blocked_by BIGINT NOT NULL DEFAULT 0 CHECK (blocked_by >= 0),
    dequeued BIGINT NOT NULL DEFAULT 0,
    checks TEXT NOT NULL DEFAULT '',
    proof TEXT NOT NULL DEFAULT 'none',
    FOREIGN KEY (turn_id) REFERENCES turns (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id) ON DELETE CASCADE,  -- postgres
    UNIQUE (tenant_id, uuid),
    CONSTRAINT ended_means_completed_at CHECK ((completed_at <> 0) = (status IN ('completed', 'canceled')))
);
-- Open rows are read in order of position, ended ones by most recent: an index each, per list and per tenant.
CREATE INDEX todos_open_in_list ON todos (tenant_id, conversation_id, status, position, id) WHERE completed_at = 0;
CREATE INDEX todos_open ON todos (tenant_id, status, position, id) WHERE completed_at = 0;
CREATE INDEX todos_ended_in_list ON todos (tenant_id, conversation_id, completed_at, id) WHERE completed_at <> 0;
CREATE INDEX todos_ended ON todos (tenant_id, completed_at, id) WHERE completed_at <> 0;
CREATE INDEX todos_of_turn ON todos (tenant_id, turn_id, status, position, id) WHERE turn_id IS NOT NULL;
CREATE INDEX todos_by_turn ON todos (turn_id) WHERE turn_id IS NOT NULL;  -- sqlite
CREATE INDEX todos_next_in_list ON todos (tenant_id, conversation_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;
CREATE INDEX todos_next ON todos (tenant_id, priority, due, position, id)
    WHERE status = 'pending' AND blocked_by = 0 AND turn_id IS NULL;
-- Few todos have checks, labels or a date: lists filtered by them need not read the others.
CREATE INDEX todos_with_checks ON todos (tenant_id, id) WHERE checks <> '';
CREATE INDEX todos_with_labels ON todos (tenant_id, id) WHERE labels <> '';
CREATE INDEX todos_with_due ON todos (tenant_id, due) WHERE due < 253402300800000 AND completed_at = 0;

CREATE TABLE todo_edges (
    todo_id BIGINT NOT NULL,
    depends_on BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL,
    PRIMARY KEY (todo_id, depends_on),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (todo_id) REFERENCES todos (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (depends_on) REFERENCES todos (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, todo_id, depends_on),  -- postgres
    FOREIGN KEY (tenant_id, todo_id) REFERENCES todos (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, depends_on) REFERENCES todos (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX todo_edges_back ON todo_edges (depends_on, todo_id);

-- Counters, so that nothing has to be counted: the next free position and the rows by status, per list. `plan_source` is
-- who made a turn's plan: agent, request or person. It is here and not in `turns`, because the statement that appends
-- the first item writes this row anyway. NULL in lists that are no plan.
CREATE TABLE todo_lists (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    turn_id TEXT NOT NULL DEFAULT '',
    next_position BIGINT NOT NULL,
    pending BIGINT NOT NULL DEFAULT 0,
    in_progress BIGINT NOT NULL DEFAULT 0,
    completed BIGINT NOT NULL DEFAULT 0,
    canceled BIGINT NOT NULL DEFAULT 0,
    plan_source TEXT,
    PRIMARY KEY (tenant_id, conversation_id, turn_id)
);

CREATE TABLE leases (
    todo_id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL,
    agent_id TEXT NOT NULL,
    token TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (todo_id),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (todo_id) REFERENCES todos (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, todo_id),  -- postgres
    FOREIGN KEY (tenant_id, todo_id) REFERENCES todos (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX leases_by_expiry ON leases (tenant_id, expires_at);

-- The numbers and UUIDs under which the copied messages of a fork know its todos.
CREATE TABLE todo_copies (
    conversation_id BIGINT NOT NULL,
    former_name TEXT NOT NULL,
    tenant_id BIGINT NOT NULL,
    todo_id BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, former_name),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (conversation_id) REFERENCES conversations (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (todo_id) REFERENCES todos (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, conversation_id, former_name),  -- postgres
    FOREIGN KEY (tenant_id, conversation_id) REFERENCES conversations (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, todo_id) REFERENCES todos (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX todo_copies_of_todo ON todo_copies (todo_id);

-- What people write about a todo. `person` is the label of the writer's token. A comment is deleted with its todo;
-- `conversation_id` is the todo's, by which the comments of a conversation are found. `edited_at` is when the writer
-- last changed it.
CREATE TABLE comments (
    id BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL,
    todo_id BIGINT NOT NULL,
    person TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    edited_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, id)
);
CREATE INDEX comments_of_todo ON comments (tenant_id, todo_id, id);
CREATE INDEX comments_of_conversation ON comments (tenant_id, conversation_id, id) WHERE conversation_id <> 0;

-- Named sets of the board's filters, which everybody of the tenant sees. `folded_name` is the name in one case, so that
-- two names differ in more than that. `filters` is a JSON object. `person` is the label of the token that saved it last.
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

-- What must hold before an assistant in a folder may stop. `checks` is JSON. `is_confirmed`: a person agreed that its
-- commands run without a sandbox.
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

-- One run of the checks, or a person's decision to complete the work without them. `seq` is the last event before it.
CREATE TABLE receipts (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
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
CREATE INDEX receipts_of_tenant ON receipts (tenant_id, id);  -- sqlite

-- The log of everything that happened. `subject` names what an event is about beside its turn (todo:12, goal:3, job:ID,
-- halt), and `actor` the person, agent or schedule that caused it.
CREATE TABLE events (
    seq {id},
    PRIMARY KEY (tenant_id, seq),  -- postgres
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    turn_id TEXT,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at BIGINT NOT NULL,
    subject TEXT,
    actor TEXT NOT NULL DEFAULT ''
);
CREATE INDEX events_of_tenant ON events (tenant_id, seq);  -- sqlite
CREATE INDEX events_of_conversation ON events (tenant_id, conversation_id, seq);
CREATE INDEX events_of_subject ON events (tenant_id, subject, seq) WHERE subject IS NOT NULL;
CREATE INDEX events_of_turn ON events (tenant_id, turn_id, seq) WHERE turn_id IS NOT NULL;

-- Goals that run by themselves: the graph of their sub-goals, the journal, and the stretches in which a plan was
-- pursued.

-- The counters by status, `in_plan` (how many sub-goals are in the current plan) and `done` (the outcomes of how many of
-- those count) are kept, because every checkpoint needs them. `repository` is a git repository that the goal's agents
-- work in: a path relative to the tenant's workspace, or empty. `repeat_of` is the goal that a person ran again; 0:
-- none.
CREATE TABLE goals (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
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
    repository TEXT NOT NULL DEFAULT '',
    budget BIGINT NOT NULL DEFAULT 0,
    deadline_at BIGINT NOT NULL DEFAULT 0,
    checks TEXT NOT NULL DEFAULT '',
    proof TEXT NOT NULL DEFAULT 'none',
    pending BIGINT NOT NULL DEFAULT 0,
    in_progress BIGINT NOT NULL DEFAULT 0,
    completed BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    skipped BIGINT NOT NULL DEFAULT 0,
    in_plan BIGINT NOT NULL DEFAULT 0,
    done BIGINT NOT NULL DEFAULT 0,
    forked_from BIGINT NOT NULL DEFAULT 0,
    fork_at BIGINT NOT NULL DEFAULT 0,
    repeat_of BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    journaled BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT goal_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'abandoned')))
);
CREATE INDEX goals_of_tenant ON goals (tenant_id, id);  -- sqlite
CREATE INDEX goals_in_status ON goals (tenant_id, status, id);
CREATE INDEX goals_ended ON goals (tenant_id, ended_at, id) WHERE ended_at <> 0;

-- `superseded_by` is the plan that dropped the sub-goal or replaced its outcome; 0: it is part of the current plan.
-- `waits_for` is on how many sub-goals it depends that are not done, or not found to be as expected, and `waits_in_vain`
-- on how many that never will be.
CREATE TABLE sub_goals (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL,
    goal_id BIGINT NOT NULL,
    plan_no BIGINT NOT NULL,
    superseded_by BIGINT NOT NULL DEFAULT 0,
    title TEXT NOT NULL DEFAULT '',
    description TEXT NOT NULL,
    expected_outcome TEXT NOT NULL,
    kind TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('inline', 'agent')),
    role TEXT NOT NULL,
    urgency BIGINT NOT NULL,
    expected_value DOUBLE PRECISION NOT NULL,
    cost_limit BIGINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in-progress', 'completed', 'failed', 'skipped')),
    outcome TEXT,
    reason TEXT NOT NULL DEFAULT '',
    divergence TEXT CHECK (divergence IN ('none', 'minor', 'major')),
    divergence_reason TEXT NOT NULL DEFAULT '',
    judged_under BIGINT NOT NULL DEFAULT 0,
    checks TEXT NOT NULL DEFAULT '',
    proof TEXT NOT NULL DEFAULT 'none',
    waits_for BIGINT NOT NULL DEFAULT 0,
    waits_in_vain BIGINT NOT NULL DEFAULT 0,
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
    ended_at BIGINT NOT NULL DEFAULT 0,
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (goal_id) REFERENCES goals (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (tenant_id, goal_id) REFERENCES goals (tenant_id, id) ON DELETE CASCADE,  -- postgres
    CONSTRAINT sub_goal_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'failed', 'skipped')))
);
CREATE INDEX sub_goals_of_goal ON sub_goals (goal_id, id);
-- What a tenant's plans learn from: the newest that were tried.
CREATE INDEX sub_goals_tried ON sub_goals (tenant_id, ended_at) WHERE status IN ('completed', 'failed');
-- What a step of a pursuit looks at, however many sub-goals the goal has: what is at work or not judged yet, what is
-- ready (the worthiest first), what makes the plan doubtful, what was done last.
CREATE INDEX sub_goals_at_hand ON sub_goals (goal_id, id)
    WHERE status = 'in-progress' OR (status IN ('completed', 'failed') AND divergence IS NULL);
CREATE INDEX sub_goals_ready ON sub_goals (goal_id, mode, (urgency * expected_value) DESC, id)
    WHERE status = 'pending' AND waits_for = 0;
CREATE INDEX sub_goals_diverged ON sub_goals (goal_id, judged_under) WHERE divergence IN ('minor', 'major');
CREATE INDEX sub_goals_in_vain ON sub_goals (goal_id) WHERE status = 'pending' AND waits_in_vain > 0;
CREATE INDEX sub_goals_done ON sub_goals (goal_id, id) WHERE status = 'completed';

CREATE TABLE sub_goal_edges (
    sub_goal_id BIGINT NOT NULL,
    depends_on BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL,
    PRIMARY KEY (sub_goal_id, depends_on),  -- sqlite
    FOREIGN KEY (sub_goal_id) REFERENCES sub_goals (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (depends_on) REFERENCES sub_goals (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, sub_goal_id, depends_on),  -- postgres
    FOREIGN KEY (tenant_id, sub_goal_id) REFERENCES sub_goals (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, depends_on) REFERENCES sub_goals (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX sub_goal_edges_above ON sub_goal_edges (depends_on);

-- Append-only, a row per entry.
CREATE TABLE journal (
    goal_id BIGINT NOT NULL,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (goal_id, n),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (goal_id) REFERENCES goals (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, goal_id, n),  -- postgres
    FOREIGN KEY (tenant_id, goal_id) REFERENCES goals (tenant_id, id) ON DELETE CASCADE  -- postgres
);

-- A stretch of time in which one plan was made and pursued. An active one has a process behind it, or had.
CREATE TABLE planning_cycles (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL,
    goal_id BIGINT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'completed', 'interrupted')),
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (goal_id) REFERENCES goals (id) ON DELETE CASCADE  -- sqlite
    FOREIGN KEY (tenant_id, goal_id) REFERENCES goals (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE UNIQUE INDEX planning_cycles_one_at_a_time ON planning_cycles (goal_id) WHERE status = 'active';  -- sqlite
CREATE UNIQUE INDEX planning_cycles_one_active ON planning_cycles (tenant_id, goal_id) WHERE status = 'active';  -- postgres
CREATE INDEX planning_cycles_by_goal ON planning_cycles (goal_id);

-- Agents at work: runs with their transcripts and tool calls, and what they cost.

-- A run may belong to a goal. Its main agent works on one sub-goal at a time, from message `begins_at` of its transcript
-- on. `unread` counts the messages in `steering` that it has not read. `repository` is the one that the run works in
-- (absolute if a role file names it), `base` the commit that its work starts from, `changes` what it changed: JSON
-- without the `diff`, which only some readers need. `model` is the model that it asks instead of its role's; empty: its
-- role's. `replays` is whose recorded results answer the run's calls: the id of a run, or goal:ID for all runs of a
-- goal; empty: its calls are made. `added_items` is how many items an agent has added to its plan after the plan was
-- made: they extend the limit on its steps less than the others. `pruned_at` is when its transcript and its tool calls
-- were deleted for their age.
CREATE TABLE runs (
    id TEXT NOT NULL,
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    turn_id TEXT,
    parent_run_id TEXT,
    goal_id BIGINT,
    sub_goal_id BIGINT,
    begins_at BIGINT NOT NULL DEFAULT 0,
    role TEXT NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL DEFAULT '',
    replays TEXT NOT NULL DEFAULT '',
    depth BIGINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'canceled')),
    result TEXT,
    iterations BIGINT NOT NULL DEFAULT 0,
    iteration_limit BIGINT NOT NULL,
    resubmissions BIGINT NOT NULL DEFAULT 0,
    refusals BIGINT NOT NULL DEFAULT 0,
    added_items BIGINT NOT NULL DEFAULT 0,
    hint TEXT NOT NULL DEFAULT '',
    unread BIGINT NOT NULL DEFAULT 0,
    plan_mark TEXT NOT NULL DEFAULT '',
    reserved BIGINT NOT NULL DEFAULT 0,
    cost BIGINT NOT NULL DEFAULT 0,
    repository TEXT NOT NULL DEFAULT '',
    base TEXT NOT NULL DEFAULT '',
    changes TEXT NOT NULL DEFAULT '',
    diff TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    pruned_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (id),  -- sqlite
    FOREIGN KEY (turn_id) REFERENCES turns (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (parent_run_id) REFERENCES runs (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (goal_id) REFERENCES goals (id) ON DELETE CASCADE,  -- sqlite
    PRIMARY KEY (tenant_id, id),  -- postgres
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, parent_run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, goal_id) REFERENCES goals (tenant_id, id) ON DELETE CASCADE,  -- postgres
    CONSTRAINT run_ended_means_ended_at CHECK ((ended_at <> 0) = (status IN ('completed', 'failed', 'canceled')))
);
-- A conversation has one running turn at a time, whoever asks at the same moment.
CREATE UNIQUE INDEX runs_one_turn_at_a_time ON runs (tenant_id, conversation_id)
    WHERE turn_id IS NOT NULL AND parent_run_id IS NULL AND ended_at = 0;
-- The runs that answered a conversation's turns, whose messages the next turn continues.
CREATE INDEX runs_of_conversation ON runs (tenant_id, conversation_id, created_at)
    WHERE turn_id IS NOT NULL AND parent_run_id IS NULL;
CREATE INDEX runs_of_turn ON runs (tenant_id, turn_id);
CREATE INDEX runs_by_turn ON runs (turn_id) WHERE turn_id IS NOT NULL;  -- sqlite
CREATE INDEX runs_of_tenant ON runs (tenant_id, created_at, id);
CREATE INDEX runs_of_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_of_goal ON runs (goal_id) WHERE goal_id IS NOT NULL;
CREATE INDEX runs_of_sub_goal ON runs (sub_goal_id) WHERE sub_goal_id IS NOT NULL;
-- Unfinished forks, which need the recorded results of another run or goal.
CREATE INDEX runs_replaying ON runs (tenant_id, replays) WHERE ended_at = 0 AND replays <> '';
-- What is old enough to be deleted, oldest first.
CREATE INDEX runs_with_transcript ON runs (tenant_id, ended_at, id) WHERE ended_at <> 0 AND pruned_at = 0;
CREATE INDEX runs_of_ended_turns ON runs (tenant_id, ended_at, id)
    WHERE ended_at <> 0 AND turn_id IS NOT NULL AND parent_run_id IS NULL;

-- What was said, in order. A row that is not sent any more was replaced by what came after it.
CREATE TABLE transcript (
    run_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL,
    message TEXT NOT NULL,
    sent BIGINT NOT NULL DEFAULT 1,
    at BIGINT NOT NULL,
    PRIMARY KEY (run_id, n),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, run_id, n),  -- postgres
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE  -- postgres
);

-- Tool calls: the one with this index in message n of the transcript. A proposed call waits for a person's decision before
-- it starts. `images` are images in the result, as JSON: a list of media types and base64 data. `replayed` is 1 if
-- another run recorded the result, and this run did not make the call.
CREATE TABLE effects (
    run_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    call_index BIGINT NOT NULL,
    tenant_id BIGINT NOT NULL,
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('proposed', 'started', 'succeeded', 'failed', 'unknown')),
    result TEXT NOT NULL DEFAULT '',
    images TEXT NOT NULL DEFAULT '',
    replayed BIGINT NOT NULL DEFAULT 0,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, n, call_index),  -- sqlite
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE  -- sqlite
    PRIMARY KEY (tenant_id, run_id, n, call_index),  -- postgres
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE  -- postgres
);

-- Requests of agents to people; the run waits. An approval is the decision about a proposed call: the digest binds it to
-- the exact arguments, and only these may run. A question waits for an answer; one with a `tool` is a call of a tool that
-- the client of the turn has, and waits for the client as other questions wait for a person.
CREATE TABLE requests (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('approval', 'question', 'decision')),
    conversation_id BIGINT NOT NULL,
    turn_id TEXT,
    run_id TEXT,  -- null: a decision about a goal
    goal_id BIGINT,
    n BIGINT NOT NULL,
    call_index BIGINT NOT NULL,
    call_id TEXT NOT NULL,
    role TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    digest TEXT NOT NULL,
    why TEXT NOT NULL,
    question TEXT NOT NULL DEFAULT '',
    choices TEXT NOT NULL DEFAULT '[]',
    answer TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'rejected', 'expired', 'answered', 'canceled')),
    reason TEXT NOT NULL DEFAULT '',
    decided_by TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT NOT NULL DEFAULT 0,
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (goal_id) REFERENCES goals (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE  -- sqlite
    FOREIGN KEY (tenant_id, goal_id) REFERENCES goals (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE UNIQUE INDEX requests_of_call ON requests (tenant_id, run_id, n, call_index) WHERE kind = 'approval';
CREATE INDEX requests_of_run ON requests (tenant_id, run_id);
CREATE INDEX requests_of_state ON requests (tenant_id, state, id);
CREATE INDEX requests_of_goal ON requests (tenant_id, goal_id) WHERE goal_id IS NOT NULL;

-- Messages that people send to a running agent, which reads them at its next step.
CREATE TABLE steering (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    content TEXT NOT NULL,
    sender TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    read_at BIGINT NOT NULL DEFAULT 0,
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE  -- sqlite
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX steering_of_run ON steering (run_id, read_at, id);

-- `cached_tokens` are input tokens that a provider read from its prompt cache, `cache_write_tokens` those it wrote to
-- it. Both are part of input_tokens.
CREATE TABLE model_calls (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    tier TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL DEFAULT 0,
    cache_write_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    at BIGINT NOT NULL,
    FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE  -- sqlite
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX model_calls_of_tenant ON model_calls (tenant_id, at);
CREATE INDEX model_calls_of_run ON model_calls (run_id);

-- A tenant's cost pool, kept so that nothing has to be added up: spent since counted_from, and reserved by calls on
-- their way. A ceiling of the tenant's own takes the place of the installation's. `operator_ceiling` is the limit that
-- the operator has set for the tenant, and `ceiling` the lower one that its administrator may set.
CREATE TABLE pools (
    tenant_id BIGINT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    ceiling BIGINT,
    operator_ceiling BIGINT,
    spent BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    counted_from BIGINT NOT NULL DEFAULT 0
);

-- What the model calls of a day cost, by model, role and goal. A call adds to its row in the transaction that stores the
-- call, so that a chart over months reads few rows, and the sums stay when old calls are deleted. `day` counts from
-- 1970-01-01, in UTC; `goal_id` is 0 for work without a goal.
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

-- An entry comes from the run of the agent that wrote it, or from the person who wrote it or last edited it. `revision`
-- counts the edits.
CREATE TABLE memory_entries (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    conversation_id BIGINT NOT NULL DEFAULT 0,
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    run_id TEXT,
    turn_id TEXT,
    goal_id BIGINT,
    origin_conversation_id BIGINT,
    person TEXT NOT NULL DEFAULT '',
    revision BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX memory_of_tenant ON memory_entries (tenant_id, id);  -- sqlite
CREATE INDEX memory_of_conversation ON memory_entries (tenant_id, conversation_id, id);

-- What people were told. `url` is the path of the page on which somebody can respond. `done_at` is when nobody had to
-- respond any more, or a person marked the notice as done.
CREATE TABLE notices (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    turn_id TEXT,
    goal_id BIGINT,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    url TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    done_at BIGINT NOT NULL DEFAULT 0,
    FOREIGN KEY (turn_id) REFERENCES turns (id) ON DELETE CASCADE,  -- sqlite
    FOREIGN KEY (goal_id) REFERENCES goals (id) ON DELETE CASCADE  -- sqlite
    FOREIGN KEY (tenant_id, turn_id) REFERENCES turns (tenant_id, id) ON DELETE CASCADE,  -- postgres
    FOREIGN KEY (tenant_id, goal_id) REFERENCES goals (tenant_id, id) ON DELETE CASCADE  -- postgres
);
CREATE INDEX notices_of_tenant ON notices (tenant_id, id);  -- sqlite
CREATE INDEX notices_by_turn ON notices (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX notices_by_goal ON notices (goal_id) WHERE goal_id IS NOT NULL;
CREATE INDEX open_notices ON notices (tenant_id, id) WHERE done_at = 0;
CREATE INDEX open_notices_by_url ON notices (tenant_id, url) WHERE done_at = 0;

-- The record of the files that agents wrote. The id of a file derives from its workspace and its path. `latest` is the
-- number of the last version that was recorded.
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

-- `data` is the content of the version, or NULL if it was not kept. The names of the run, turn and goal that wrote it
-- are not references: the version stays when a run's row is deleted because of its age.
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

-- The engine: jobs that keep things running, schedules that start them, webhooks that report them, and the processes
-- that work.

-- A job keeps a thing running until it has ended. A run's job has the run's id; whoever owns the job may move the run.
-- `announce_at` is when an external engine that dispatches jobs is to hear of a waiting job, by the steady clock: 0 is
-- at once. Jobs that wait without a time (due_at = 2^62) are not announced.
CREATE TABLE jobs (
    id TEXT NOT NULL,
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
    announce_at BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id)  -- sqlite
    PRIMARY KEY (tenant_id, id)  -- postgres
);
CREATE INDEX jobs_due ON jobs (due_at, id) WHERE state IN ('queued', 'delayed');
-- Slots are handed out tenant by tenant: the first waiting job of each.
CREATE INDEX jobs_due_of_tenant ON jobs (tenant_id, due_at, id) WHERE state IN ('queued', 'delayed');
CREATE INDEX jobs_to_announce ON jobs (announce_at, due_at)
    WHERE state IN ('queued', 'delayed') AND due_at < 4611686018427387904;
CREATE INDEX jobs_running ON jobs (owner, id) WHERE state = 'running';
CREATE INDEX jobs_unfinished ON jobs (id) WHERE state IN ('queued', 'running', 'delayed');  -- postgres
CREATE INDEX jobs_of_family ON jobs (family, state) WHERE family <> '';
CREATE INDEX jobs_of_tenant ON jobs (tenant_id, created_at, id);
CREATE INDEX jobs_in_state ON jobs (tenant_id, state, created_at, id);
-- Housekeeping looks for what ended long ago.
CREATE INDEX jobs_ended ON jobs (updated_at) WHERE state IN ('completed', 'canceled');

CREATE TABLE schedules (
    id {id},
    PRIMARY KEY (tenant_id, id),  -- postgres
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

-- Subscriptions to the event log. The job that delivers has the id of the webhook. `kinds` is a JSON list of event
-- kinds, empty: all. `sent_to` is the number of the last event that was delivered or did not match. `secrets` is a JSON
-- list of signing secrets, the newest first, with the time at which each ends (0: never). `recent` is a JSON list of the
-- last attempts.
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

-- The kill switch, for the whole installation. The row that was not lifted is the one in force.
CREATE TABLE halts (
    id {id},
    PRIMARY KEY (id),  -- postgres
    why TEXT NOT NULL,
    since BIGINT NOT NULL,
    halted_by TEXT NOT NULL DEFAULT '',
    lifted_at BIGINT NOT NULL DEFAULT 0,
    lifted_by TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX halts_in_force ON halts (lifted_at) WHERE lifted_at = 0;

-- The processes that run jobs: when each was last heard of, since when it runs, how many jobs it runs at once, and its
-- version. `session_lock` is the number of the advisory lock that the process's session with the Postgres server holds;
-- 0: it has none, and only its heartbeats show that it is alive.
CREATE TABLE worker_leases (
    executor_id TEXT PRIMARY KEY,
    beat_at BIGINT NOT NULL,
    session_lock BIGINT NOT NULL DEFAULT 0,
    started_at BIGINT NOT NULL DEFAULT 0,
    slots BIGINT NOT NULL DEFAULT 0,
    version TEXT NOT NULL DEFAULT ''
);

-- When a task that one process does for all was last started.
CREATE TABLE housekeeping (
    task TEXT PRIMARY KEY,
    started_at BIGINT NOT NULL
);

-- What to add to what a machine counts since it was started, to get the time of day as it was when Headway first wrote
-- here after that start. Leases, signs of life and delays are kept by it: it does not jump when somebody sets the clock.
CREATE TABLE machine_clocks (
    boot_id TEXT PRIMARY KEY,
    ahead_ms BIGINT NOT NULL
);

-- Part of the URL at which an external dispatcher reaches the workers of this database. A delivery without it is
-- refused.
CREATE TABLE dispatch_secrets (
    service TEXT PRIMARY KEY,
    secret TEXT NOT NULL
);

-- Cells: several Postgres databases, each with some of the tenants. One database, the directory, has the addresses of
-- all cells and the cell of each tenant. The others know the names and public addresses of all cells, and which of them
-- they are.

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

-- In the directory: where each tenant is. A name is reserved here before the tenant is created.
CREATE TABLE placements (
    tenant_name TEXT PRIMARY KEY,
    cell TEXT NOT NULL,
    placed_at BIGINT NOT NULL
);
CREATE INDEX placements_of_cell ON placements (cell, tenant_name);

-- Moves of tenants. In the source: fenced, departed, done or undone. In the target: arrived or canceled, whichever was
-- stored first, so that a move is either carried out or undone. The columns are not named tenant_id, because these rows
-- do not move with the tenant.
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

-- Tokens of tenants that have left, so that their holders learn where to go.
CREATE TABLE departed_tokens (
    hash TEXT PRIMARY KEY,
    tenant BIGINT NOT NULL,
    cell TEXT NOT NULL
);
CREATE INDEX departed_tokens_of_tenant ON departed_tokens (tenant);

-- Jobs and schedules of a tenant that is being moved, as they were before. Meanwhile they are due never.
CREATE TABLE parked (
    tenant BIGINT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, kind, id)
);
