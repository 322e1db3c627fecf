-- Sub-goals have short titles, and know the plan that dropped them or replaced their outcome (0: they are part of the current plan).
ALTER TABLE sub_goals ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE sub_goals ADD COLUMN superseded_by BIGINT NOT NULL DEFAULT 0;
-- The next plan that added something after the sub-goal had ended; for one that was dropped, the last plan if none did.
UPDATE sub_goals SET superseded_by = COALESCE((SELECT MIN(later.plan_no) FROM sub_goals later WHERE later.tenant_id = sub_goals.tenant_id
        AND later.goal_id = sub_goals.goal_id AND later.plan_no > sub_goals.plan_no AND later.created_at >= sub_goals.ended_at),
        CASE WHEN status = 'skipped' THEN (SELECT plan_no FROM goals WHERE goals.tenant_id = sub_goals.tenant_id
            AND goals.id = sub_goals.goal_id) ELSE 0 END)
    WHERE (status = 'skipped' AND reason <> 'The goal was abandoned.') OR status = 'failed'
        OR (status = 'completed' AND divergence = 'major');

-- How many sub-goals are in the current plan, and the outcomes of how many of those count.
ALTER TABLE goals ADD COLUMN in_plan BIGINT NOT NULL DEFAULT 0;
ALTER TABLE goals ADD COLUMN done BIGINT NOT NULL DEFAULT 0;
-- The goal that a person ran again; 0: none.
ALTER TABLE goals ADD COLUMN repeat_of BIGINT NOT NULL DEFAULT 0;
UPDATE goals SET
    in_plan = (SELECT COUNT(*) FROM sub_goals WHERE tenant_id = goals.tenant_id AND goal_id = goals.id AND superseded_by = 0),
    done = (SELECT COUNT(*) FROM sub_goals WHERE tenant_id = goals.tenant_id AND goal_id = goals.id AND superseded_by = 0
        AND status = 'completed' AND (divergence IS NULL OR divergence <> 'major'));
