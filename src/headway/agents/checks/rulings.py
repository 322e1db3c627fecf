"""Decides whether checks may run. A check is ruled on as the tool call that does the same, in the name of the caller.

The operator's own checks always may, except that a command without a sandbox needs consent.
"""

import shlex
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headway.agents.checks.runner import CheckRunner, choose_execution
from headway.agents.permission import rule_on_call
from headway.agents.tools.execution import Execution
from headway.agents.tools.programs.tools import PROGRAM_TOOLS, RUN_COMMAND
from headway.ledger.check import Check, describe_check
from headway.ledger.errors import Invalid, NotFound
from headway.ledger.permission import ALLOW_RULING, Ruling
from headway.storage.transaction import Transaction

NO_SANDBOX_REASON: Final = "its checks would run a command outside a sandbox"
NO_PROGRAMS: Final = "HEADWAY_COMMANDS allows no program"
HOW_TO_ALLOW: Final = "The operator can allow it with a rule for {} in policy.toml, or write the check."


class CheckCaller(NamedTuple):
    """In whose name checks run."""

    execution: Execution
    is_run: bool = False  # an agent that Headway runs: it may run programs if its role grants them; others need a rule


def rule_on_checks(tx: Transaction, runner: CheckRunner, checks: Sequence[Check], caller: CheckCaller) -> Ruling:
    """Decide whether the checks may run. One that is denied denies them all, and nothing runs."""
    ruling = ALLOW_RULING
    for check in checks:
        found = rule_on_check(tx, runner, check, caller)
        if found.decision == "deny":
            return Ruling("deny", f"the check {describe_check(check)!r} is not allowed ({found.why})")
        ruling = ruling if ruling.decision == "ask" else found
    return ruling


def rule_on_check(tx: Transaction, runner: CheckRunner, check: Check, caller: CheckCaller) -> Ruling:
    if check["by"] == "operator":
        return Ruling("ask", NO_SANDBOX_REASON) if runner.needs_approval([check]) else ALLOW_RULING
    name, arguments = to_call(check)
    if not name:
        return ALLOW_RULING
    try:
        tool = runner.toolbox.find(name)
    except NotFound:
        return Ruling("deny", NO_PROGRAMS if name == RUN_COMMAND else f"there is no tool {name}")
    role = caller.execution.role
    is_granted = role.grants(tool.family, tool.name)
    if check["by"] == "agent" and not is_granted:
        return Ruling("deny", f"the role {role.name} may not call {tool.name}")
    is_program = tool.name in PROGRAM_TOOLS and not (caller.is_run and is_granted)
    try:
        return rule_on_call(tx, tool, arguments, choose_execution(check, caller.execution), needs_approval=is_program)
    except Invalid as error:
        return Ruling("deny", str(error))


def describe_refusal(ruling: Ruling, checks: Sequence[Check]) -> str:
    """Say why checks did not run, and how they can be allowed."""
    names = ", ".join(sorted({name for check in checks if check["by"] != "operator" and (name := to_call(check)[0])}))
    reason = ruling.why if ruling.decision == "deny" else f"its checks need a person's approval ({ruling.why})"
    return f"{reason}. {HOW_TO_ALLOW.format(names)}"


def to_call(check: Check) -> tuple[str, dict[str, Any]]:
    """Return the tool call that does what the check does; no name if it reaches nothing outside the ledger."""
    match check["kind"]:
        case "command":
            try:
                return RUN_COMMAND, {"command": shlex.split(check["run"])}
            except ValueError:
                return RUN_COMMAND, {"command": [check["run"]]}
        case "file":
            return "read_file", {"path": check["path"]}
        case "http":
            return "http_get", {"url": check["url"]}
        case "tool":
            return check["name"], check.get("arguments", {})
    return "", {}
