"""Faults of a real cluster: Postgres servers, PgBouncer and several workers, each in its own network namespace.

`make cluster` runs them. They are not part of `make test`, because they need Debian's packages, root, and half an hour.
"""
