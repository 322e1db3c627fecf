-- 1: a done item of a turn that was deleted from the queue. The row stays, with its status; the queue no longer shows it.
ALTER TABLE todos ADD COLUMN dequeued BIGINT NOT NULL DEFAULT 0;
