-- Notices are done as soon as nobody has to respond any more. Those of the past, too.
CREATE INDEX open_notices ON notices (tenant_id, id) WHERE done_at = 0;
CREATE INDEX open_notices_by_url ON notices (tenant_id, url) WHERE done_at = 0;

UPDATE notices SET done_at = questions.answered_at FROM questions
    WHERE notices.done_at = 0 AND notices.tenant_id = questions.tenant_id
        AND notices.url = '/questions/' || CAST(questions.id AS TEXT) AND questions.state <> 'open';
UPDATE notices SET done_at = approvals.decided_at FROM approvals
    WHERE notices.done_at = 0 AND notices.tenant_id = approvals.tenant_id
        AND notices.url = '/approvals/' || CAST(approvals.id AS TEXT) AND NOT EXISTS (SELECT 1 FROM approvals other
            WHERE other.run_id = approvals.run_id AND other.n = approvals.n AND other.state = 'proposed');
UPDATE notices SET done_at = goals.updated_at FROM goals
    WHERE notices.done_at = 0 AND notices.tenant_id = goals.tenant_id AND notices.goal_id = goals.id
        AND notices.kind IN ('proposal', 'decision', 'fault') AND goals.status <> 'paused';
