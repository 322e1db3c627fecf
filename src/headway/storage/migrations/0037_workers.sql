-- What a process that runs jobs says about itself: since when it runs, how many jobs it runs at once, and its version.
ALTER TABLE worker_leases ADD COLUMN started_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE worker_leases ADD COLUMN slots BIGINT NOT NULL DEFAULT 0;
ALTER TABLE worker_leases ADD COLUMN version TEXT NOT NULL DEFAULT '';
