"""Runs the checks of a todo, a sub-goal or a goal, one after the other, and collects the results in a receipt."""

import platform
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from headway.agents.checks import kinds
from headway.agents.checks.kinds import CheckFinding
from headway.agents.checks.slots import PROCESS_SLOTS, CheckSlots
from headway.agents.instructions.roles import FAMILIES
from headway.agents.tools.builtin import ExternalAccess
from headway.agents.tools.execution import Execution, use_execution
from headway.agents.tools.external_calls import call_external, run_on_thread
from headway.agents.tools.programs.sandbox import find_fault
from headway.agents.tools.toolbox import Result, Toolbox, call_in_transaction
from headway.ledger.check import DETAIL_LIMIT, VERIFY_TODOS, Check, CheckResult, ReceiptDraft, SubjectKind
from headway.ledger.errors import HeadwayError
from headway.storage.stores.spending import ModelCall

UNSTORABLE: Final = str.maketrans({"\0": "\N{REPLACEMENT CHARACTER}"})
PERSONAL_JUDGEMENT: Final = "Not asked: a person decides."
OPINION_STANDS: Final = "Not asked again."
NO_JUDGE: Final = "No model is asked for agents that Headway does not run. A person has to complete it."


class CheckSubject(NamedTuple):
    """What the checks are about."""

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
    """What checks may use: the programs and hosts that the operator allows, and the tools."""

    access: ExternalAccess
    toolbox: Toolbox
    slots: CheckSlots = PROCESS_SLOTS

    async def run(self, subject: CheckSubject, execution: Execution, made_by: str, judge: Judge | None = None) -> CheckedSubject:
        """Run all checks. Without a judge, those that ask a model for its opinion pass only if the subject says why."""
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
                return kinds.check_command(check, execution, self.access, canceled)
            case "file":
                return kinds.check_file(check, execution.workspace, execution.sandbox, canceled)
            case "http":
                return kinds.check_http(check, self.access.http_hosts)
            case _:
                return kinds.check_outcome(check, subject.outcome, canceled)

    async def check_tool(self, check: Check, execution: Execution) -> CheckFinding:
        """Call a tool. Only one that is safe to repeat, because checks run again."""
        tool = self.toolbox.find(check["name"])
        if tool.name == VERIFY_TODOS:
            return CheckFinding(ok=False, detail=f"{tool.name} runs checks, so it cannot be one.")
        if not tool.idempotent:
            return CheckFinding(ok=False, detail=f"{tool.name} is not safe to repeat, so it cannot be a check.")
        arguments, execution = check.get("arguments", {}), choose_execution(check, execution)
        result: Result
        if tool.in_transaction is not None:
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
