-- Slots are handed out tenant by tenant: the first waiting job of each.
CREATE INDEX jobs_due_of_tenant ON jobs (tenant_id, due_at, id) WHERE state IN ('queued', 'delayed');

-- How many bytes of text and files the tenant has stored. They are counted in the row that numbers the tenant's events, because every
-- change updates that row; in the rows of other kinds this stays 0. NULL: they were not counted yet.
ALTER TABLE id_ranges ADD COLUMN bytes BIGINT;
