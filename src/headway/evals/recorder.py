"""Turns a finished turn into a case: its message, the files that it found, its recorded calls, and checks for what it did."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from headway.actions.history import timeline
from headway.actions.history.timeline import TimelineView
from headway.actions.runs import runs
from headway.actions.todos import todo_lists
from headway.actions.turns import turns
from headway.actions.turns.live_text import LiveText
from headway.agents.policy_file import quote
from headway.agents.tools.programs.tools import RUN_COMMAND
from headway.evals.recordings import Recording, TraceCollector, keep_outside_calls
from headway.evals.suite import Suite, parse_suite
from headway.ledger.check import Check, decode_checks
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.limits import Limits
from headway.ledger.scope import Selection
from headway.ledger.text import MAX_INTEGER, Redactor, to_one_line
from headway.storage.transaction import Transaction

PAGE: Final = 500
INLINE_LIMIT: Final = 20_000  # characters of all files that are written into the suite; more go into a folder
FILES_LIMIT: Final = 200
FILE_LIMIT: Final = 1_000_000  # bytes
RECORDINGS: Final = "recordings"
CHANGING_TOOLS: Final = ("write_file", "edit_file")
WORDS: Final = re.compile(r"[a-z0-9]{1,30}")


class TurnRecord(NamedTuple):
    """The material of a case."""

    turn: dict[str, Any]
    role: str
    answer: str
    recording: Recording
    calls: tuple[dict[str, Any], ...]  # all calls, also the ones that a replay makes
    checks: tuple[Check, ...]  # of the turn's todos


def load_turn(tx: Transaction, tenant_id: int, turn_id: str, limits: Limits) -> TurnRecord:
    turn = turns.show_turn(tx, tenant_id, turn_id, limits)
    if turn["status"] != "finished":
        raise Conflict(f"Turn {turn_id} is {turn['status']}. Only a finished turn can become a case.")
    trace, run_id = TraceCollector(), ""
    for entry in list_entries(tx, tenant_id, turn["conversation_id"], limits):
        if entry["data"].get("turn_id") != turn["id"]:
            continue
        trace.take(entry["kind"], entry["data"])
        if entry["kind"] == "turn_started":
            run_id = entry["data"]["run_id"]
    if not run_id:
        raise Conflict(f"Turn {turn_id} is driven by an agent loop outside Headway, so its steps are not recorded.")
    answer = turn["answer"] or ""
    todos = todo_lists.list_todos(tx, tenant_id, Selection(turn_id=turn["id"]), PAGE).todos
    checks = tuple(check for todo in todos for check in decode_checks(todo.checks))
    recording = Recording(keep_outside_calls(trace.calls), tuple(trace.list_steps(run_id, answer)))
    return TurnRecord(turn, runs.get_run(tx, tenant_id, run_id).role, answer, recording, tuple(trace.calls), checks)


def list_entries(tx: Transaction, tenant_id: int, conversation_id: int, limits: Limits) -> list[dict[str, Any]]:
    """List all entries of a conversation's timeline, oldest first."""
    entries: list[dict[str, Any]] = []
    before = MAX_INTEGER
    while True:
        page = timeline.show_timeline(tx, tenant_id, conversation_id, TimelineView(limits, LiveText(), PAGE, before))["entries"]
        entries[:0] = page
        if len(page) < PAGE:
            return entries
        before = page[0]["seq"]


# Files


class FoundFiles(NamedTuple):
    contents: dict[str, str]  # by path, as the turn found them
    unknown: tuple[str, ...] = ()  # files that the turn changed without reading them


def find_files(record: TurnRecord, workspace: str) -> FoundFiles:
    """Find the files of the workspace as they were: files that the turn did not change, and what it read before its changes."""
    changed: set[str] = set()
    contents: dict[str, str] = {}
    for call in record.calls:
        if call["is_error"] or not isinstance(call["arguments"], dict) or not isinstance(call["arguments"].get("path"), str):
            continue
        path = os.path.normpath(call["arguments"]["path"])
        if call["tool"] == "read_file" and path not in changed and is_whole(call["result"]):
            contents.setdefault(path, call["result"]["content"])
        elif call["tool"] in CHANGING_TOOLS:
            changed.add(path)
    edited = {
        os.path.normpath(call["arguments"]["path"]) for call in record.calls if call["tool"] == "edit_file" and not call["is_error"]
    }
    for path, content in read_workspace(workspace):
        if path not in changed:
            contents.setdefault(path, content)
    return FoundFiles(contents, tuple(sorted(edited - contents.keys())))


def is_whole(result: Any) -> bool:
    return isinstance(result, dict) and isinstance(result.get("content"), str) and not result.get("truncated")


def read_workspace(workspace: str) -> Iterator[tuple[str, str]]:
    """Read the text files of a workspace, without links."""
    paths = (Path(folder, name) for folder, _, names in sorted(os.walk(workspace)) for name in sorted(names))
    for number, path in enumerate(path for path in paths if path.is_file() and not path.is_symlink()):
        if number >= FILES_LIMIT:
            return
        try:
            if path.stat().st_size <= FILE_LIMIT:
                yield str(path.relative_to(workspace)), path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # not text, or not ours to read


