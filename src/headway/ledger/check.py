"""Checks: what must hold before a todo, a sub-goal or a goal counts as done. And receipts, which say what was found."""

import json
import posixpath
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from headway.ledger import text
from headway.ledger.errors import Forbidden, Invalid, OperatorOnly
from headway.ledger.file_versions import split_path
from headway.ledger.parsing.addresses import parse_url
from headway.ledger.parsing.json_values import check_schema

Author = Literal["agent", "person", "admin", "operator"]
Proof = Literal["none", "unproven", "proven", "overridden", "broken"]
SubjectKind = Literal["todo", "sub_goal", "goal"]
Check = dict[str, Any]  # a checked definition: it has `kind`, the fields of its kind, and `by`

KINDS: Final = ("command", "file", "http", "outcome", "tool", "judge")
AUTHORS: Final[tuple[Author, ...]] = ("agent", "person", "admin", "operator")  # each may also change what the ones before it wrote
AUTHOR_NAMES: Final[Mapping[Author, str]] = {
    "agent": "an agent",
    "person": "a person",
    "admin": "an administrator",
    "operator": "the operator",
}
CHECKS_LIMIT: Final = 20  # per todo
DEFINITION_LIMIT: Final = 10_000  # characters of JSON in one check
SCHEMA_LIMIT: Final = 1_000  # keywords and values of a JSON Schema: validating costs as much as they times the value
DETAIL_LIMIT: Final = 4_000  # characters of a check's output that a receipt keeps
VERIFY_TODOS: Final = "verify_todos"  # the tool that runs the checks of completed todos again
TIMEOUT_LIMIT_S: Final = 600
DEFAULT_TIMEOUT_S: Final = 120

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


# The fields of each kind. The first is required.
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


def parse_check(value: Any, place: str, by: Author) -> Check:
    if not isinstance(value, dict):
        raise Invalid(f'{place} must be an object such as {{"kind": "command", "run": "pytest -q"}}.')
    kind = value.get("kind")
    if kind not in KINDS:
        raise Invalid(f"{place}.kind must be one of {', '.join(KINDS)}.")
    fields = FIELDS[kind]
    # A tool has a field `name` of its own; its check is known by that.
    known = {**fields} if "name" in fields else {**fields, "name": take_text}
    if unknown := sorted(str(name) for name in value.keys() - known.keys() - {"kind", "by"}):
        raise Invalid(f"{place}: a {kind} check has no field {text.to_one_line(unknown[0])[:80]!r}. It has {', '.join(known)}.")
    required = next(iter(fields))
    if value.get(required) is None:
        raise Invalid(f"{place}: a {kind} check needs {required}.")
    check: Check = {"kind": kind}
    for name, rule in known.items():
        if value.get(name) is not None:
            check[name] = rule(value[name], f"{place}.{name}")
    if check.get("exists") is False and (found := sorted({"contains", "sha256", "schema"} & check.keys())):
        raise Invalid(f"{place}: a file that must not exist cannot have {found[0]}.")
    if "folder" in check and not (check["folder"].startswith("/") or check["folder"][1:3] in (":\\", ":/")):
        raise Invalid(f"{place}.folder must be an absolute path.")
    if "folder" in check and by == "operator" and (problem := find_folder_problem(check["folder"])):
        raise Invalid(f"{place}.folder: {problem}")
    text.check_text(json.dumps(check, ensure_ascii=False), place, DEFINITION_LIMIT)
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


def replace_checks(old: Sequence[Check], new: Sequence[Check], by: Author) -> list[Check]:
    """Return the new list. A check that stays keeps its author, and one of a higher rank cannot be left out."""
    kept = [next((check for check in old if is_same(check, wanted)), wanted) for wanted in new]
    lost = next((check for check in find_higher(old, by) if check not in kept), None)
    if lost is not None:
        author = AUTHOR_NAMES[lost["by"]]
        raise Forbidden(f"The check {describe_check(lost)!r} was written by {author} and cannot be changed or removed here.")
    return kept


def find_higher(checks: Sequence[Check], by: Author) -> list[Check]:
    """Return the checks whose authors have a higher rank."""
    return [check for check in checks if AUTHORS.index(check["by"]) > AUTHORS.index(by)]


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


def is_same(check: Check, other: Check) -> bool:
    return {**check, "by": ""} == {**other, "by": ""}


def has_protected(checks: Sequence[Check]) -> bool:
    """Whether any of the checks were not written by an agent."""
    return any(check["by"] != "agent" for check in checks)


def describe_check(check: Check) -> str:
    """Return the check's name, or a short form of what it does."""
    if check["kind"] != "tool" and check.get("name"):
        return str(check["name"])
    subject = check[next(iter(FIELDS[check["kind"]]))]
    return text.to_one_line(f"{check['kind']} {subject if isinstance(subject, str) else json.dumps(subject)}")[:120]


def encode_checks(checks: Sequence[Check]) -> str:
    """Encode for storage. No checks are an empty text."""
    return json.dumps(checks, ensure_ascii=False, separators=(",", ":")) if checks else ""


def decode_checks(stored: str) -> list[Check]:
    return json.loads(stored) if stored else []


class CheckResult(NamedTuple):
    """What one check found."""

    check: Check
    ok: bool
    detail: str
    duration_ms: int = 0
    is_opinion: bool = False  # a model's judgement
    exit_code: int | None = None
    hashes: Mapping[str, str] = {}  # of the files that it looked at, by path

    def as_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "ok": self.ok,
            "detail": self.detail,
            "duration_ms": self.duration_ms,
            "opinion": self.is_opinion,
            "exit_code": self.exit_code,
            "files": dict(self.hashes),
        }


def decode_result(document: Mapping[str, Any]) -> CheckResult:
    fields = (document[name] for name in ("check", "ok", "detail", "duration_ms", "opinion", "exit_code", "files"))
    return CheckResult(*fields)


class ReceiptDraft(NamedTuple):
    """The results of a subject's checks, before they are stored."""

    subject: SubjectKind
    subject_id: int
    results: tuple[CheckResult, ...]
    versions: Mapping[str, str]
    made_by: str
    run_id: str | None = None

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.results)

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "results": [result.as_json() for result in self.results], "versions": dict(self.versions)}

    def covers(self, checks: Sequence[Check]) -> bool:
        """Whether these are the results of exactly these checks."""
        return [result.check for result in self.results] == list(checks)

    def list_failures(self) -> list[dict[str, str]]:
        return [{"check": describe_check(result.check), "detail": result.detail} for result in self.results if not result.ok]


def decode_draft(document: Mapping[str, Any]) -> ReceiptDraft:
    return ReceiptDraft(**{**document, "results": tuple(map(decode_result, document["results"]))})


class Receipt(NamedTuple):
    id: int
    subject: SubjectKind
    subject_id: int
    ok: bool
    results: str  # JSON
    versions: str  # JSON
    override: str  # why a person completed it without the checks; empty if the checks passed or failed
    made_by: str
    run_id: str | None
    seq: int
    at: int

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            self.subject + "_id": self.subject_id,
            "ok": self.ok,
            "checks": json.loads(self.results),
            "versions": json.loads(self.versions),
            "override": self.override or None,
            "made_by": self.made_by,
            "run_id": self.run_id,
            "seq": self.seq,
            "at": self.at // 1000,
        }


def describe_failures(failures: Sequence[Mapping[str, str]]) -> str:
    """Describe the failed checks, with their output, for a model or a person."""
    return "\n".join(f"Check failed: {failure['check']}\n{failure['detail']}".rstrip() for failure in failures)
