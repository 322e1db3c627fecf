"""Runs the checks of a todo: each kind in its folder, with a limit on how many run at a time."""

import asyncio
import json
import os
import platform
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from threading import Lock
from typing import Any, Final, NamedTuple

from headway.agents.instructions.roles import FAMILIES
from headway.agents.tools import web
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.execution import Execution, use_execution
from headway.agents.tools.external_calls import call_external, run_on_thread
from headway.agents.tools.files.contents import HASH_LIMIT, hash_entry
from headway.agents.tools.files.folders import open_folder, translate_errors
from headway.agents.tools.programs import shell
from headway.agents.tools.programs.sandbox import find_fault, list_program_paths
from headway.agents.tools.toolbox import Result, Toolbox, call_in_transaction
from headway.extras import requiring_extra
from headway.ledger.check import DEFAULT_TIMEOUT_S, DETAIL_LIMIT, VERIFY_TODOS, Check, CheckResult, ReceiptDraft, SubjectKind
from headway.ledger.errors import HeadwayError, Invalid, NotFound
from headway.ledger.limits import Sandbox
from headway.ledger.parsing.checks import find_folder_problem, is_below, split_command
from headway.ledger.parsing.paths import split_path
from headway.storage.stores.spending import ModelCall

PROCESS_LIMIT: Final = 12
TENANT_LIMIT: Final = 4


