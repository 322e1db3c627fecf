"""A coding assistant whose hooks call the guard while everything breaks. It is never held up, and its list is not lost."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from subprocess import PIPE
from typing import Any
from uuid import UUID

from tests.soak.witness import Ledger
from tests.soak.world import START_S, World
from tests.warm_start import Program

HOOK = ["guard", "hook", "claude-code"]


class Assistant:
    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(f"{seed} assistant")
        self.project = world.folder / "project"
        (self.project / ".git").mkdir(parents=True)
        self.env = world.env | {"HEADWAY_DATABASE_URL": world.url}
        self.did: Counter[str] = Counter()
        self.kept: list[str] = []  # the items of lists that the guard took when all of them were completed
        self.left: set[str] = set()  # sessions whose end the guard could not note: they stay open, to be resumed

    def work(self) -> None:
        """One session: a list of two, a stop that comes too early, and one when all is done."""
        self.did["sessions"] += 1
        names = [f"item a{self.did['sessions']}{letter}" for letter in "xy"]
        session = str(UUID(int=self.chance.getrandbits(128)))
        is_taken = self.plan(session, names, "in_progress", "pending")
        answer = self.send(session, "Stop")
        self.check(not is_taken or "decision" in answer or self.is_off(answer), f"open items let it stop: {answer}")
        if self.plan(session, names, "completed", "completed"):
            self.kept += names
            answer = self.send(session, "Stop")
            self.check("decision" not in answer, f"a finished list does not let it stop: {answer}")
        if self.is_off(self.send(session, "SessionEnd", reason="exit")):
            self.left.add(session)

    def plan(self, session: str, names: list[str], *statuses: str) -> bool:
        """Write the list, and return whether the guard took it."""
        todos = [{"content": name, "status": status} for name, status in zip(names, statuses, strict=True)]
        return not self.is_off(self.send(session, "PostToolUse", tool_name="TodoWrite", tool_input={"todos": todos}))

    def is_off(self, answer: dict[str, Any]) -> bool:
        """Whether the guard says that it could not work."""
        return "systemMessage" in answer and "decision" not in answer

    def send(self, session: str, event: str, **more: Any) -> dict[str, Any]:
        said = {"hook_event_name": event, "session_id": session, "cwd": str(self.project), "stop_hook_active": False, **more}
        with Program(HOOK, self.project, self.env, (PIPE, PIPE, PIPE)) as hook:
            assert hook.stdin is not None
            hook.stdin.write(json.dumps(said))
            hook.stdin.close()
            out, err = hook.communicate(START_S)
        self.check(hook.returncode == 0, f"a hook ended with {hook.returncode}: {err}")
        answer: dict[str, Any] = json.loads(out) if out else {}
        self.did["off" if self.is_off(answer) else event] += 1
        return answer

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            raise AssertionError(f"an assistant: {what}")

    def check_rows(self, ledger: Ledger) -> Iterator[str]:
        stored = Counter(ledger.rows("SELECT subject, status FROM todos WHERE subject LIKE 'item a%'"))
        yield from (f"{name} of an assistant is not completed once" for name in self.kept if stored[name, "completed"] != 1)
        joined = "turns t JOIN conversations c ON c.tenant_id = t.tenant_id AND c.id = t.conversation_id"
        running = ledger.rows(f"SELECT c.client_session FROM {joined} WHERE c.client <> '' AND t.ended_at = 0")
        yield from (f"the session {name} of an assistant did not end" for (name,) in running if name not in self.left)
