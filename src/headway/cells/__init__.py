"""Several Postgres databases, each with some of the tenants: opens them, and does what concerns more than one."""
