"""What is particular to Postgres."""
