"""The parts of storage that only Postgres needs."""