class CheckSlots:
    """The slots of a process. Several event loops may share them."""

    def __init__(self, process_limit: int = PROCESS_LIMIT, tenant_limit: int = TENANT_LIMIT) -> None:
        self.process_limit = process_limit
        self.tenant_limit = tenant_limit
        self.lock = Lock()
        self.running: dict[int, int] = {}  # by tenant
        self.queues: dict[int, deque[asyncio.Future[None]]] = {}  # of waiting checks, by tenant; the first tenant is the next

    @asynccontextmanager
    async def take(self, tenant_id: int) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the block."""
        turn = asyncio.get_running_loop().create_future()
        with self.lock:
            self.queues.setdefault(tenant_id, deque()).append(turn)
            self.admit()
        try:
            await turn
            yield
        finally:
            with self.lock:
                self.leave(tenant_id, turn)
                self.admit()

    def admit(self) -> None:
        """Give free slots to waiting checks: to each tenant in turn, up to its limit."""
        while sum(self.running.values()) < self.process_limit:
            tenant_id = next((one for one in self.queues if self.running.get(one, 0) < self.tenant_limit), None)
            if tenant_id is None:
                return
            queue = self.queues.pop(tenant_id)
            turn = queue.popleft()
            if queue:
                self.queues[tenant_id] = queue  # behind the other tenants
            with suppress(RuntimeError):  # its event loop was closed
                turn.get_loop().call_soon_threadsafe(wake, turn)
                self.running[tenant_id] = self.running.get(tenant_id, 0) + 1

    def leave(self, tenant_id: int, turn: "asyncio.Future[None]") -> None:
        """Give back the slot, or the place in the queue if there was none yet."""
        queue = self.queues.get(tenant_id, deque())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self.queues[tenant_id]
            return
        self.running[tenant_id] -= 1
        if not self.running[tenant_id]:
            del self.running[tenant_id]


def wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


PROCESS_SLOTS: Final = CheckSlots()


# The folders outside the workspace in which the operator's checks run. Headway's own files stay out of their reach.


def get_folder(check: Check, workspace: str, sandbox: Sandbox, path: Sequence[str] = ()) -> str:
    """Return where a check runs. Raises Invalid if it may not run there, wherever links lead by now, or may not read this path."""
    folder: str | None = check.get("folder")
    if folder is None:
        return workspace
    if check["by"] != "operator":
        raise Invalid("Only the installation's operator may name a folder outside the workspace.")
    real = os.path.realpath(folder)
    if problem := find_folder_problem(real):
        raise Invalid(problem)
    if any(is_below(os.path.join(real, *path), os.path.realpath(hidden)) for hidden in sandbox.hidden):
        raise Invalid(f"{folder} holds Headway's own files, so no check may use them. Without a folder, checks use the workspace.")
    return real


# Decides where a value is validated against a JSON Schema: small work at once, large work in a process that can be killed.


SMALL_SCHEMA: Final = 1_000  # characters
SMALL_WORK: Final = 200_000  # characters of the schema times characters of the value
WORK_LIMIT: Final = 200_000_000
DEADLINE_S: Final = 10.0
POLL_S: Final = 0.2
TOO_LARGE: Final = (
    "It was not validated: the JSON Schema has {:,} characters and the value {:,}, and their product may be at most {:,}. "
    "Check a smaller part."
)
TOO_SLOW: Final = "It was not validated: the JSON Schema took longer than {:g} seconds with this value."
INTERRUPTION: Final = "It was interrupted."


def find_mismatch(value: Any, schema: Any, canceled: threading.Event | None = None, limit_s: float = DEADLINE_S) -> str:
    """Return where and why the value does not fit the schema; empty if it does. Raises Invalid if that cannot be decided.

    Waits for a process if the work is large, so call it on a thread that nothing else needs. `canceled` interrupts it.
    """
    with requiring_extra("schema", "A check with a JSON Schema"):
        from headway.agents.checks import json_schemas  # noqa: PLC0415  most todos have no schema, and loading it takes a moment

    try:
        encoded_schema, encoded_value = json.dumps(schema), json.dumps(value)
    except RecursionError:
        raise Invalid("The value is nested too deeply.") from None
    work = len(encoded_schema) * len(encoded_value)
    if work > WORK_LIMIT:
        raise Invalid(TOO_LARGE.format(len(encoded_schema), len(encoded_value), WORK_LIMIT))
    if work <= SMALL_WORK and len(encoded_schema) <= SMALL_SCHEMA:
        return json_schemas.find_mismatch(value, schema)
    answer = ask_process(f"[{encoded_schema}, {encoded_value}]", json_schemas.__name__, canceled or threading.Event(), limit_s)
    if "invalid" in answer:
        raise Invalid(answer["invalid"])
    return answer["mismatch"]


def ask_process(document: str, module: str, canceled: threading.Event, limit_s: float) -> dict[str, str]:
    deadline = time.monotonic() + limit_s
    command = (sys.executable, "-P", "-m", module)
    unsent: str | None = document
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True) as process:  # noqa: S603
        try:
            while True:
                try:
                    output, _ = process.communicate(unsent, timeout=POLL_S)
                    break
                except TimeoutExpired:
                    unsent = None
                    if canceled.is_set():
                        raise Invalid(INTERRUPTION) from None
                    if time.monotonic() > deadline:
                        raise Invalid(TOO_SLOW.format(limit_s)) from None
        finally:
            process.kill()
    if process.returncode != 0:
        raise Invalid("It was not validated: the process that validates it ended early, perhaps for lack of memory.")
    answer: dict[str, str] = json.loads(output)
    return answer


# One function for each kind of check. It gets the definition and returns its finding; it raises Invalid if it cannot
# tell.


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
    wants_file, parent = check.get("exists", True), get_folder(check, workspace, sandbox, parts)
    try:
        with translate_errors(path), open_folder(parent, parts[:-1]) as folder:
            file = hash_entry(folder, parts[-1], path, FILE_LIMIT)
    except (NotFound, FileNotFoundError):  # the second: the workspace itself, where nothing was ever written
        return CheckFinding(not wants_file, f"There is no {path} in {parent if check['by'] == 'operator' else 'the workspace'}.")
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


# Runs the checks of a todo, a sub-goal or a goal, one after the other, and collects the results in a receipt.


UNSTORABLE: Final = str.maketrans({"\0": "\N{REPLACEMENT CHARACTER}"})
PERSONAL_JUDGEMENT: Final = "Not asked: a person decides."
OPINION_STANDS: Final = "Not asked again."
NO_JUDGE: Final = "No model is asked for agents that Headway does not run. A person has to complete it."


class CheckSubject(NamedTuple):
    """The todo, sub-goal or goal that checks are about."""

    kind: SubjectKind
    id: int
    title: str
    checks: Sequence[Check]
    outcome: Any = None
    no_judge: str = ""  # why a check passes that asks a model for its opinion, if no model is asked; empty: it fails


class Opinion(NamedTuple):
    ok: bool
    reason: str
    call: ModelCall | None


Judge = Callable[[str, CheckSubject], Awaitable[Opinion]]


class CheckedSubject(NamedTuple):
    receipt: ReceiptDraft
    calls: tuple[ModelCall, ...] = ()  # the opinions of models, to be paid for


class CheckRunner(NamedTuple):
    """The programs, hosts and tools that checks may use."""

    access: ExternalAccess
    toolbox: Toolbox
    slots: CheckSlots = PROCESS_SLOTS

    async def run(self, subject: CheckSubject, execution: Execution, made_by: str, judge: Judge | None = None) -> CheckedSubject:
        """Run all checks. Without a judge, checks that ask a model for its opinion pass only if the subject says why."""
        results: list[CheckResult] = []
        calls: list[ModelCall] = []
        for check in subject.checks:
            start = time.monotonic()
            if check["kind"] == "judge":
                opinion = await judge(check["rubric"], subject) if judge else assume_opinion(subject)
                finding = CheckFinding(opinion.ok, opinion.reason)
                calls += [opinion.call] if opinion.call else []
            else:
                finding = await self.find(check, subject, execution)
            duration_ms = int((time.monotonic() - start) * 1000)
            detail = clean(execution.redact(finding.detail))
            results.append(
                CheckResult(check, finding.ok, detail, duration_ms, check["kind"] == "judge", finding.exit_code, finding.hashes)
            )
        versions = {"headway": version("headway"), "python": platform.python_version(), **self.describe_sandbox(subject.checks)}
        receipt = ReceiptDraft(subject.kind, subject.id, tuple(results), versions, made_by, execution.run_id)
        return CheckedSubject(receipt, tuple(calls))

    async def find(self, check: Check, subject: CheckSubject, execution: Execution) -> CheckFinding:
        """Run one check, when it is its turn. A check that cannot run counts as failed."""
        try:
            async with self.slots.take(execution.scope.tenant_id):
                if check["kind"] == "tool":
                    return await self.check_tool(check, execution)
                canceled = threading.Event()
                try:
                    return await run_on_thread(partial(self.find_on_thread, check, subject, execution, canceled))  # type: ignore[no-any-return]
                finally:
                    canceled.set()  # a command must not go on after its caller was interrupted
        except HeadwayError as error:
            return CheckFinding(ok=False, detail=str(error))
        except OSError as error:
            return CheckFinding(ok=False, detail=f"It could not run: {error.strerror or error}.")

    def find_on_thread(self, check: Check, subject: CheckSubject, execution: Execution, canceled: threading.Event) -> CheckFinding:
        match check["kind"]:
            case "command":
                return check_command(check, execution, self.access, canceled)
            case "file":
                return check_file(check, execution.workspace, execution.sandbox, canceled)
            case "http":
                return check_http(check, self.access.http_hosts)
            case _:
                return check_outcome(check, subject.outcome, canceled)

    async def check_tool(self, check: Check, execution: Execution) -> CheckFinding:
        """Call a tool. Only one that is safe to repeat, because checks run again."""
        tool = self.toolbox.find(check["name"])
        if tool.name == VERIFY_TODOS:
            return CheckFinding(ok=False, detail=f"{tool.name} runs checks, so it cannot be one.")
        if not tool.idempotent:
            return CheckFinding(ok=False, detail=f"{tool.name} is not safe to repeat, so it cannot be a check.")
        arguments, execution = check.get("arguments", {}), choose_execution(check, execution)
        result: Result
        if tool.changes_ledger:
            result = await execution.database.read(lambda tx: call_in_transaction(tool, arguments, execution, tx))
        else:
            with use_execution(execution):
                result = await call_external(tool, arguments, execution)
        if result.is_error:
            return CheckFinding(ok=False, detail=result.error)
        expected = check.get("expect")
        if expected is not None and expected not in result.as_text:
            return CheckFinding(ok=False, detail=f"The result does not contain {expected[:200]!r}: {result.as_text}")
        return CheckFinding(ok=True, detail=result.as_text)

    def describe_sandbox(self, checks: Sequence[Check]) -> dict[str, str]:
        if not has_command(checks):
            return {}
        return {"sandbox": f"none ({find_fault(self.access.sandbox)})" if self.needs_approval(checks) else "bubblewrap"}

    def needs_approval(self, checks: Sequence[Check]) -> bool:
        """Whether the checks would run a program outside a sandbox."""
        return has_command(checks) and bool(find_fault(self.access.sandbox))


def choose_execution(check: Check, execution: Execution) -> Execution:
    """Return what a check runs with: an agent's with the grants of the role, a person's with all."""
    if check["by"] == "agent":
        return execution
    return execution._replace(role=execution.role._replace(tools=frozenset(FAMILIES)))


def assume_opinion(subject: CheckSubject) -> Opinion:
    return Opinion(bool(subject.no_judge), subject.no_judge or NO_JUDGE, None)


def has_command(checks: Sequence[Check]) -> bool:
    return any(check["kind"] == "command" for check in checks)


def clean(detail: str) -> str:
    """Return the end of a check's output, without what the databases cannot store."""
    return detail[-DETAIL_LIMIT:].encode(errors="replace").decode().translate(UNSTORABLE)
