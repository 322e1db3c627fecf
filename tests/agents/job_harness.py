"""The job of a turn: its state, and helpers that force states a test cannot wait for."""

import json
from typing import Any

from headway.actions.engine import dead_letters, run_ends
from headway.actions.todos import conversations
from headway.actions.turns import turns
from headway.ledger.job import Job
from tests.agents.turn_harness import Talk

LONG_S = "60"  # a delay that no test waits for


def list_errors(talk: Talk) -> list[str]:
    errors: list[str] = json.loads(talk.job().errors)
    return errors


def get_delay_ms(job: Job) -> int:
    """The delay that was stored for the job, whatever time has passed since."""
    return job.due_at - job.updated_at


async def wait_for_state(talk: Talk, state: str) -> Job:
    await talk.until(lambda: talk.job().state == state)
    return talk.job()


async def begin_delayed_turn(talk: Talk) -> Job:
    """Begin a turn whose model call fails with a transient error. Return its delayed job."""
    await talk.begin()
    job = await wait_for_state(talk, "delayed")
    await talk.until(lambda: not talk.headway.engine.tasks)
    return job


def make_due(talk: Talk) -> None:
    """Make every delayed job due now."""
    talk.database.write(lambda tx: tx.run("UPDATE jobs SET due_at = 0, announce_at = 0 WHERE state = 'delayed'"))


def spoil_transcript(talk: Talk, message: str) -> list[str]:
    """Overwrite every transcript message, so that the run cannot continue. Return the original messages."""

    def spoil(tx: Any) -> list[str]:
        original = [
            str(text) for (text,) in tx.all("SELECT message FROM transcript WHERE tenant_id = ? ORDER BY n", talk.tenant_id)
        ]
        tx.run("UPDATE transcript SET message = ? WHERE tenant_id = ?", message, talk.tenant_id)
        return original

    return talk.database.write(spoil)


async def wait_for_end(talk: Talk) -> dict[str, Any]:
    await talk.until(lambda: bool(talk.turn()["ended_at"]))
    return talk.turn()


def enqueue(talk: Talk, content: str = "Do it.") -> None:
    """Enqueue a turn in a new conversation without running it. `talk` then refers to that turn."""

    def start(tx: Any) -> Any:
        talk.conversation_id = conversations.add_conversation(tx, talk.tenant_id).id
        return turns.start_turn(tx, talk.tenant_id, talk.conversation_id, turns.TurnRequest(content))

    talk.run = talk.database.write(start)


def retry(talk: Talk) -> None:
    job_id = talk.job().id
    talk.database.write(lambda tx: dead_letters.retry(tx, talk.tenant_id, job_id))
    talk.headway.nudge()


def cancel(talk: Talk) -> None:
    """Cancel the turn as another process would: the engine here is not interrupted."""
    turn_id = talk.turn()["id"]
    talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))


def run_another_turn(talk: Talk, content: str = "Something else.") -> None:
    """Run another turn to its end, so that everything queued before it had a chance to run. `talk` keeps its current turn."""
    before, conversation_id = talk.run, talk.conversation_id
    enqueue(talk, content)
    talk.wait(wait_for_end(talk))
    talk.run, talk.conversation_id = before, conversation_id
