"""Checks: conditions that must hold before a todo, a sub-goal or a goal counts as done. And receipts, which have their results."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from headway.ledger import text
from headway.ledger.errors import Forbidden

Author = Literal["agent", "person", "admin", "operator"]
Proof = Literal["none", "unproven", "proven", "overridden", "broken"]
SubjectKind = Literal["todo", "sub_goal", "goal"]
Check = dict[str, Any]  # a checked definition: it has `kind`, the fields of its kind, and `by`

# The field that a check of each kind must have, and is known by.
REQUIRED_FIELDS: Final[Mapping[str, str]] = {
    "command": "run",
    "file": "path",
    "http": "url",
    "outcome": "schema",
    "tool": "name",
    "judge": "rubric",
}
AUTHORS: Final[tuple[Author, ...]] = ("agent", "person", "admin", "operator")  # each may also change what the ones before it wrote
AUTHOR_NAMES: Final[Mapping[Author, str]] = {
    "agent": "an agent",
    "person": "a person",
    "admin": "an administrator",
    "operator": "the operator",
}
DETAIL_LIMIT: Final = 4_000  # characters of a check's output that a receipt keeps
VERIFY_TODOS: Final = "verify_todos"  # the tool that runs the checks of completed todos again
DEFAULT_TIMEOUT_S: Final = 120


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


def is_same(check: Check, other: Check) -> bool:
    return {**check, "by": ""} == {**other, "by": ""}


def has_protected(checks: Sequence[Check]) -> bool:
    """Whether any of the checks were not written by an agent."""
    return any(check["by"] != "agent" for check in checks)


def describe_check(check: Check) -> str:
    """Return the check's name, or a short form of what it does."""
    if check["kind"] != "tool" and check.get("name"):
        return str(check["name"])
    subject = check[REQUIRED_FIELDS[check["kind"]]]
    return text.to_one_line(f"{check['kind']} {subject if isinstance(subject, str) else json.dumps(subject)}")[:120]


def encode_checks(checks: Sequence[Check]) -> str:
    """Encode for storage. No checks are an empty text."""
    return json.dumps(checks, ensure_ascii=False, separators=(",", ":")) if checks else ""


def decode_checks(stored: str) -> list[Check]:
    return json.loads(stored) if stored else []


class CheckResult(NamedTuple):
    """The result of one check."""

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

    def supports(self, proof: Proof) -> bool:
        """Whether something can have this proof because of the receipt."""
        states = {"proven": self.ok, "overridden": bool(self.override), "broken": not self.ok and not self.override}
        return states.get(proof, False)

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
