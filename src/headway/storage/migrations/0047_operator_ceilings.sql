-- The limit that the operator has set for a tenant. The tenant's administrator may set a lower one, which is `ceiling`. Until now only
-- operators could set one.
ALTER TABLE pools ADD COLUMN operator_ceiling BIGINT;
UPDATE pools SET operator_ceiling = ceiling;
