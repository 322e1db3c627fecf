"""Headway without an event loop: in scripts and in notebooks."""

import asyncio
import gc
import inspect
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import hatch_build
from headway import Closed, NotFound, sync
from headway.ledger.errors import SettingsError
from headway.library import blocking_client
from headway.library import client as async_client
from tests.library.contract import create_token
from tests.surfaces.server_harness import Service

ROOT = Path(__file__).parents[2]
UNCLOSED = """
from headway import sync
headway = sync.open(home="home", model="rehearsal")
print(headway.todos.add("write").id)
stream = headway.ask_stream("Calculate 12*7.")
print(next(stream).kind)
"""


def list_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "headway"]


def test_a_script_asks_streams_and_closes(tmp_path: Path) -> None:
    with sync.open(home=tmp_path, model="rehearsal") as headway:
        assert list_threads() == ["headway"]
        todo = headway.todos.add("write")
        assert [found.id for found in headway.todos.iterate()] == [todo.id]
        with pytest.raises(NotFound, match="No todo 404"):
            headway.todos.get(404)
        with headway.ask_stream("Calculate 12*7, then write the result to notes.txt") as stream:
            words = "".join(event.text for event in stream)
            report = stream.report()
        assert report.answer in words
        for event in headway.events.follow(after=0, kinds="turn_finished"):
            assert event.turn_id == report.id
            break
        threads = [threading.Thread(target=headway.todos.add, args=(f"from thread {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(headway.todos.list()) == 7
    assert list_threads() == []
    headway.close()
    with pytest.raises(Closed, match="Headway is closed"):
        headway.todos.list()


def test_it_works_while_an_event_loop_runs(tmp_path: Path) -> None:
    """As in a notebook, whose cells run on an event loop."""

    async def cell() -> str:
        with sync.open(home=tmp_path, model="rehearsal") as headway:
            return headway.ask("Calculate 12*7.").answer

    assert "84" in asyncio.run(cell())


def test_one_that_nobody_refers_to_any_more_ends_its_thread(tmp_path: Path) -> None:
    headway = sync.open(home=tmp_path, model="rehearsal")
    headway.todos.add("write")
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "headway")
    del headway
    gc.collect()
    thread.join(60)
    assert list_threads() == []


def test_what_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Unknown setting 'modell'"):
        sync.open(home=tmp_path, modell="rehearsal")  # type: ignore[call-arg]
    assert list_threads() == []


def test_a_program_that_forgets_to_close_ends_cleanly(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", UNCLOSED], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\nturn_started\n", "")


def test_a_changed_method_gets_a_new_twin(tmp_path: Path) -> None:
    sources, twins = tmp_path / hatch_build.NAMESPACES, tmp_path / hatch_build.BLOCKING
    shutil.copytree(ROOT / hatch_build.NAMESPACES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    hatch_build.write_blocking(tmp_path)
    assert not hatch_build.is_blocking_stale(tmp_path)
    ours = ROOT / hatch_build.BLOCKING
    assert [path.read_text() for path in sorted(twins.glob("*.py"))] == [path.read_text() for path in sorted(ours.glob("*.py"))]

    changed = (sources / "events.py").read_text() + "\n\nclass Bells:\n    async def ring(self) -> int:\n        return 1\n"
    (sources / "events.py").write_text(changed)
    later = (twins / "events.py").stat().st_mtime_ns + 1
    os.utime(sources / "events.py", ns=(later, later))
    (sources / "files.py").unlink()
    assert hatch_build.is_blocking_stale(tmp_path)
    hatch_build.write_blocking(tmp_path)

    assert "    def ring(self) -> int:\n" in (twins / "events.py").read_text()
    assert not (twins / "files.py").exists()
    assert not hatch_build.is_blocking_stale(tmp_path)


def test_every_method_has_a_twin() -> None:
    groups = {name for name in vars(async_client.Client) if not name.startswith("_")} - {"transport"}
    assert groups <= set(vars(blocking_client.SyncClient))
    for name in ("ask", "ask_stream", "send_message"):
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (blocking_client.SyncClient, async_client.Client))
        assert ours.parameters == theirs.parameters


def test_one_expression_is_enough(served_sqlite: Service) -> None:
    """The client is referred to by its methods alone while they run."""
    token = create_token(served_sqlite)
    for number in range(20):
        assert sync.connect(served_sqlite.url, token).todos.add(f"todo {number}").subject == f"todo {number}"
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "headway":
            thread.join(60)
    assert list_threads() == []


def test_followers_of_a_client_that_is_closed_get_closed(served_sqlite: Service) -> None:
    headway = sync.connect(served_sqlite.url, create_token(served_sqlite))
    began, raised = threading.Event(), list[BaseException]()

    def follow() -> None:
        try:
            for _event in headway.events.follow(after=0):
                began.set()
        except BaseException as error:  # noqa: BLE001  which one is the question
            raised.append(error)

    follower = threading.Thread(target=follow)
    follower.start()
    headway.todos.add("write")
    assert began.wait(60)
    headway.close()
    follower.join(60)
    assert [str(error) for error in raised if isinstance(error, Closed)] == ["Headway is closed."]
