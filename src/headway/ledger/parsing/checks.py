"""Definitions of checks, as callers write them."""

import json
import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headway.ledger import text
from headway.ledger.check import REQUIRED_FIELDS, VERIFY_TODOS, Author, Check, decode_checks, encode_checks, replace_checks
from headway.ledger.errors import Invalid, OperatorOnly
from headway.ledger.parsing.addresses import parse_url
from headway.ledger.parsing.json_values import check_schema
from headway.ledger.parsing.paths import split_path

CHECKS_LIMIT: Final = 20  # per todo
DEFINITION_LIMIT: Final = 10_000  # characters of JSON in one check
SCHEMA_LIMIT: Final = 1_000  # keywords and values of a JSON Schema: validating costs as much as they times the value
TIMEOUT_LIMIT_S: Final = 600
SYSTEM_FOLDERS: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys"),
    *("/usr/bin", "/usr/lib", "/usr/sbin", "/var/run", "/private/etc"),
)
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  folders in it are temporary files
HOME_PARENTS: Final = ("home", "Users")  # each folder in them is the home of a user

FieldRule = Callable[[Any, str], Any]


def take_text(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Invalid(f"{field} must be text that is not blank.")
    return text.check_text(value, field)


def take_boolean(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{field} must be true or false.")
    return value


def take_object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{field} must be a JSON object.")
    text.check_numbers(value, (field,))
    return value


def take_schema(value: Any, field: str) -> dict[str, Any] | bool:
    if isinstance(value, bool):
        return value
    schema = take_object(value, field)
    if count_parts(schema) > SCHEMA_LIMIT:
        raise Invalid(f"{field} may have at most {SCHEMA_LIMIT:,} keywords and values.")
    check_schema(schema, field)
    return schema


def count_parts(document: Any) -> int:
    """Count the members, elements and values of a JSON document, and everything in them."""
    count, waiting = 0, [document]
    while waiting:
        part = waiting.pop()
        count += 1
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return count


def build_number_rule(minimum: int, maximum: int) -> FieldRule:
    def take_number(value: Any, field: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise Invalid(f"{field} must be a whole number from {minimum} to {maximum}.")
        return value

    return take_number


def take_sha256(value: Any, field: str) -> str:
    digest = take_text(value, field).lower()
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Invalid(f"{field} must be a SHA-256 hash: 64 hexadecimal digits.")
    return digest


def take_path(value: Any, field: str) -> str:
    path = take_text(value, field)
    if not split_path(path, field):
        raise Invalid(f"{field} must name a file.")
    return path


def take_url(value: Any, field: str) -> str:
    url = take_text(value, field)
    parse_url(url, field)
    return url


def take_expected_values(value: Any, field: str) -> dict[str, Any]:
    expected = take_object(value, field)
    if any(not part for path in expected for part in path.split(".")):
        raise Invalid(f"{field}: each path is made of names and numbers with dots between them, such as items.0.name.")
    return expected


def take_tool(value: Any, field: str) -> str:
    name = take_text(value, field)
    if name == VERIFY_TODOS:
        raise Invalid(f"{field}: {VERIFY_TODOS} runs checks, so it cannot be one.")
    return name


# The fields of each kind.
FIELDS: Final[Mapping[str, Mapping[str, FieldRule]]] = {
    "command": {
        "run": take_text,
        "exit": build_number_rule(0, 255),
        "expect": take_text,
        "timeout_s": build_number_rule(1, TIMEOUT_LIMIT_S),
        "folder": take_text,
    },
    "file": {
        "path": take_path,
        "exists": take_boolean,
        "contains": take_text,
        "sha256": take_sha256,
        "schema": take_schema,
        "folder": take_text,
    },
    "http": {"url": take_url, "status": build_number_rule(100, 599), "json": take_expected_values},
    "outcome": {"schema": take_schema},
    "tool": {"name": take_tool, "arguments": take_object, "expect": take_text},
    "judge": {"rubric": take_text},
}


def parse_checks(value: Any, by: Author) -> list[Check]:
    """Check definitions as a caller sent them, and note who wrote them. Raises Invalid, naming the definition and the field."""
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > CHECKS_LIMIT:
        raise Invalid(f"checks must be a list of at most {CHECKS_LIMIT} checks.")
    return [parse_check(item, f"checks[{index}]", by) for index, item in enumerate(value)]


def parse_check(value: Any, field: str, by: Author) -> Check:
    if not isinstance(value, dict):
        raise Invalid(f'{field} must be an object such as {{"kind": "command", "run": "pytest -q"}}.')
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in REQUIRED_FIELDS:
        raise Invalid(f"{field}.kind must be one of {', '.join(REQUIRED_FIELDS)}.")
    fields = FIELDS[kind]
    # A tool has a field `name` of its own; its check is known by that.
    known = {**fields} if "name" in fields else {**fields, "name": take_text}
    if unknown := sorted(str(name) for name in value.keys() - known.keys() - {"kind", "by"}):
        raise Invalid(f"{field}: a {kind} check has no field {text.to_one_line(unknown[0])[:80]!r}. It has {', '.join(known)}.")
    required = REQUIRED_FIELDS[kind]
    if value.get(required) is None:
        raise Invalid(f"{field}: a {kind} check needs {required}.")
    check: Check = {"kind": kind}
    for name, rule in known.items():
        if value.get(name) is not None:
            check[name] = rule(value[name], f"{field}.{name}")
    if check.get("exists") is False and (found := sorted({"contains", "sha256", "schema"} & check.keys())):
        raise Invalid(f"{field}: a file that must not exist cannot have {found[0]}.")
    if "folder" in check and not (check["folder"].startswith("/") or check["folder"][1:3] in (":\\", ":/")):
        raise Invalid(f"{field}.folder must be an absolute path.")
    if "folder" in check and by == "operator" and (problem := find_folder_problem(check["folder"])):
        raise Invalid(f"{field}.folder: {problem}")
    text.check_text(json.dumps(check, ensure_ascii=False), field, DEFINITION_LIMIT)
    return {**check, "by": by}


def find_folder_problem(folder: str) -> str:
    """Return why no check may run in a folder: it holds the system, or the keys and settings of a user. Empty if one may."""
    path = posixpath.normpath(folder.replace("//", "/"))
    parts = path.split("/")[1:]
    below_home = parts[1:] if parts[0] == "root" else parts[2:] if parts[0] in HOME_PARENTS and len(parts) > 1 else None
    if below_home == [] or (below_home and below_home[0].startswith(".")):
        return (
            f"{text.to_one_line(folder)} holds the keys and settings of a user. Name a folder below it that holds the work alone."
        )
    if parts[0] in HOME_PARENTS and len(parts) == 1:
        return f"{text.to_one_line(folder)} holds the files of all users. Name a folder of one project."
    if path.startswith(f"{SHARED_MEMORY}/"):
        return ""
    if any(is_below(path, system) or is_below(system, path) for system in SYSTEM_FOLDERS):
        return f"{text.to_one_line(folder)} is a folder of the system. Name a folder of one project."
    return ""


def is_below(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it. Both are absolute and normal."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def refuse_operators_fields(checks: Sequence[Check]) -> None:
    """Refuse in checks that the operator did not write: folders outside the workspace, and commands that only a shell can read."""
    for index, check in enumerate(checks):
        if check["kind"] == "command" and check["by"] != "operator":
            split_command(check["run"], f"checks[{index}].run")
    authors = {check["by"] for check in checks if "folder" in check} - {"operator"}
    if authors == {"admin"}:
        raise OperatorOnly("checks: only the installation's operator may name a folder outside the workspace. Nothing was changed.")
    if authors:
        raise Invalid("checks: only the operator may name a folder outside the workspace.")


def split_command(command: str, field: str = "The command") -> list[str]:
    """Split a command that runs without a shell into its program and arguments."""
    try:
        parts = shlex.split(command)
    except ValueError:
        raise Invalid(f"{field} has a quotation mark without its pair.") from None
    if not parts:
        raise Invalid(f"{field} is empty.")
    return parts


def write_checks(value: Any, by: Author, old: str = "") -> str:
    """Return a caller's list of checks as JSON for a draft or a change. Raises Invalid or Forbidden if it may not replace `old`."""
    checks = parse_checks(value, by)
    checks = replace_checks(decode_checks(old), checks, by) if old else checks
    refuse_operators_fields(checks)
    return encode_checks(checks)
