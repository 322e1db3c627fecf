"""The role that owns test databases. It is not a superuser, because row-level security does not apply to superusers."""

import re
from contextlib import suppress
from typing import Any

import psycopg

ORDINARY_ROLE = "headway_tests"


def ensure_ordinary_role(admin: psycopg.Connection[Any]) -> str:
    """Return this role if it is bound by row-level security, and otherwise create one that is."""
    row = admin.execute("SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user").fetchone()
    assert row is not None
    if not row[1]:
        return str(row[0])
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        admin.execute(f"CREATE ROLE {ORDINARY_ROLE} LOGIN CREATEDB PASSWORD '{ORDINARY_ROLE}'".encode())
    return ORDINARY_ROLE


def replace_database(url: str, database: str) -> str:
    """The URL of another database on the same server: postgresql://user@host/NAME?options."""
    head, mark, options = url.partition("?")
    return f"{head.rpartition('/')[0]}/{database}{mark}{options}"


def build_owner_url(url: str, owner: str) -> str:
    """Return the URL with the owner's name and password."""
    return re.sub("://([^@/]*@)?", f"://{owner}:{owner}@", url, count=1) if owner == ORDINARY_ROLE else url
