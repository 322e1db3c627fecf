-- What a goal would have to count at every checkpoint is kept: its sub-goals by status.
ALTER TABLE goals ADD COLUMN pending BIGINT NOT NULL DEFAULT 0;
ALTER TABLE goals ADD COLUMN in_progress BIGINT NOT NULL DEFAULT 0;
ALTER TABLE goals ADD COLUMN completed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE goals ADD COLUMN failed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE goals ADD COLUMN skipped BIGINT NOT NULL DEFAULT 0;
UPDATE goals SET
    pending = (SELECT COUNT(*) FROM sub_goals WHERE goal_id = goals.id AND status = 'pending'),
    in_progress = (SELECT COUNT(*) FROM sub_goals WHERE goal_id = goals.id AND status = 'in-progress'),
    completed = (SELECT COUNT(*) FROM sub_goals WHERE goal_id = goals.id AND status = 'completed'),
    failed = (SELECT COUNT(*) FROM sub_goals WHERE goal_id = goals.id AND status = 'failed'),
    skipped = (SELECT COUNT(*) FROM sub_goals WHERE goal_id = goals.id AND status = 'skipped');

-- How many of those that a sub-goal builds on are not done, or not found to be as expected; and how many never will be.
ALTER TABLE sub_goals ADD COLUMN waits_for BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sub_goals ADD COLUMN waits_in_vain BIGINT NOT NULL DEFAULT 0;
CREATE INDEX sub_goal_edges_above ON sub_goal_edges (depends_on);
UPDATE sub_goals SET
    waits_for = (SELECT COUNT(*) FROM sub_goal_edges JOIN sub_goals below ON below.id = depends_on
        WHERE sub_goal_id = sub_goals.id AND (below.status <> 'completed' OR below.divergence IS NULL)),
    waits_in_vain = (SELECT COUNT(*) FROM sub_goal_edges JOIN sub_goals below ON below.id = depends_on
        WHERE sub_goal_id = sub_goals.id AND below.status IN ('failed', 'skipped'));

-- What a step of a pursuit looks at, however many sub-goals the goal has: what is at work or not judged yet, what is ready (the
-- worthiest first), what makes the plan doubtful, what was done last.
CREATE INDEX sub_goals_at_hand ON sub_goals (goal_id, id)
    WHERE status = 'in-progress' OR (status IN ('completed', 'failed') AND divergence IS NULL);
CREATE INDEX sub_goals_ready ON sub_goals (goal_id, mode, (priority * expected_value) DESC, id)
    WHERE status = 'pending' AND waits_for = 0;
CREATE INDEX sub_goals_diverged ON sub_goals (goal_id, judged_under) WHERE divergence IN ('minor', 'major');
CREATE INDEX sub_goals_in_vain ON sub_goals (goal_id) WHERE status = 'pending' AND waits_in_vain > 0;
CREATE INDEX sub_goals_done ON sub_goals (goal_id, id) WHERE status = 'completed';
