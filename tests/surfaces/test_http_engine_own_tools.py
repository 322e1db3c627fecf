"""/v1/schedules with custom tools, and with tools that cannot be scheduled."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.server_harness import Client, run_server, wait_until
from tests.surfaces.shell import Shell, get_error_line

CUSTOM_TOOL = '''
from pathlib import Path
from typing import Literal

from headway import Execution, tool


@tool(idempotent=True)
def water(bed: Literal["roses", "beans"], litres: int, execution: Execution) -> dict[str, object]:
    """Waters a bed."""
    with (Path(__file__).parent / "watered.txt").open("a") as file:
        print(execution.scope.tenant_id, bed, litres, file=file)
    return {"watered": bed, "litres": litres}
'''


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tools = tmp_path / ".headway" / "tools"
    tools.mkdir(parents=True)
    (tools / "garden.py").write_text(CUSTOM_TOOL, encoding="utf-8")
    return tmp_path


@pytest.fixture
def gardener(sqlite_url: str, home: Path) -> Iterator[Client]:
    """A tenant on a server with a custom tool and one allowed command."""
    with run_server(sqlite_url, home, environment={"HEADWAY_COMMANDS": "ls"}) as service, service.tenant() as client:
        yield client


def put(client: Client, name: str, arguments: dict[str, Any], **work: Any) -> Any:
    body = {"every_s": 3_600, "tool": {"name": name, "arguments": arguments}, **work}
    return client.request("PUT", "/v1/schedules/it", json=body)


def run_schedule(client: Client) -> dict[str, Any]:
    """Run the schedule once. Return its job when it has ended."""
    job_id = client.ok("POST", "/v1/schedules/it/run")["schedule"]["last_job"]
    job: dict[str, Any] = {}

    def has_ended() -> bool:
        job.update(client.ok("GET", f"/v1/jobs/{job_id}")["job"])
        return job["state"] in ("completed", "dead")

    wait_until(has_ended, "the tool was called")
    return job


def test_a_tool_of_the_users_own_is_scheduled_over_rest(gardener: Client, home: Path) -> None:
    """004: "Scheduled and recurring tasks can be enqueued with cron-like timing"."""
    answer = put(gardener, "water", {"bed": "roses", "litres": "3"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["schedule"]["tool"] == {
        "name": "water",
        "arguments": {"bed": "roses", "litres": "3"},
        "conversation_id": 0,
    }

    job = run_schedule(gardener)
    assert (job["state"], job["result"]) == ("completed", {"watered": "roses", "litres": 3})
    watered = (home / ".headway" / "tools" / "watered.txt").read_text()
    assert watered == f"{gardener.desk.tenant.id} roses 3\n", "for the tenant whose schedule it is"


def test_the_documents_own_shape_is_understood(gardener: Client) -> None:
    """004: "`{ pattern: '0 6 * * *' }`, … `data: { toolName: 'http', input: { url: '...' } }`"."""
    body = {"pattern": "0 6 * * *", "tool": {"toolName": "water", "input": {"bed": "beans", "litres": 1}}}
    schedule = gardener.ok("PUT", "/v1/schedules/it", json=body)["schedule"]
    assert schedule["cron"] == "0 6 * * *"
    assert schedule["tool"] == {"name": "water", "arguments": {"bed": "beans", "litres": 1}, "conversation_id": 0}
    assert run_schedule(gardener)["result"] == {"watered": "beans", "litres": 1}


INVALID_CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "an argument that is missing": ("water", {"bed": "roses"}, "litres: Field required"),
    "an argument out of bounds": ("water", {"bed": "weeds", "litres": 1}, "bed: Input should be 'roses' or 'beans'"),
    "an argument too many": ("water", {"bed": "roses", "litres": 1, "colour": "red"}, "colour: Extra inputs"),
    "a tool that needs a turn": (
        "create_todo",
        {"items": [{"title": "x"}]},
        "create_todo cannot be scheduled: it needs a turn",
    ),
    "a tool that needs an agent": (
        "delegate",
        {"agent": "writer", "task": "x"},
        "delegate cannot be scheduled: it needs a turn",
    ),
    "the same by another name": ("spawn-agent", {"task": "x"}, "spawn_agent cannot be scheduled: it needs a turn"),
    "a goal": ("set_goal", {"description": "x"}, "set_goal cannot be scheduled: it needs a turn"),
    "a tool that needs a conversation": ("ListTasks", {}, "ListTasks cannot be scheduled: Task list is not available"),
    "a program": ("run_command", {"command": ["ls"]}, "run_command cannot be scheduled: it runs programs on the server"),
}


def test_a_call_that_could_never_run_is_refused_with_the_reason(gardener: Client) -> None:
    """004: "skip retries immediately for non-transient failures": a call that cannot succeed is never enqueued."""
    for case, (name, arguments, reason) in INVALID_CALLS.items():
        answer = put(gardener, name, arguments)
        assert (answer.status_code, reason in answer.json()["detail"]) == (422, True), (case, answer.text)
    unknown = put(gardener, "plough", {})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert "water" in unknown.json()["detail"]
    assert gardener.ok("GET", "/v1/schedules")["schedules"] == []


def test_a_tool_that_the_supervisor_lacks_cannot_be_scheduled(sqlite_url: str, home: Path) -> None:
    """004: "Workers share `@jarvis/tools` registry": a schedule may use the supervisor's tools only."""
    roles = home / ".headway" / "agents"
    roles.mkdir()
    (roles / "index.toml").write_text('tools = ["ledger"]', encoding="utf-8")
    with run_server(sqlite_url, home) as service, service.tenant() as client:
        refused = put(client, "water", {"bed": "roses", "litres": 1})
        assert refused.status_code == 422
        assert "The role index is not granted water" in refused.json()["detail"]


def test_the_command_line_schedules_the_same_and_programs_too(headway: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """004: "Scheduled and recurring tasks can be enqueued with cron-like timing"."""
    tools = headway.folder / ".headway" / "tools"
    tools.mkdir(parents=True)
    (tools / "garden.py").write_text(CUSTOM_TOOL, encoding="utf-8")
    headway.trust()
    monkeypatch.setenv("HEADWAY_COMMANDS", "ls")

    def flags(tool: str, arguments: str) -> tuple[str, ...]:
        return ("schedule", "put", "it", "--every", "1h", "--tool", tool, "--args", arguments)

    assert headway.json(*flags("water", '{"bed": "roses", "litres": 1}'))["schedule"]["tool"]["name"] == "water"
    assert headway.json(*flags("run_command", '{"command": ["ls"]}'))["schedule"]["tool"]["name"] == "run_command"
    assert "litres: Field required" in get_error_line(headway(*flags("water", '{"bed": "roses"}')), 2)
