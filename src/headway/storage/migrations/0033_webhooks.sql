-- Subscriptions to the event log. The job that delivers has the id of the webhook. `kinds` is a JSON list of event kinds, empty: all.
-- `sent_to` is the number of the last event that was delivered or did not match. `secrets` is a JSON list of signing secrets, the
-- newest first, with the time at which each ends (0: never). `recent` is a JSON list of the last attempts.
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
