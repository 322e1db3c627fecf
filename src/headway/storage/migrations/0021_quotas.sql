-- Slots are handed out tenant by tenant: the first waiting job of each.
CREATE INDEX jobs_due_of_tenant ON jobs (tenant_id, due_at, id) WHERE state IN ('queued', 'delayed');

-- How many bytes of text and files a tenant has stored. It is updated in the transaction that stores or deletes them.
CREATE TABLE tenant_usage (
    tenant_id BIGINT PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    bytes BIGINT NOT NULL DEFAULT 0
);
INSERT INTO tenant_usage (tenant_id, bytes) SELECT tenant_id, SUM(bytes) FROM (
    SELECT tenant_id, octet_length(data) AS bytes FROM events
    UNION ALL SELECT tenant_id, octet_length(message) FROM transcript
    UNION ALL SELECT tenant_id, octet_length(arguments) + octet_length(result) + octet_length(images) FROM effects
    UNION ALL SELECT tenant_id, octet_length(content) FROM messages
    UNION ALL SELECT tenant_id, octet_length(data) FROM attachments
    UNION ALL SELECT tenant_id, octet_length(text) FROM memory_entries
    UNION ALL SELECT tenant_id, octet_length(subject) + octet_length(description) + octet_length(completion_criteria)
        + octet_length(COALESCE(outcome, '')) + octet_length(checks) FROM todos
) stored GROUP BY tenant_id;
