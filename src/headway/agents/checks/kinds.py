"""What each kind of check does. A function gets the definition and returns what it found; it raises Invalid if it cannot tell."""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from headway.agents.checks.folders import get_folder
from headway.agents.checks.validation import find_mismatch
from headway.agents.tools import web
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.execution import Execution
from headway.agents.tools.files.contents import HASH_LIMIT, hash_entry
from headway.agents.tools.files.folders import open_folder, translate_errors
from headway.agents.tools.programs import shell
from headway.agents.tools.programs.own_programs import list_program_paths
from headway.ledger.check import DEFAULT_TIMEOUT_S, DETAIL_LIMIT, Check, split_command
from headway.ledger.errors import HeadwayError, Invalid, NotFound
from headway.ledger.files.paths import split_path
from headway.ledger.run import Sandbox

FILE_LIMIT: Final = 1_000_000  # bytes of a file whose content is compared; the hash covers the whole file
NO_SANDBOX: Final = (
    "It was not run: there is no sandbox here. Install bubblewrap (see `headway doctor`), or have a person override the check."
)

NOT_FOUND: Final = 127  # a shell's exit code for a program that it cannot find
NOT_FOUND_ADVICE: Final = (
    "A check sees the programs in the PATH of the process that runs it. Install the program, activate its environment, or add its "
    "folder to HEADWAY_SANDBOX_READ and name it by its path."
)


class CheckFinding(NamedTuple):
    ok: bool
    detail: str
    exit_code: int | None = None
    hashes: Mapping[str, str] = {}


def check_file(check: Check, workspace: str, sandbox: Sandbox, canceled: threading.Event | None = None) -> CheckFinding:
    path = check["path"]
    parts = split_path(path)
    wants_file, place = check.get("exists", True), get_folder(check, workspace, sandbox, parts)
    try:
        with translate_errors(path), open_folder(place, parts[:-1]) as folder:
            file = hash_entry(folder, parts[-1], path, FILE_LIMIT)
    except (NotFound, FileNotFoundError):  # the second: the workspace itself, where nothing was ever written
        return CheckFinding(not wants_file, f"There is no {path} in {place if check['by'] == 'operator' else 'the workspace'}.")
    hashes = {path: file.digest} if file.digest else {}
    if not wants_file:
        return CheckFinding(ok=False, detail=f"{path} exists.", hashes=hashes)
    if "sha256" in check and not file.digest:
        raise Invalid(f"{path} is larger than {HASH_LIMIT:,} bytes.")
    if "sha256" in check and file.digest != check["sha256"]:
        return CheckFinding(ok=False, detail=f"{path} has changed: its SHA-256 hash is {file.digest}.", hashes=hashes)
    if "contains" in check or "schema" in check:
        if file.size > FILE_LIMIT:
            raise Invalid(f"{path} is larger than {FILE_LIMIT:,} bytes.")
        if problem := find_content_problem(check, file.beginning.decode(errors="replace"), canceled):
            return CheckFinding(ok=False, detail=f"{path} {problem}", hashes=hashes)
    return CheckFinding(ok=True, detail=f"{path}: {file.size:,} bytes.", hashes=hashes)


def find_content_problem(check: Check, content: str, canceled: threading.Event | None) -> str:
    if "contains" in check and check["contains"] not in content:
        return f"does not contain {check['contains'][:200]!r}."
    if "schema" not in check:
        return ""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return "is not valid JSON."
    mismatch = find_mismatch(document, check["schema"], canceled)
    return f"does not fit the schema: {mismatch}" if mismatch else ""


def check_command(check: Check, execution: Execution, access: ExternalAccess, canceled: threading.Event) -> CheckFinding:
    """Run a program, without network. Only the operator's checks may use a shell and programs that are not allowed elsewhere."""
    sandbox = execution.sandbox._replace(has_network=False)
    if check["by"] == "operator":
        sandbox = sandbox._replace(readable=(*sandbox.readable, *list_program_paths()))
    command = build_command(check, access)
    folder = get_folder(check, execution.workspace, sandbox)
    if "folder" in check and not os.path.isdir(folder):
        raise Invalid(f"The folder {check['folder']} does not exist.")
    limit_s = check.get("timeout_s", DEFAULT_TIMEOUT_S)
    result = shell.run(command, folder, sandbox, limit_s, canceled=canceled)
    tail, wanted = result.output[-DETAIL_LIMIT:].strip(), check.get("exit", 0)
    problem = ""
    if result.exit_code != wanted:
        problem = f"It ended with {result.exit_code}, not {wanted}. {tail}"
        if result.exit_code == NOT_FOUND and check["by"] == "operator":
            problem = f"{problem.rstrip()}\n{NOT_FOUND_ADVICE}"
    elif "expect" in check and check["expect"] not in result.output:
        problem = f"Its output does not contain {check['expect'][:200]!r}. {tail}"
    return CheckFinding(not problem, problem.rstrip() or tail, result.exit_code)


def build_command(check: Check, access: ExternalAccess) -> list[str]:
    if check["by"] == "operator":
        return ["/bin/sh", "-c", check["run"]]
    parts = split_command(check["run"])
    return [shell.resolve_program(parts[0], access.commands, access.sandbox), *parts[1:]]


def check_http(check: Check, hosts: Sequence[str]) -> CheckFinding:
    if not hosts:
        raise Invalid("No hosts are allowed here. The operator allows them with HEADWAY_HTTP_ALLOW.")
    wanted = check.get("status", 200)
    try:
        page = web.fetch(check["url"], hosts)
    except HeadwayError as error:
        return CheckFinding(ok=False, detail=str(error))
    if page["status"] != wanted:
        return CheckFinding(ok=False, detail=f"The status is {page['status']}, not {wanted}.")
    for path, value in check.get("json", {}).items():
        try:
            found = find_value(json.loads(page["text"]), path)
        except (ValueError, RecursionError):
            return CheckFinding(ok=False, detail="The answer is not valid JSON.")
        except LookupError:
            return CheckFinding(ok=False, detail=f"The answer has no {path}.")
        if found != value:
            return CheckFinding(ok=False, detail=f"{path} is {json.dumps(found)[:200]}, not {json.dumps(value)[:200]}.")
    return CheckFinding(ok=True, detail=f"Status {page['status']}.")


def find_value(document: Any, path: str) -> Any:
    """Return the value at a path such as `items.0.name`. Raises LookupError if there is none."""
    for part in path.removeprefix("$.").split("."):
        if isinstance(document, list):
            document = document[int(part)] if part.isascii() and part.isdigit() else document[len(document)]
        elif isinstance(document, dict):
            document = document[part]
        else:
            raise LookupError(path)
    return document


def check_outcome(check: Check, outcome: Any, canceled: threading.Event) -> CheckFinding:
    """Validate the outcome's data. An outcome that is text counts as JSON if it is, and else as the text itself."""
    if isinstance(outcome, str):
        with suppress(ValueError, RecursionError):
            outcome = json.loads(outcome)
    mismatch = find_mismatch(outcome, check["schema"], canceled)
    detail = f"The outcome does not fit the schema: {mismatch}" if mismatch else "The outcome fits the schema."
    return CheckFinding(not mismatch, detail)