def propose_checks(record: TurnRecord, workspace: str) -> list[Check]:
    """Propose the checks of the turn's todos, and the hashes of the files that it wrote."""
    known = [{name: value for name, value in check.items() if name not in ("by", "folder")} for check in record.checks]
    hashes: dict[str, str] = {}
    for call in record.calls:
        if call["tool"] in CHANGING_TOOLS and not call["is_error"]:
            path = os.path.normpath(call["arguments"]["path"])
            if call["tool"] == "write_file":
                hashes[path] = sha256(call["arguments"]["content"].encode()).hexdigest()
            elif Path(workspace, path).is_file():
                hashes[path] = sha256(Path(workspace, path).read_bytes()).hexdigest()
    return [*known, *({"kind": "file", "path": path, "sha256": digest} for path, digest in hashes.items())]


# The suite


class NewCase(NamedTuple):
    name: str
    stanza: str
    recording: Recording
    files: Mapping[str, str]  # the files that go into a folder; empty if the stanza has them
    notes: tuple[str, ...] = ()

    @property
    def recording_path(self) -> str:
        return f"{RECORDINGS}/{make_file_name(self.name)}.json"


def build_case(record: TurnRecord, name: str, workspace: str, redact: Redactor) -> NewCase:
    found = find_files(record, workspace)
    files = {redact(path): redact(content) for path, content in found.contents.items()}
    inline = sum(map(len, files.values())) <= INLINE_LIMIT
    folder = f"{RECORDINGS}/{make_file_name(name)}-files"
    notes = [f"The content of {redact(path)} before the turn is not known; add it to files." for path in found.unknown]
    if record.turn["outcome"] not in ("answered", "drained"):
        notes.append(f"The turn ended as {record.turn['outcome']}. Change `ends` if it should end otherwise.")
    lines = ["", "[[case]]", f"name = {quote(name)}"]
    lines += [f"# {note}" for note in map(to_one_line, notes)]
    lines.append(f"message = {format_text(redact(record.turn['request']))}")
    lines += [f"mode = {quote(record.turn['mode'])}"] if record.turn["mode"] != "plan" else []
    lines += [f"role = {quote(record.role)}"] if record.role != "index" else []
    lines.append(f"ends = [{quote(record.turn['outcome'])}]")
    for field, values in list_access(record).items():
        lines += [f"{field} = {format_value(values)}"] if values else []
    lines.append(f"recording = {quote(f'{RECORDINGS}/{make_file_name(name)}.json')}")
    lines += [f"files = {quote(folder)}"] if files and not inline else []
    lines += ["checks = [", *(f"    {redact(format_value(check))}," for check in propose_checks(record, workspace)), "]"]
    if files and inline:
        lines += ["[case.files]", *(f"{quote(path)} = {format_text(content)}" for path, content in files.items())]
    recording = Recording(*redact_recording(record.recording, redact))
    return NewCase(name, "\n".join(lines) + "\n", recording, {} if inline else files, tuple(notes))


def redact_recording(recording: Recording, redact: Redactor) -> tuple[Any, Any]:
    calls = json.loads(redact(json.dumps(recording.calls, ensure_ascii=False)))
    trace = [step._replace(arguments=redact(step.arguments), result=redact(step.result)) for step in recording.trace]
    return tuple(calls), tuple(trace)


def list_access(record: TurnRecord) -> dict[str, list[str]]:
    """List the programs and hosts that the turn used."""
    programs = {call["arguments"]["command"][0] for call in record.calls if call["tool"] == RUN_COMMAND and not call["is_error"]}
    urls = [call["arguments"]["url"] for call in record.calls if call["tool"] == "http_get" and not call["is_error"]]
    return {"commands": sorted(programs), "http_allow": sorted({urlsplit(url).hostname or "" for url in urls} - {""})}


def choose_name(message: str, suite: Suite | None, wanted: str | None) -> str:
    taken = {case.name for case in suite.cases} if suite else set()
    if wanted is not None:
        if wanted in taken:
            raise Conflict(f"The suite already has a case named {wanted[:80]!r}.")
        return wanted
    base = "-".join(WORDS.findall(message.lower())[:5]) or "case"
    return next(name for name in (base, *(f"{base}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)


def make_file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:80] or "case"


def load_existing(path: Path) -> tuple[str, Suite | None]:
    if not path.exists():
        return f"name = {quote(path.stem)}\n", None
    content = path.read_text(encoding="utf-8")
    has_cases = "[[case]]" in content
    return content, parse_suite(content, str(path), str(path.parent)) if has_cases else None


def append_case(path: Path, content: str, case: NewCase) -> None:
    """Add a case to a suite, with its recording and its files beside it. The suite is replaced only if the result is valid."""
    recording = path.parent / case.recording_path
    recording.parent.mkdir(parents=True, exist_ok=True)
    recording.write_text(json.dumps(case.recording.as_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    folder = recording.with_name(f"{recording.stem}-files")
    for name, text in case.files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="")
    extended = content.rstrip("\n") + "\n" + case.stanza
    parse_suite(extended, str(path), str(path.parent))
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(extended, encoding="utf-8")
    draft.replace(path)


# TOML


def format_text(content: str) -> str:
    """Format a text as TOML: over several lines if it has some and no character needs an escape."""
    is_plain = all(character == "\n" or character.isprintable() for character in content)
    if "\n" in content and is_plain and "'''" not in content and not content.endswith("'"):
        return f"'''\n{content}'''"
    return quote(content)


def format_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{format_key(name)} = {format_value(item)}' for name, item in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise Invalid("TOML has no null. Remove it from the check.")


def format_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quote(name)
