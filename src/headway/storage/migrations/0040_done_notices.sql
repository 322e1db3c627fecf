-- When a person marked the notice as done; 0: it is open.
ALTER TABLE notices ADD COLUMN done_at BIGINT NOT NULL DEFAULT 0;
