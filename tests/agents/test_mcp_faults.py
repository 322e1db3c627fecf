"""MCP servers that hang, crash at each start or misbehave otherwise: turns go on, and the model is told what happened."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.actions.todos import conversations
from tests.agents.real_mcp_servers import find_process, use
from tests.agents.turn_harness import Talk, open_talk
from tests.model_server import Reply, Request, Script, calls, text
from tests.running_turns import run_turn

DONE = text("Done.")
KEY = "k3y-of-the-plain-server"
PLAIN = Path(__file__).with_name("plain_mcp_server.py")
SILENT: dict[str, Any] = {"command": "sh", "args": ["-c", "cat > /dev/null"]}  # it never answers, and ends with its input
NOTHING: dict[str, Any] = {}
READ, WRITE, SHOW = ("plain__read", NOTHING), ("plain__write", NOTHING), ("plain__show", NOTHING)


@contextmanager
def open_plain_talk(url: str, home: Path, script: Script | Reply = DONE, **fields: Any) -> Iterator[Talk]:
    """Open a talk whose agents may use the plain server. `fields` replace the fields of its entry in mcp.json."""
    plain = {"command": sys.executable, "args": ["-IS", str(PLAIN), f"{home}/calls.log"], "env": {"API_KEY": KEY}, **fields}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"plain": plain}}))
    with open_talk(url, home, script) as talk:
        yield talk


def list_calls(home: Path) -> list[str]:
    log = home / "calls.log"
    return log.read_text().splitlines() if log.exists() else []


def list_states(talk: Talk) -> list[str]:
    return [effect.state for effect in talk.effects()]


def test_a_server_that_hangs_is_given_up_and_replaced(sqlite_url: str, tmp_path: Path) -> None:
    def reply(request: Request) -> Reply:
        if "Hello." in request.texts:
            return DONE
        return [calls(WRITE), calls(SHOW), DONE][request.assistant_turns]

    async def run_two_turns(talk: Talk) -> None:
        first = await talk.begin("Write.")
        await talk.until(lambda: list_calls(tmp_path) == ["write"])
        other = talk.database.write(lambda tx: conversations.add_conversation(tx, talk.tenant_id)).id
        assert (await run_turn(talk.headway, talk.tenant_id, other, "Hello."))["outcome"] == "answered"
        assert not first.done(), "the other turn did not wait"
        await talk.until(lambda: list_states(talk)[0] == "unknown")
        (tmp_path / "go").touch()  # so that it ends with its input, which spares the test the seconds until it is killed
        await talk.wait_until_ended(first)

    with open_plain_talk(sqlite_url, tmp_path, reply, timeout_s=1) as talk:
        talk.wait(run_two_turns(talk))
        unknown, shown = (result.content for result in talk.requests[-1].tool_results)
        assert "The MCP server plain did not answer within 1 s. It may have taken effect" in unknown
        assert shown == "{}"
        assert list_states(talk) == ["unknown", "succeeded"]
        assert list_calls(tmp_path) == ["write", "show"]


def test_a_server_that_never_answers_is_down(sqlite_url: str, tmp_path: Path) -> None:
    with open_plain_talk(sqlite_url, tmp_path, **SILENT, env={}, start_timeout_s=0.2) as talk:
        for result in use(talk, READ, WRITE):
            assert "The MCP server plain is not available: it did not answer within 0.2 s." in result
        assert talk.headway.list_mcp_servers() == [{"name": "plain", "status": "down"}]


def test_nothing_waits_longer_than_it_wants_for_a_server_that_starts(sqlite_url: str, tmp_path: Path) -> None:
    with open_plain_talk(sqlite_url, tmp_path, **SILENT) as talk:
        talk.wait(talk.headway.prepare_tools(talk.headway.roles.find("index"), 0.01))
        assert talk.headway.list_mcp_servers() == [{"name": "plain", "status": "starting"}]
        assert "is starting" in talk.headway.toolbox.explain_missing("plain__read")


def test_a_server_that_crashes_at_each_start_is_started_rarely(sqlite_url: str, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    args = ["-c", f"echo start >> {starts}; echo no disk >&2; exit 3"]
    with open_plain_talk(sqlite_url, tmp_path, command="sh", args=args) as talk:
        results = use(talk, *[READ] * 8)
        assert set(results) == {'{"error": "The MCP server plain is not available: Connection closed (no disk)."}'}
        assert set(list_states(talk)) == {"failed"}
        assert 1 <= len(starts.read_text().splitlines()) <= 3


def test_calls_of_a_server_that_died_for_good_say_why(sqlite_url: str, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    command = f"test -e {gone} && exit 1; exec {sys.executable} -IS {PLAIN} {tmp_path}/calls.log"
    with open_plain_talk(sqlite_url, tmp_path, command="sh", args=["-c", command]) as talk:
        assert use(talk, SHOW) == ["{}"]
        gone.touch()
        find_process(PLAIN.name).kill()
        (result,) = use(talk, SHOW)
        assert "The MCP server plain is not available" in result, "a read of a server that does not start is not retried"
        assert "plain__show" in talk.requests[-1].tools


def test_an_answer_that_violates_the_schema_is_unknown(sqlite_url: str, tmp_path: Path) -> None:
    with open_plain_talk(sqlite_url, tmp_path) as talk:
        (result,) = use(talk, ("plain__lie", {}))
        assert "The MCP server plain sent an invalid answer" in result
        assert list_states(talk) == ["unknown"]
        assert list_calls(tmp_path) == ["lie"]


def test_texts_are_converted_names_kept_apart_and_secrets_removed(sqlite_url: str, tmp_path: Path) -> None:
    values = {"count": "3", "ratio": "nan", "loud": "true", "names": '["a"]', "any": "4", "free": "5"}
    with open_plain_talk(sqlite_url, tmp_path) as talk:
        (shown,) = use(talk, ("plain__show", values))
        assert json.loads(shown) == {"count": 3, "ratio": "nan", "loud": True, "names": ["a"], "any": 4, "free": "5"}
        assert len([name for name in talk.requests[0].tools if name.startswith("plain__twin_a_")]) == 2
        assert KEY not in json.dumps([request.body for request in talk.requests])
        assert talk.headway.toolbox.tools["plain__show"].description == "Show the arguments to the holder of …."
