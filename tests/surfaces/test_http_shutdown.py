"""A server with open streams shuts down promptly and cleanly, even if its readers do not read. Whatever is running, it ends."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.model_server import ModelServer, calls, environment
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import run_server, wait_until

STREAMS = 50
BUSY_TOOLS = '''
import time
from pathlib import Path
from headway.agents.tools.custom import tool

@tool
def spin() -> str:
    """Keeps a thread busy."""
    Path(__file__).with_name("spin.txt").touch()
    while True:
        pass

@tool
async def block() -> str:
    """Keeps the event loop busy."""
    Path(__file__).with_name("block.txt").touch()
    time.sleep(1_000)
    return ""
'''


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_fifty_open_streams_end_properly(tmp_path: Path, database_url: str, by: signal.Signals) -> None:
    with run_server(database_url, tmp_path) as service, service.tenant() as client, ExitStack() as stack:
        streams = [stack.enter_context(open_stream(client)) for _ in range(STREAMS)]
        client.add("the last")
        changes = [stream.changes(1) for stream in streams]
        ended = service.end(by)
        rest = [list(stream.events()) for stream in streams]  # a stream that was cut off would raise an error here

        assert changes == [[("created", "the last")]] * STREAMS
        assert rest == [[]] * STREAMS
        assert ended.code == 0
        assert service.log.read_text() == ""


def test_a_reader_that_does_not_read_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    with run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path) as service, service.tenant() as client:
        for _ in range(40):
            client.add(description="x" * 200_000)
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(open_stream(client, params={"after": "0"}))
            ended = service.end()

        assert ended.code == 0


def test_a_server_whose_threads_and_event_loop_are_busy_ends_within_ten_seconds(tmp_path: Path) -> None:
    tools = tmp_path / "home" / "tools"
    tools.mkdir(parents=True)
    (tools / "busy.py").write_text(BUSY_TOOLS)
    with ModelServer(lambda request: calls((request.last, {}))) as model:
        variables = {**environment(model), "HEADWAY_HOME": str(tmp_path / "home")}
        with (
            run_server(f"sqlite:///{tmp_path / 'headway.db'}", tmp_path, environment=variables) as service,
            service.tenant() as client,
        ):
            for name in ("spin", "block"):
                path = f"/v1/conversations/{client.conversation()}/messages"
                client.ok("POST", path, 202, json={"content": name})
                wait_until((tools / f"{name}.txt").exists, f"{name} runs")
            ended = service.end()

        assert ended.code == -signal.SIGALRM  # the alarm is set to nine seconds
