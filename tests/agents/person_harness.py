"""People who decide about proposed calls and answer questions, in tests of turns."""

from pathlib import Path
from typing import Any

from headway.actions.engine import run_ends
from headway.actions.runs import inbox
from headway.actions.runs.inbox import Answer, ApprovalDecision
from headway.ledger.inbox import PersonRequest
from tests.agents.sub_agent_harness import wait_for_end
from tests.agents.turn_harness import Talk
from tests.model_server import Reply, calls

BOB = "bob"


def run_command(*command: str) -> Reply:
    return calls(("run_command", {"command": list(command)}))


def write_policy(home: Path, *rules: str) -> None:
    """Write policy.toml. Each rule is the body of a [[rule]] table."""
    (home / "policy.toml").write_text("".join(f"[[rule]]\n{rule}\n\n" for rule in rules))


def list_approvals(talk: Talk, state: Any = None) -> list[dict[str, Any]]:
    """Return the approvals, oldest first."""
    page = talk.database.read(lambda tx: inbox.list_items(tx, talk.tenant_id, "approval", state, 100))
    return list(reversed(page["approvals"]))


def list_questions(talk: Talk) -> list[dict[str, Any]]:
    page = talk.database.read(lambda tx: inbox.list_items(tx, talk.tenant_id, "question", None, 100))
    return list(reversed(page["questions"]))


def decide(talk: Talk, approval_id: int, answer: Answer, *, always: bool = False, **fields: Any) -> PersonRequest:
    """Decide as a person does, through the process that runs the turn."""
    headway, decision = talk.headway, ApprovalDecision(answer, BOB, **fields)
    approval = talk.wait(
        headway.database.of(talk.tenant_id).write(
            lambda tx: headway.permission.decide(tx, talk.tenant_id, approval_id, decision, always=always)
        )
    )
    headway.nudge()
    return approval


def decide_and_finish(talk: Talk, approval_id: int, answer: Answer, *, always: bool = False, **fields: Any) -> dict[str, Any]:
    """Decide, and wait until the turn ends."""
    decide(talk, approval_id, answer, always=always, **fields)
    return wait_for_end(talk)


def answer_question(talk: Talk, question_id: int, content: str) -> PersonRequest:
    headway = talk.headway
    question = talk.wait(
        headway.database.of(talk.tenant_id).write(lambda tx: inbox.answer(tx, talk.tenant_id, question_id, content, BOB))
    )
    headway.nudge()
    return question


def cancel_turn(talk: Talk) -> None:
    turn_id = talk.turn()["id"]
    talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))
