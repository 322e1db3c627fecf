"""One step of a run, which is one transaction: what it may look at, and the few things it can do."""

from typing import Any

from pydantic_ai.messages import ModelMessage, UserPromptPart

from headway.actions import notices, spending, turns
from headway.agents import prompts, transcript, writs
from headway.agents.job import Job
from headway.agents.needs import AskModel, Assess, Need, Stop, Summarise
from headway.agents.transcript import Entry
from headway.ledger.run import Run, TurnOutcome
from headway.ledger.todo import Todo
from headway.ledger.writ_parser import parse
from headway.storage import run_store, todo_store
from headway.storage.spending_store import ModelCall
from headway.storage.transaction import Transaction

OVERHEAD_CHARACTERS = 8_000  # of instructions and tool schemas, roughly


class Step:
    def __init__(self, tx: Transaction, job: Job, run: Run, entries: list[Entry]) -> None:
        self.tx = tx
        self.job = job
        self.run = run
        self.turn_id = run.turn_id or ""
        self.entries = list(entries)
        self.first_new = len(entries)
        self.limits = job.means.limits

    def append(self, message: ModelMessage) -> None:
        entry = Entry(len(self.entries), message)
        run_store.append(self.tx, self.run.tenant_id, self.run.id, entry.n, transcript.encode(message))
        self.entries.append(entry)

    def withdraw_last(self) -> None:
        """The last message stays in the journal and is not sent any more."""
        entry = self.entries[-1]
        run_store.withdraw(self.tx, self.run.tenant_id, self.run.id, entry.n)
        self.entries[-1] = entry._replace(sent=False)

    def charge(self, call: ModelCall | None) -> None:
        if call:
            self.run = spending.settle(self.tx, self.run, call, self.limits.budget)

    def plan(self) -> list[Todo]:
        return todo_store.of_turn(self.tx, self.run.tenant_id, self.turn_id)

    def say(self, text: str) -> None:
        """What a person gets to read of something the model said: all but the writs."""
        turns.say(self.tx, self.run, "assistant", parse(text).visible)

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        turns.tell(self.tx, self.run, kind, data)

    def obey(self, text: str) -> list[UserPromptPart]:
        """Run the writs in a text; what they answer."""
        if not parse(text).writs:
            return []
        return [UserPromptPart(writs.run_text(self.tx, self.job.scope, self.job.role, text).output)]

    # Endings

    def finish(self, outcome: TurnOutcome, answer: str) -> Stop:
        self.run = turns.finish(self.tx, self.run, outcome, answer)
        return Stop("ended")

    def give_up(self, why: str, outcome: TurnOutcome, answer: str = "") -> Stop:
        """End honestly: what was said last, why it ends here, and what is left, which stays open in the ledger."""
        return self.finish(outcome, prompts.closing(answer, why, still_open(self.plan())))

    def end_filtered(self) -> Stop:
        self.notify("content_filter", f"A provider's content filter ended turn {self.turn_id}.")
        return self.finish("filtered", prompts.FILTERED)

    def fail(self, message: str, code: str) -> Stop:
        self.run = turns.fail(self.tx, self.run, message, code)
        return Stop("ended")

    def notify(self, kind: str, text: str) -> None:
        notices.notify(self.tx, self.run.tenant_id, kind, text, self.run.conversation_id, self.run.turn_id)

    # Money

    def afford(self, need: Need) -> bool:
        """Set aside what the next call may cost. While the pool has no room for it, the run waits."""
        if not isinstance(need, AskModel | Summarise | Assess):
            return True
        tier = self.job.role.tier if isinstance(need, AskModel) else "cheap"
        estimate = self.job.means.models.estimate(tier, self.size)
        funded = spending.reserve(self.tx, self.run, estimate, self.limits.budget)
        if funded is None:
            if self.run.status != "waiting":
                self.run = turns.pause(self.tx, self.run, prompts.POOL_SPENT)
                self.notify("budget", prompts.POOL_SPENT)
            return False
        self.run = turns.resume(self.tx, funded) if funded.status == "waiting" else funded
        return True

    def size(self) -> int:
        """How many characters would be sent, roughly."""
        sent = transcript.window(self.job.before, self.entries)
        return sum(len(str(part)) for message in sent for part in message.parts) + OVERHEAD_CHARACTERS


def still_open(plan: list[Todo]) -> list[Todo]:
    return [todo for todo in plan if not todo.ended]
