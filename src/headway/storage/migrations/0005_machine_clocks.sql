-- What to add to what a machine counts since it was started, to get the time of day as it was when Headway first wrote here after
-- that start. Leases, signs of life and delays are kept by it: it does not jump when somebody sets the clock.

CREATE TABLE machine_clocks (
    boot_id TEXT PRIMARY KEY,
    ahead_ms BIGINT NOT NULL
);
