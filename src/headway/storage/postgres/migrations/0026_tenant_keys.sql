-- Keys that begin with the tenant. A tenant's rows can then be copied from another database, whose ids were given out separately.
--
-- These statements run one by one, while other processes work (storage/postgres/online.py). Each is skipped if it was done before:
-- CREATE INDEX if there is a valid index of that name, ADD CONSTRAINT if the constraint exists. A new database gets them in one
-- transaction, without CONCURRENTLY and NOT VALID, and without the indexes whose names begin with before_.

-- The keys.
CREATE UNIQUE INDEX CONCURRENTLY approvals_key ON approvals (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY attachments_key ON attachments (tenant_id, turn_id, n);
CREATE UNIQUE INDEX CONCURRENTLY effects_key ON effects (tenant_id, run_id, n, place);
CREATE UNIQUE INDEX CONCURRENTLY leases_key ON leases (tenant_id, todo_id);
CREATE UNIQUE INDEX CONCURRENTLY messages_key ON messages (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY model_calls_key ON model_calls (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY notices_key ON notices (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY planning_cycles_key ON planning_cycles (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY questions_key ON questions (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY steering_key ON steering (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY sub_goal_edges_key ON sub_goal_edges (tenant_id, sub_goal_id, depends_on);
CREATE UNIQUE INDEX CONCURRENTLY todo_copies_key ON todo_copies (tenant_id, conversation_id, former_name);
CREATE UNIQUE INDEX CONCURRENTLY todo_edges_key ON todo_edges (tenant_id, todo_id, depends_on);
CREATE UNIQUE INDEX CONCURRENTLY transcript_key ON transcript (tenant_id, run_id, n);
CREATE UNIQUE INDEX CONCURRENTLY journal_key ON journal (tenant_id, goal_id, n);
CREATE UNIQUE INDEX CONCURRENTLY sub_goals_key ON sub_goals (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY todos_key ON todos (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY runs_key ON runs (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY turns_key ON turns (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY goals_key ON goals (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY conversations_key ON conversations (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY audit_key ON audit (tenant_id, seq);
CREATE UNIQUE INDEX CONCURRENTLY events_key ON events (tenant_id, seq);
CREATE UNIQUE INDEX CONCURRENTLY jobs_key ON jobs (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY memory_entries_key ON memory_entries (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY receipts_key ON receipts (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY schedules_key ON schedules (tenant_id, id);
CREATE UNIQUE INDEX CONCURRENTLY tokens_key ON tokens (tenant_id, id);

-- Other uniqueness within a tenant.
CREATE UNIQUE INDEX CONCURRENTLY approvals_by_call ON approvals (tenant_id, run_id, n, place);
CREATE UNIQUE INDEX CONCURRENTLY planning_cycles_one_active ON planning_cycles (tenant_id, goal_id) WHERE status = 'active';

-- Statements over all tenants: the entries of the audit log in order, and unfinished jobs by id.
CREATE INDEX CONCURRENTLY audit_in_order ON audit (seq);
CREATE INDEX CONCURRENTLY jobs_unfinished ON jobs (id) WHERE state IN ('queued', 'running', 'delayed');

-- For processes of the version before, which keep working: their ON CONFLICT needs the first three, their lookups by id the others.
-- A later version drops them.
CREATE UNIQUE INDEX CONCURRENTLY before_0026_turns ON turns (id);
CREATE UNIQUE INDEX CONCURRENTLY before_0026_leases ON leases (todo_id);
CREATE UNIQUE INDEX CONCURRENTLY before_0026_effects ON effects (run_id, n, place);
CREATE INDEX CONCURRENTLY before_0026_todo_edges ON todo_edges (todo_id);
CREATE INDEX CONCURRENTLY before_0026_sub_goals ON sub_goals (id);
CREATE INDEX CONCURRENTLY before_0026_sub_goal_edges ON sub_goal_edges (sub_goal_id);

-- Foreign keys. New rows are checked at once; the rows that exist are checked below, without a lock that blocks writers.
ALTER TABLE approvals
    ADD CONSTRAINT approvals_run_fk FOREIGN KEY (tenant_id, run_id)
        REFERENCES runs (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE attachments
    ADD CONSTRAINT attachments_turn_fk FOREIGN KEY (tenant_id, turn_id)
        REFERENCES turns (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE effects
    ADD CONSTRAINT effects_run_fk FOREIGN KEY (tenant_id, run_id)
        REFERENCES runs (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE journal
    ADD CONSTRAINT journal_goal_fk FOREIGN KEY (tenant_id, goal_id)
        REFERENCES goals (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE leases
    ADD CONSTRAINT leases_todo_fk FOREIGN KEY (tenant_id, todo_id)
        REFERENCES todos (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE messages
    ADD CONSTRAINT messages_conversation_fk FOREIGN KEY (tenant_id, conversation_id)
        REFERENCES conversations (tenant_id, id) ON DELETE CASCADE NOT VALID,
    ADD CONSTRAINT messages_turn_fk FOREIGN KEY (tenant_id, turn_id)
        REFERENCES turns (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE model_calls
    ADD CONSTRAINT model_calls_run_fk FOREIGN KEY (tenant_id, run_id)
        REFERENCES runs (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE notices
    ADD CONSTRAINT notices_turn_fk FOREIGN KEY (tenant_id, turn_id)
        REFERENCES turns (tenant_id, id) ON DELETE CASCADE NOT VALID,
    ADD CONSTRAINT notices_goal_fk FOREIGN KEY (tenant_id, goal_id)
        REFERENCES goals (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE planning_cycles
    ADD CONSTRAINT planning_cycles_goal_fk FOREIGN KEY (tenant_id, goal_id)
        REFERENCES goals (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE questions
    ADD CONSTRAINT questions_run_fk FOREIGN KEY (tenant_id, run_id)
        REFERENCES runs (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE runs
    ADD CONSTRAINT runs_turn_fk FOREIGN KEY (tenant_id, turn_id)
        REFERENCES turns (tenant_id, id) ON DELETE CASCADE NOT VALID,
    ADD CONSTRAINT runs_parent_run_fk FOREIGN KEY (tenant_id, parent_run_id)
        REFERENCES runs (tenant_id, id) ON DELETE CASCADE NOT VALID,
    ADD CONSTRAINT runs_goal_fk FOREIGN KEY (tenant_id, goal_id)
        REFERENCES goals (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE steering
    ADD CONSTRAINT steering_run_fk FOREIGN KEY (tenant_id, run_id)
        REFERENCES runs (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE sub_goal_edges
    ADD CONSTRAINT sub_goal_edges_sub_goal_fk FOREIGN KEY (tenant_id, sub_goal_id)
        REFERENCES sub_goals (tenant_id, id) ON DELETE CASCADE NOT VALID,
    ADD CONSTRAINT sub_goal_edges_depends_on_fk FOREIGN KEY (tenant_id, depends_on)
        REFERENCES sub_goals (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE sub_goals
    ADD CONSTRAINT sub_goals_goal_fk FOREIGN KEY (tenant_id, goal_id)
        REFERENCES goals (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE todo_copies
    ADD CONSTRAINT todo_copies_conversation_fk FOREIGN KEY (tenant_id, conversation_id)
        REFERENCES conversations (tenant_id, id) ON DELETE CASCADE NOT VALID,
    ADD CONSTRAINT todo_copies_todo_fk FOREIGN KEY (tenant_id, todo_id)
        REFERENCES todos (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE todo_edges
    ADD CONSTRAINT todo_edges_todo_fk FOREIGN KEY (tenant_id, todo_id)
        REFERENCES todos (tenant_id, id) ON DELETE CASCADE NOT VALID,
    ADD CONSTRAINT todo_edges_depends_on_fk FOREIGN KEY (tenant_id, depends_on)
        REFERENCES todos (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE todos
    ADD CONSTRAINT todos_turn_fk FOREIGN KEY (tenant_id, turn_id)
        REFERENCES turns (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE transcript
    ADD CONSTRAINT transcript_run_fk FOREIGN KEY (tenant_id, run_id)
        REFERENCES runs (tenant_id, id) ON DELETE CASCADE NOT VALID;
ALTER TABLE turns
    ADD CONSTRAINT turns_conversation_fk FOREIGN KEY (tenant_id, conversation_id)
        REFERENCES conversations (tenant_id, id) ON DELETE CASCADE NOT VALID;

ALTER TABLE approvals VALIDATE CONSTRAINT approvals_run_fk;
ALTER TABLE attachments VALIDATE CONSTRAINT attachments_turn_fk;
ALTER TABLE effects VALIDATE CONSTRAINT effects_run_fk;
ALTER TABLE journal VALIDATE CONSTRAINT journal_goal_fk;
ALTER TABLE leases VALIDATE CONSTRAINT leases_todo_fk;
ALTER TABLE messages VALIDATE CONSTRAINT messages_conversation_fk;
ALTER TABLE messages VALIDATE CONSTRAINT messages_turn_fk;
ALTER TABLE model_calls VALIDATE CONSTRAINT model_calls_run_fk;
ALTER TABLE notices VALIDATE CONSTRAINT notices_turn_fk;
ALTER TABLE notices VALIDATE CONSTRAINT notices_goal_fk;
ALTER TABLE planning_cycles VALIDATE CONSTRAINT planning_cycles_goal_fk;
ALTER TABLE questions VALIDATE CONSTRAINT questions_run_fk;
ALTER TABLE runs VALIDATE CONSTRAINT runs_turn_fk;
ALTER TABLE runs VALIDATE CONSTRAINT runs_parent_run_fk;
ALTER TABLE runs VALIDATE CONSTRAINT runs_goal_fk;
ALTER TABLE steering VALIDATE CONSTRAINT steering_run_fk;
ALTER TABLE sub_goal_edges VALIDATE CONSTRAINT sub_goal_edges_sub_goal_fk;
ALTER TABLE sub_goal_edges VALIDATE CONSTRAINT sub_goal_edges_depends_on_fk;
ALTER TABLE sub_goals VALIDATE CONSTRAINT sub_goals_goal_fk;
ALTER TABLE todo_copies VALIDATE CONSTRAINT todo_copies_conversation_fk;
ALTER TABLE todo_copies VALIDATE CONSTRAINT todo_copies_todo_fk;
ALTER TABLE todo_edges VALIDATE CONSTRAINT todo_edges_todo_fk;
ALTER TABLE todo_edges VALIDATE CONSTRAINT todo_edges_depends_on_fk;
ALTER TABLE todos VALIDATE CONSTRAINT todos_turn_fk;
ALTER TABLE transcript VALIDATE CONSTRAINT transcript_run_fk;
ALTER TABLE turns VALIDATE CONSTRAINT turns_conversation_fk;

-- The former keys end, those of a table after those of the tables that reference it. Where a foreign key leads to a row of the
-- tenant, the one to the tenant itself is not needed.
ALTER TABLE approvals
    DROP CONSTRAINT approvals_run_id_fkey,
    DROP CONSTRAINT approvals_tenant_id_fkey,
    DROP CONSTRAINT approvals_pkey,
    ADD CONSTRAINT approvals_key PRIMARY KEY USING INDEX approvals_key;
ALTER TABLE attachments
    DROP CONSTRAINT attachments_turn_id_fkey,
    DROP CONSTRAINT attachments_tenant_id_fkey,
    DROP CONSTRAINT attachments_pkey,
    ADD CONSTRAINT attachments_key PRIMARY KEY USING INDEX attachments_key;
ALTER TABLE effects
    DROP CONSTRAINT effects_with_proposals_run_id_fkey,
    DROP CONSTRAINT effects_with_proposals_tenant_id_fkey,
    DROP CONSTRAINT effects_with_proposals_pkey,
    ADD CONSTRAINT effects_key PRIMARY KEY USING INDEX effects_key;
ALTER TABLE leases
    DROP CONSTRAINT leases_todo_id_fkey,
    DROP CONSTRAINT leases_tenant_id_fkey,
    DROP CONSTRAINT leases_pkey,
    ADD CONSTRAINT leases_key PRIMARY KEY USING INDEX leases_key;
ALTER TABLE messages
    DROP CONSTRAINT messages_conversation_id_fkey,
    DROP CONSTRAINT messages_turn_id_fkey,
    DROP CONSTRAINT messages_tenant_id_fkey,
    DROP CONSTRAINT messages_pkey,
    ADD CONSTRAINT messages_key PRIMARY KEY USING INDEX messages_key;
ALTER TABLE model_calls
    DROP CONSTRAINT model_calls_run_id_fkey,
    DROP CONSTRAINT model_calls_tenant_id_fkey,
    DROP CONSTRAINT model_calls_pkey,
    ADD CONSTRAINT model_calls_key PRIMARY KEY USING INDEX model_calls_key;
ALTER TABLE notices
    DROP CONSTRAINT notices_turn_id_fkey,
    DROP CONSTRAINT notices_goal_id_fkey,
    DROP CONSTRAINT notices_pkey,
    ADD CONSTRAINT notices_key PRIMARY KEY USING INDEX notices_key;
ALTER TABLE planning_cycles
    DROP CONSTRAINT planning_cycles_goal_id_fkey,
    DROP CONSTRAINT planning_cycles_tenant_id_fkey,
    DROP CONSTRAINT planning_cycles_pkey,
    ADD CONSTRAINT planning_cycles_key PRIMARY KEY USING INDEX planning_cycles_key;
ALTER TABLE questions
    DROP CONSTRAINT questions_run_id_fkey,
    DROP CONSTRAINT questions_tenant_id_fkey,
    DROP CONSTRAINT questions_pkey,
    ADD CONSTRAINT questions_key PRIMARY KEY USING INDEX questions_key;
ALTER TABLE steering
    DROP CONSTRAINT steering_run_id_fkey,
    DROP CONSTRAINT steering_tenant_id_fkey,
    DROP CONSTRAINT steering_pkey,
    ADD CONSTRAINT steering_key PRIMARY KEY USING INDEX steering_key;
ALTER TABLE sub_goal_edges
    DROP CONSTRAINT sub_goal_edges_sub_goal_id_fkey,
    DROP CONSTRAINT sub_goal_edges_depends_on_fkey,
    DROP CONSTRAINT sub_goal_edges_pkey,
    ADD CONSTRAINT sub_goal_edges_key PRIMARY KEY USING INDEX sub_goal_edges_key;
ALTER TABLE todo_copies
    DROP CONSTRAINT todo_copies_conversation_id_fkey,
    DROP CONSTRAINT todo_copies_todo_id_fkey,
    DROP CONSTRAINT todo_copies_tenant_id_fkey,
    DROP CONSTRAINT todo_copies_pkey,
    ADD CONSTRAINT todo_copies_key PRIMARY KEY USING INDEX todo_copies_key;
ALTER TABLE todo_edges
    DROP CONSTRAINT todo_edges_todo_id_fkey,
    DROP CONSTRAINT todo_edges_depends_on_fkey,
    DROP CONSTRAINT todo_edges_tenant_id_fkey,
    DROP CONSTRAINT todo_edges_pkey,
    ADD CONSTRAINT todo_edges_key PRIMARY KEY USING INDEX todo_edges_key;
ALTER TABLE transcript
    DROP CONSTRAINT transcript_run_id_fkey,
    DROP CONSTRAINT transcript_tenant_id_fkey,
    DROP CONSTRAINT transcript_pkey,
    ADD CONSTRAINT transcript_key PRIMARY KEY USING INDEX transcript_key;
ALTER TABLE journal
    DROP CONSTRAINT journal_goal_id_fkey,
    DROP CONSTRAINT journal_tenant_id_fkey,
    DROP CONSTRAINT journal_pkey,
    ADD CONSTRAINT journal_key PRIMARY KEY USING INDEX journal_key;
ALTER TABLE sub_goals
    DROP CONSTRAINT sub_goals_goal_id_fkey,
    DROP CONSTRAINT sub_goals_tenant_id_fkey,
    DROP CONSTRAINT sub_goals_pkey,
    ADD CONSTRAINT sub_goals_key PRIMARY KEY USING INDEX sub_goals_key;
ALTER TABLE todos
    DROP CONSTRAINT todos_turn_id_fkey,
    DROP CONSTRAINT todos_pkey,
    ADD CONSTRAINT todos_key PRIMARY KEY USING INDEX todos_key;
ALTER TABLE runs
    DROP CONSTRAINT runs_turn_id_fkey,
    DROP CONSTRAINT runs_parent_run_id_fkey,
    DROP CONSTRAINT runs_goal_id_fkey,
    DROP CONSTRAINT runs_pkey,
    ADD CONSTRAINT runs_key PRIMARY KEY USING INDEX runs_key;
ALTER TABLE turns
    DROP CONSTRAINT turns_conversation_id_fkey,
    DROP CONSTRAINT turns_tenant_id_fkey,
    DROP CONSTRAINT turns_pkey,
    ADD CONSTRAINT turns_key PRIMARY KEY USING INDEX turns_key;
ALTER TABLE goals
    DROP CONSTRAINT goals_pkey,
    ADD CONSTRAINT goals_key PRIMARY KEY USING INDEX goals_key;
ALTER TABLE conversations
    DROP CONSTRAINT conversations_pkey,
    ADD CONSTRAINT conversations_key PRIMARY KEY USING INDEX conversations_key;
ALTER TABLE audit
    DROP CONSTRAINT audit_pkey,
    ADD CONSTRAINT audit_key PRIMARY KEY USING INDEX audit_key;
ALTER TABLE events
    DROP CONSTRAINT events_pkey,
    ADD CONSTRAINT events_key PRIMARY KEY USING INDEX events_key;
ALTER TABLE jobs
    DROP CONSTRAINT jobs_pkey,
    ADD CONSTRAINT jobs_key PRIMARY KEY USING INDEX jobs_key;
ALTER TABLE memory_entries
    DROP CONSTRAINT memory_entries_pkey,
    ADD CONSTRAINT memory_entries_key PRIMARY KEY USING INDEX memory_entries_key;
ALTER TABLE receipts
    DROP CONSTRAINT receipts_pkey,
    ADD CONSTRAINT receipts_key PRIMARY KEY USING INDEX receipts_key;
ALTER TABLE schedules
    DROP CONSTRAINT schedules_pkey,
    ADD CONSTRAINT schedules_key PRIMARY KEY USING INDEX schedules_key;
ALTER TABLE tokens
    DROP CONSTRAINT tokens_pkey,
    ADD CONSTRAINT tokens_key PRIMARY KEY USING INDEX tokens_key;

-- Indexes that the keys replace, and four that only the former foreign keys needed.
DROP INDEX CONCURRENTLY IF EXISTS approvals_of_call;
DROP INDEX CONCURRENTLY IF EXISTS planning_cycles_one_at_a_time;
DROP INDEX CONCURRENTLY IF EXISTS audit_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS conversations_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS events_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS goals_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS memory_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS notices_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS receipts_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS tokens_of_tenant;
DROP INDEX CONCURRENTLY IF EXISTS messages_by_conversation;
DROP INDEX CONCURRENTLY IF EXISTS runs_by_turn;
DROP INDEX CONCURRENTLY IF EXISTS todos_by_turn;
DROP INDEX CONCURRENTLY IF EXISTS turns_by_conversation;
