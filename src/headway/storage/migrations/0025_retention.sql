-- Rows that are older than the retention setting are deleted in the background. The highest number of an event that was deleted for
-- its age, and when that event was logged. A reader that asks for older events is told so.
ALTER TABLE tenants ADD COLUMN log_pruned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN log_pruned_at BIGINT NOT NULL DEFAULT 0;

-- When the transcript and the tool calls of an ended run were deleted; 0: they are there.
ALTER TABLE runs ADD COLUMN pruned_at BIGINT NOT NULL DEFAULT 0;

-- When a task that one process does for all was last started.
CREATE TABLE housekeeping (
    task TEXT PRIMARY KEY,
    started_at BIGINT NOT NULL
);

-- What is old enough, oldest first.
CREATE INDEX runs_with_transcript ON runs (tenant_id, ended_at, id) WHERE ended_at <> 0 AND pruned_at = 0;
CREATE INDEX runs_of_ended_turns ON runs (tenant_id, ended_at, id)
    WHERE ended_at <> 0 AND turn_id IS NOT NULL AND parent_run_id IS NULL;
CREATE INDEX conversations_by_activity ON conversations (tenant_id, updated_at, id);
CREATE INDEX goals_ended ON goals (tenant_id, ended_at, id) WHERE ended_at <> 0;
CREATE INDEX receipts_of_tenant ON receipts (tenant_id, id);

-- Unfinished forks, which need the recorded results of another run or goal.
CREATE INDEX runs_replaying ON runs (tenant_id, replays) WHERE ended_at = 0 AND replays <> '';

-- The rows that are deleted with a conversation, a turn or a goal are found by these.
CREATE INDEX turns_by_conversation ON turns (conversation_id);
CREATE INDEX messages_by_conversation ON messages (conversation_id);
CREATE INDEX messages_by_turn ON messages (turn_id);
CREATE INDEX runs_by_turn ON runs (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX todos_by_turn ON todos (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX notices_by_turn ON notices (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX notices_by_goal ON notices (goal_id) WHERE goal_id IS NOT NULL;
CREATE INDEX planning_cycles_by_goal ON planning_cycles (goal_id);
