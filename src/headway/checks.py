"""Checks for todos and goals, as functions with typed arguments: `checks=[headway.checks.command("pytest -q")]`.

Each returns the definition that REST, tools and files use; docs/checks.md describes what it means.
"""

from collections.abc import Mapping
from typing import Any

Check = dict[str, Any]


def command(
    run: str,
    *,
    exit: int | None = None,
    expect: str | None = None,
    timeout_s: int | None = None,
    folder: str | None = None,
    name: str | None = None,
) -> Check:
    """It is done only if this command ends with `exit` (0) and prints `expect`. Only the operator may name a folder."""
    return build("command", run=run, exit=exit, expect=expect, timeout_s=timeout_s, folder=folder, name=name)


def file(
    path: str,
    *,
    exists: bool | None = None,
    contains: str | None = None,
    sha256: str | None = None,
    schema: Mapping[str, Any] | bool | None = None,
    folder: str | None = None,
    name: str | None = None,
) -> Check:
    """It is done only if this file of the workspace exists, or does not, and has this text, this hash or JSON of this schema."""
    return build("file", path=path, exists=exists, contains=contains, sha256=sha256, schema=schema, folder=folder, name=name)


def http(url: str, *, status: int | None = None, json: Mapping[str, Any] | None = None, name: str | None = None) -> Check:
    """It is done only if this address answers with `status` (200), and with these values at these paths of its JSON."""
    return build("http", url=url, status=status, json=json, name=name)


def outcome(schema: Mapping[str, Any], *, name: str | None = None) -> Check:
    """It is done only if its outcome fits this JSON Schema."""
    return build("outcome", schema=schema, name=name)


def tool(name: str, arguments: Mapping[str, Any] | None = None, *, expect: str | None = None) -> Check:
    """It is done only if this tool, which must be safe to repeat, succeeds and its result contains `expect`."""
    return build("tool", name=name, arguments=arguments, expect=expect)


def judge(rubric: str, *, name: str | None = None) -> Check:
    """It is done only if a model says that it meets this rubric. The receipt marks this as an opinion."""
    return build("judge", rubric=rubric, name=name)


def build(kind: str, **fields: Any) -> Check:
    return {"kind": kind, **{field: value for field, value in fields.items() if value is not None}}
