"""Several Postgres databases, each with some of the tenants: opens them, and does the work that concerns more than one."""
