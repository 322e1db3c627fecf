-- A tenant's todos of one status, the most recently changed first: for whoever browses the table itself.
CREATE INDEX todos_by_change ON todos (tenant_id, status, updated_at DESC);
