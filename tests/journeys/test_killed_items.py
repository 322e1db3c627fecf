"""A worker is killed with SIGKILL while a small model works through the items of a request: the next does what is left."""

import signal
from pathlib import Path

from headway.storage.direct import DirectDatabase
from headway.testing import TenantHarness
from tests.journeys.worker_processes import (
    FOREVER_S,
    build_environment,
    enqueue,
    expire_leases,
    read_rows,
    run_worker,
    wait_until_all_end,
)
from tests.model_server import Document, run_model_process

ROOMS = "it:\n1. Write the text wine to cellar.txt.\n2. Write the text flour to pantry.txt"


def write(path: str, content: str) -> Document:
    return {"calls": [{"name": "write_file", "arguments": {"path": path, "content": content}}]}


def test_an_item_that_is_done_is_not_done_again(sqlite_url: str, tmp_path: Path) -> None:
    flour = write("pantry.txt", "flour")
    rules: list[Document] = [
        {"when": {"contains": "wine"}, "reply": write("cellar.txt", "wine")},
        {"when": {"contains": "flour"}, "reply": {**flour, "seconds": FOREVER_S}, "times": 1},
        {"when": {"contains": "flour"}, "reply": flour},
    ]
    (tmp_path / "home").mkdir()
    with run_model_process(rules, tmp_path) as model, DirectDatabase(sqlite_url) as database:
        desk = TenantHarness(database)
        env = build_environment(tmp_path, model, restart_stagger_s="0", drive="item")
        with run_worker(sqlite_url, tmp_path, env) as worker:
            enqueue(desk, [ROOMS])
            model.wait_for_requests(2)
            worker.send(signal.SIGKILL)
        assert read_rows(desk, "SELECT status, completed_by FROM todos ORDER BY id") == [("completed", "effect"), ("pending", None)]
        expire_leases(desk)
        with run_worker(sqlite_url, tmp_path, env):
            wait_until_all_end(desk)

        assert read_rows(desk, "SELECT status, completed_by FROM todos ORDER BY id") == [("completed", "effect")] * 2
        assert read_rows(desk, "SELECT outcome FROM turns") == [("drained",)]
        assert read_rows(desk, "SELECT tool, state FROM effects") == [("write_file", "succeeded")] * 2
        whole, *rest = [request.texts[1:] for request in model.wait_for_requests(3)]
        alone = "Write the text flour to pantry.txt.\nCall write_file with the path pantry.txt and the content: flour"
        assert rest == [[alone]] * 2, f"the second item alone, after {whole}"
        assert model.violations == []
