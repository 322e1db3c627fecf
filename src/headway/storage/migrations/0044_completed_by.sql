-- How a todo was completed: check, effect, agent or person. NULL: it is not completed, or was before this was recorded.
ALTER TABLE todos ADD COLUMN completed_by TEXT;
-- Who made a turn's plan: agent, request or person. It is here and not in `turns`, because the statement that appends the first item
-- writes this row anyway. NULL in lists that are no plan, and in older plans.
ALTER TABLE todo_lists ADD COLUMN plan_source TEXT;
