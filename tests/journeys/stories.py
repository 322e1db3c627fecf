"""Goals that are pursued by one life after the other, and killed when a test says so."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.crew import rows
from tests.journeys.errands import Script, move_in
from tests.journeys.lives import Life, Zygote
from tests.model_server import ModelServer, Request
from tests.surfaces.serving import until

Living = Future[bool]  # whether it ended by itself


class Story:
    def __init__(self, lives: Zygote, model: ModelServer, desk: TenantHarness, life: Life, pool: ThreadPoolExecutor) -> None:
        self.lives, self.model, self.desk, self.life, self.pool = lives, model, desk, life, pool

    @property
    def script(self) -> Script:
        assert isinstance(self.model.script, Script)
        return self.model.script

    def begin(self) -> Living:
        """A life, lived beside the test."""
        self.life.birth.unlink(missing_ok=True)
        living = self.pool.submit(self.lives.live, self.life)
        until(self.life.birth.exists, "somebody is born")
        return living

    def kill(self, living: Living) -> None:
        os.kill(int(self.life.birth.read_text()), signal.SIGKILL)
        assert not living.result()

    def live_until_stuck(self) -> None:
        """Killed when all that can be done was done, and agents wait for answers that never come."""
        expected = len(self.script.stuck)
        living = self.begin()
        until(lambda: len(self.script.waiting) == expected and self.settled, "everybody waits")
        self.kill(living)

    @property
    def settled(self) -> bool:
        """Whether all that has ended was judged, and nobody who is not stuck has anything to do."""
        modes = {step.name: step.mode for steps in self.script.plans.values() for step in steps}
        stuck = [name for name in self.script.waiting if modes[name] == "agent"]
        unjudged = rows(self.desk, "SELECT 1 FROM sub_goals WHERE status = 'completed' AND divergence IS NULL")
        ready = rows(self.desk, "SELECT 1 FROM jobs WHERE state IN ('queued', 'running') AND kind = 'agent'")
        return not unjudged and len(ready) == len(stuck)

    def live_to_the_end(self) -> dict[str, Any]:
        assert self.lives.live(self.life)
        return self.left

    @property
    def left(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.life.left.read_text())
        return found

    def asked_for(self, form: str) -> list[Request]:
        return [request for request in self.model.requests if request.tools == [form]]


@contextmanager
def story(lives: Zygote, model: ModelServer, script: Script, database_url: str, folder: Path, **ways: Any) -> Iterator[Story]:
    """About goals that nobody has begun yet."""
    model.script = script
    with DirectDatabase(database_url) as database, ThreadPoolExecutor(1) as pool:
        desk = TenantHarness(database)
        life = move_in(folder, database_url, desk, list(script.plans))._replace(**ways)
        try:
            yield Story(lives, model, desk, life, pool)
        finally:
            script.gate.set()
            if life.birth.exists() and not life.left.exists():
                kill_if_alive(int(life.birth.read_text()))


def kill_if_alive(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
