-- The number of the advisory lock that the process's session with the Postgres server holds; 0: it has none, and only its heartbeats show
-- that it is alive.
ALTER TABLE worker_leases ADD COLUMN session_lock BIGINT NOT NULL DEFAULT 0;
