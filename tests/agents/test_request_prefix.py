"""How much of each request a provider can cache: everything that the request before it contained."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.agents.sub_agent_harness import by_role, by_transcript, delegate_call, list_requests
from tests.agents.turn_harness import Talk, complete_next, in_order, open_talk, plan_call
from tests.model_server import Reply, Request, Script, calls, text

STEPS = 40


def render_prompt(request: Request) -> bytes:
    """Serialise a request in the order in which providers build their prompt: tools, system, messages."""
    return b"\n".join(json.dumps(part).encode() for part in (request.body.get("tools") or [], *request.messages))


def find_first_difference(one: bytes, other: bytes) -> int:
    return next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def compute_cached_share(requests: list[Request]) -> float:
    """Return the share of all bytes, from the second request on, that repeat the beginning of the request before."""
    prompts = [render_prompt(request) for request in requests]
    cached = sum(find_first_difference(before, after) for before, after in pairwise(prompts))
    return cached / sum(len(prompt) for prompt in prompts[1:])


def write_files(home: Path, count: int, characters: int = 2_000) -> None:
    (home / "workspace" / "1").mkdir(parents=True)
    for n in range(count):
        (home / "workspace" / "1" / f"{n}.txt").write_text(f"The code of file {n} is {n * 7919}. " + "filler " * (characters // 7))


def read(n: int) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": f"{n}.txt"}


def read_all(talk: Talk, count: int) -> Script:
    """Plan one item per file, then complete one and read the next in each answer: count + 2 answers."""

    def script(_request: Request) -> Reply:
        plan = talk.plan()
        if not plan:
            return calls(("create_todo", {"items": [{"title": f"Read {n}.txt"} for n in range(count)]}), read(0))
        done = sum(todo.ended for todo in plan)
        if done == count:
            return text("All read.")
        complete = ("complete_todo", {"todoId": plan[done].id, "outcome": f"Read file {done}.", "startNext": True})
        return calls(complete, *([read(done + 1)] if done + 1 < count else []))

    return script


def test_each_request_of_a_long_turn_continues_the_one_before_byte_for_byte(sqlite_url: str, tmp_path: Path) -> None:
    write_files(tmp_path, STEPS)
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        talk.server.script = read_all(talk, STEPS - 2)
        assert talk.say("Read all files.")["outcome"] == "drained"
        requests = talk.server.requests
        assert len(requests) == STEPS
        for before, after in pairwise(map(render_prompt, requests)):
            assert find_first_difference(before, after) == len(before)
        assert compute_cached_share(requests) > 0.95


@pytest.mark.parametrize("mode", ["plan", "queue"])
def test_a_turn_continues_the_last_request_of_the_turn_before(sqlite_url: str, tmp_path: Path, mode: Any) -> None:
    write_files(tmp_path, 5)
    first = {
        "plan": [plan_call("Read"), *(calls(read(n)) for n in range(5)), complete_next, text("Read.")],
        "queue": [calls(("manage_todos", {"add": ["Read"]})), *(calls(read(n)) for n in range(5)), text("Read.")],
    }[mode]
    verdict = [text(json.dumps({"ok": True, "reason": "Yes."}))] if mode == "queue" else []
    with open_talk(sqlite_url, tmp_path, in_order(*first, *verdict, text("Yes."), *verdict)) as talk:
        talk.say("Read the files.", mode)
        talk.say("Is that all?", mode)
        requests = [request for request in talk.server.requests if request.tools]
        before, after = map(render_prompt, requests[-2:])
        assert find_first_difference(before, after) == len(before)
        assert len(before) / len(after) > 0.95


def test_sub_agents_of_one_role_share_instructions_and_tools(sqlite_url: str, tmp_path: Path) -> None:
    index = by_transcript(delegate_call("dig"), delegate_call("plant"), text("Done."))
    with open_talk(sqlite_url, tmp_path, by_role(index=index, researcher=text("Yes."))) as talk:
        talk.say()
        one, other = list_requests(talk, "researcher")
        common = find_first_difference(render_prompt(one), render_prompt(other))
        assert common > len(json.dumps([one.body["tools"], one.messages[0]]))
        assert common / len(render_prompt(other)) > 0.9


def test_tools_are_sorted_and_the_instructions_have_no_clock(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.say()
        first = talk.server.requests[0]
        assert first.tools == sorted(first.tools)
        assert not re.search(r"\d{4}-\d\d|\d\d:\d\d", first.system)


def test_what_is_sent_before_the_first_word_stays_small(sqlite_url: str, tmp_path: Path) -> None:
    """The instructions and tools of the supervisor took 2,680 tokens, about 11,700 characters; they take half of that."""
    with open_talk(sqlite_url, tmp_path, text("Hello.")) as talk:
        talk.say("Hi")
        (request,) = talk.server.requests
        tools = json.dumps([tool["function"] for tool in request.body["tools"]], separators=(",", ":"))
        assert len(request.system) + len(tools) < 5_850
