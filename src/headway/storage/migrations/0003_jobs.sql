-- The engine room: jobs that keep things running, schedules that start them, and tokens that may throw the switch.

ALTER TABLE tokens ADD COLUMN operator BIGINT NOT NULL DEFAULT 0;
