"""Live events: each reader gets every event exactly once, with several writers and across reconnects."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from subprocess import run
from time import monotonic
from typing import Any

import httpx
import psutil

from headway.ledger.events import build_todo_event
from headway.storage.transaction import Transaction
from headway.testing import TenantHarness
from tests.surfaces.event_stream import list_logged_ids, open_stream
from tests.surfaces.server_harness import LOCAL_OPTIONS, PATIENCE_S, Client, Service, wait_until
from tests.warm_start import build_command

WRITERS = 4
EACH = 50


def count_open_streams(service: Service) -> int:
    (line,) = (
        line
        for line in httpx.get(f"{service.url}/metrics", **LOCAL_OPTIONS).text.splitlines()
        if line.startswith("headway_open_streams ")
    )
    return int(float(line.split()[1]))


def write_many(writer: Client) -> None:
    for n in range(EACH):
        writer.add(f"number {n}")


def test_a_reader_that_reconnects_while_four_write_gets_every_event_once(client: Client) -> None:
    """It says in a header or in a parameter which event was its last."""
    ids: list[int] = []
    counts = cycle(range(1, 30, 4))
    ways = cycle([True, False])
    with ExitStack() as stack, ThreadPoolExecutor(WRITERS) as pool:
        writers = [stack.enter_context(client.again()) for _ in range(WRITERS)]
        writing = [pool.submit(write_many, writer) for writer in writers]
        while len(ids) < WRITERS * EACH:
            last = str(ids[-1] if ids else 0)
            options: dict[str, Any] = {"headers": {"Last-Event-ID": last}} if next(ways) else {"params": {"after": last}}
            with open_stream(client, **options) as stream:
                ids += [event.id for event in stream.take(min(next(counts), WRITERS * EACH - len(ids)))]
        for future in writing:
            future.result()

    assert ids == list_logged_ids(client)
    assert ids == sorted(set(ids))


def test_readers_that_connect_from_now_on_while_others_write_begin_where_they_say(client: Client) -> None:
    with client.again() as writer, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_many, writer)
        begun = []
        for _ in range(10):
            with open_stream(client) as stream:
                begun.append((stream.first, stream.take(2) if len(list_logged_ids(client)) < EACH - 20 else []))
        writing.result()
    log = list_logged_ids(client)

    for first, events in begun:
        start = log.index(first.id) + 1 if first.id else 0
        assert [event.id for event in events] == log[start : start + len(events)]


def test_many_readers_get_the_same_events(client: Client) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(open_stream(client)) for _ in range(20)]
        write_many(client)
        received = {tuple(event.id for event in stream.take(EACH)) for stream in streams}

    assert received == {tuple(list_logged_ids(client))}


def test_writes_of_another_process_are_streamed(client: Client, service: Service, tmp_path: Path) -> None:
    command = [*build_command("-m", "headway"), "--database-url", service.database_url, "--tenant", client.desk.tenant.name]
    with open_stream(client) as stream:
        for subject in ("first", "second"):
            assert run([*command, "todo", "add", subject], cwd=tmp_path, timeout=PATIENCE_S, capture_output=True).returncode == 0

        assert stream.changes(2) == [("created", "first"), ("created", "second")]


def test_on_postgres_events_of_another_process_arrive_at_once(postgres_service: Service) -> None:
    """If the feed relied on its fallback poll, thirty events would take a minute."""
    with postgres_service.tenant() as client, open_stream(client) as stream:
        began = monotonic()
        for n in range(30):
            client.desk.add(f"number {n}")
            assert stream.changes(1) == [("created", f"number {n}")]

        assert monotonic() - began < 30


def write_large_events(desk: TenantHarness, events: int) -> None:
    """Write many large events to the log."""
    event = build_todo_event(desk.tenant.id, desk.add(description="x" * 8_000), "updated")

    def emit_many(tx: Transaction) -> None:
        for _ in range(500):
            tx.emit(event)

    for _ in range(events // 500):
        desk.database.write(emit_many)


def test_readers_that_do_not_read_cost_no_memory_and_still_get_everything(sqlite_client: Client, sqlite_service: Service) -> None:
    process = psutil.Process(sqlite_service.process.pid)
    with ExitStack() as stack:
        active_reader, *idle_readers = [stack.enter_context(open_stream(sqlite_client)) for _ in range(21)]
        before = process.memory_info().rss
        write_large_events(sqlite_client.desk, 4_000)
        events = active_reader.take(4_001)  # readers that read are not delayed by those that do not
        growth = process.memory_info().rss - before
        late = idle_readers[0].take(4_001)

    assert growth < 200 * 2**20, f"{growth / 2**20:.0f} MiB"  # buffering everything for twenty readers would take 600 MiB
    assert [event.id for event in late] == [event.id for event in events] == list_logged_ids(sqlite_client)


def test_closed_streams_leave_nothing_behind(client: Client, service: Service) -> None:
    process = psutil.Process(service.process.pid)
    wait_until(lambda: count_open_streams(service) == 0, "streams of earlier tests end")
    with open_stream(client):
        pass
    wait_until(lambda: count_open_streams(service) == 0, "the first stream ends")
    files, threads = process.num_fds(), process.num_threads()
    for _ in range(2):
        with ExitStack() as stack:
            for _ in range(25):
                stack.enter_context(open_stream(client))
            assert count_open_streams(service) == 25
            client.add()
        wait_until(lambda: count_open_streams(service) == 0, "all streams end")

    # Some threads and database connections start when they are first needed, but far fewer than there were streams.
    wait_until(lambda: process.num_fds() < files + 25, "all files are closed")
    assert process.num_threads() < threads + 25
