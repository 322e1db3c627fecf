"""The SQL, one module per aggregate."""
