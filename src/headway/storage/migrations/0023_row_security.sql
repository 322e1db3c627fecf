-- Row-level security on Postgres compares the tenant_id of each row with the tenant of the transaction (storage/postgres/row_security.py adds
-- the policies to every table that has the column). So edges between sub-goals name their tenant, too.
ALTER TABLE sub_goal_edges ADD COLUMN tenant_id BIGINT NOT NULL DEFAULT 0;
UPDATE sub_goal_edges SET tenant_id = (SELECT tenant_id FROM sub_goals WHERE id = sub_goal_id);
