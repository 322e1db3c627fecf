"""Transactions on both databases, files of the home, migrations."""
