"""Lives of a Headway, each a process of its own that takes no second to be born: it is forked off one that has loaded everything.

A life takes up the turn or the goal that the one before it left behind, or begins it if nobody knows of it, and ends with it, or
earlier.
"""

import asyncio
import faulthandler
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE_S = 60


class Life(NamedTuple):
    """What to live for, and when to die."""

    home: str
    database_url: str
    tenant_id: int
    conversation_id: int
    number: int | None = None  # of the moment before which it dies,
    only: str = ""  # counting only those of that sort
    key: str = "alive"  # what the model is shown
    goals: Sequence[str] = ()  # to be pursued; without any, a turn is answered
    stagger_s: str = "0"

    @property
    def found(self) -> Path:
        """What was in the ledger when it began."""
        return Path(self.home) / "found.json"

    @property
    def left(self) -> Path:
        """What was in the ledger when it had ended by itself."""
        return Path(self.home) / "left.json"

    @property
    def birth(self) -> Path:
        """Which process is alive, or was the last to be."""
        return Path(self.home) / "process"

    @property
    def workspace(self) -> Path:
        return Path(self.home) / "workspace" / str(self.tenant_id)

    @property
    def diary(self) -> Path:
        return Path(self.home) / "last moment"


class Zygote:
    """Seen from outside: a process to which lives are given one after the other."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def live(self, life: Life) -> bool:
        """Whether it ended by itself, and was not killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(life) + "\n")
        self.process.stdin.flush()
        code = json.loads(self.process.stdout.readline())
        assert code in (0, -signal.SIGKILL), (code, life)
        return bool(code == 0)


@contextmanager
def zygote(model_url: str, folder: Path) -> Iterator[Zygote]:
    """To be used until the block ends. What lives have to complain about is shown with the test's output."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY_", "SSL_CERT_"))}
    env = {
        **own,
        "OPENAI_BASE_URL": model_url,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "SSL_CERT_DIR": str(folder),  # certificates, which nobody needs here, take each life a tenth of a second to load
    }
    command = [sys.executable, __file__]
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Zygote(process)
        finally:
            process.terminate()


# Inside


def main() -> None:
    from tests.journeys.mortality import count_statements  # noqa: PLC0415

    count_statements()
    asyncio.run(be(Life._make(json.loads(sys.stdin.readline()))))  # the first is lived here: it loads all that takes long
    print(0, flush=True)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            be_born(Life._make(json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def be_born(life: Life) -> None:
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)  # whoever hangs says where
    code = 1
    try:
        asyncio.run(be(life))
        code = 0
    except BaseException:  # noqa: BLE001  whatever it is, it must not go on in the parent's code
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


async def be(life: Life) -> None:
    from headway import settings  # noqa: PLC0415
    from headway.assembly import Headway  # noqa: PLC0415
    from tests.journeys.mortality import doom  # noqa: PLC0415
    from tests.journeys.party_model import CHEAP, STRONG  # noqa: PLC0415

    os.environ["OPENAI_API_KEY"] = f"{life.key}.{os.getpid()}"
    names = {"model": f"openai-chat:{STRONG}", "model_cheap": f"openai-chat:{CHEAP}"}
    age_leases(life.database_url)
    found = remains(life)
    life.found.write_text(json.dumps(found))
    life.birth.write_text(str(os.getpid()))
    pace = {"restart_stagger_s": life.stagger_s, "retry_delay_s": "0.01"}
    headway = Headway(settings.load({"home": life.home, "database_url": life.database_url, **names, **pace}))
    headway.start()
    await headway.database.write(lambda _tx: None)  # behind the housekeeping, which is not what we look at
    if life.number is not None:
        doom(life.number, str(life.diary), life.only)
    headway.start_agents(alone=not found["runs"] and not life.goals)
    await headway.agents_ready()
    await (pursue(headway, life, found) if life.goals else answer(headway, life, found))
    await headway.stop_agents()
    headway.close()
    life.left.write_text(json.dumps(remains(life)))


async def answer(headway: Any, life: Life, found: dict[str, Any]) -> None:
    from tests.journeys.party_model import REQUEST  # noqa: PLC0415

    if not found["runs"]:  # nobody was told that it had begun, so somebody asks again
        await headway.run_turn(life.tenant_id, life.conversation_id, REQUEST)
    elif not found["runs"][0]["ended_at"]:
        await headway.engine.ended(found["runs"][0]["id"])


async def pursue(headway: Any, life: Life, found: dict[str, Any]) -> None:
    """All of its goals, until each has ended or is stopped by a fault."""
    from headway.actions import goals  # noqa: PLC0415

    known = {goal["description"]: goal["run_id"] for goal in found["goals"]}
    over = {goal["run_id"] for goal in found["goals"] if goal["ended_at"]}
    for description in life.goals:
        if description not in known:
            wanted = goals.NewGoal(description, "Everything is noted.")
            goal = await headway.database.write(partial(goals.add, tenant_id=life.tenant_id, wanted=wanted))
            headway.nudge()
            known[description] = goal.run_id
    await asyncio.gather(*map(headway.engine.ended, set(known.values()) - over))


def remains(life: Life) -> dict[str, Any]:
    """What is in the database, and which tools were called outside of it."""
    from tests.journeys.remains import read  # noqa: PLC0415

    calls = life.workspace / "calls.jsonl"
    ran = [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []
    return {**read(life.database_url, life.tenant_id), "ran": ran}


def age_leases(database_url: str) -> None:
    """As if so much time had passed that whoever was alive must be dead."""
    from headway.ledger.job import LEASE_MS  # noqa: PLC0415
    from headway.storage.direct import DirectDatabase  # noqa: PLC0415

    with DirectDatabase(database_url) as database:
        database.write(partial(older, by=LEASE_MS + 1))


def older(tx: Any, by: int, owner: str = "%") -> None:
    tx.run("UPDATE worker_leases SET beat_at = beat_at - ? WHERE executor_id LIKE ?", by, owner)


if __name__ == "__main__":
    main()
