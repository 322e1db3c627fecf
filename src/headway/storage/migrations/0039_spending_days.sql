-- What the model calls of a day cost, by model, role and goal. A call adds to its row in the transaction that stores the call, so that a
-- chart over months reads few rows, and the sums stay when old calls are deleted. `day` counts from 1970-01-01, in UTC; `goal_id` is 0 for
-- work without a goal.
CREATE TABLE spending_days (
    tenant_id BIGINT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    day BIGINT NOT NULL,
    model TEXT NOT NULL,
    role TEXT NOT NULL,
    goal_id BIGINT NOT NULL DEFAULT 0,
    calls BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, day, model, role, goal_id)
);
INSERT INTO spending_days
    (tenant_id, day, model, role, goal_id, calls, input_tokens, cached_tokens, cache_write_tokens, output_tokens, cost)
SELECT model_calls.tenant_id, model_calls.at / 86400000, model_calls.model, runs.role, COALESCE(runs.goal_id, 0), COUNT(*),
       SUM(model_calls.input_tokens), SUM(model_calls.cached_tokens), SUM(model_calls.cache_write_tokens),
       SUM(model_calls.output_tokens), SUM(model_calls.cost)
FROM model_calls JOIN runs ON runs.tenant_id = model_calls.tenant_id AND runs.id = model_calls.run_id
GROUP BY model_calls.tenant_id, model_calls.at / 86400000, model_calls.model, runs.role, COALESCE(runs.goal_id, 0);
