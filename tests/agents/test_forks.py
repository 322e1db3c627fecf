"""Forks of turns: rows up to a step are copied, recorded results are served, and nothing outside is called without `live`."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.actions.inspection import steps
from headway.actions.inspection.forks import ForkRequest
from headway.actions.todos import conversations, finding, todos
from headway.ledger.errors import HeadwayError, Invalid
from headway.ledger.job import Job
from headway.ledger.todo import Draft, Todo
from headway.storage.stores import runs as run_store
from headway.storage.stores import todos as todo_store
from headway.storage.transaction import Transaction
from tests.agents.turn_harness import (
    CHEAP,
    CHEAP_TIER,
    OPEN_ITEM,
    Talk,
    complete_next,
    in_order,
    list_open_ids,
    open_talk,
    plan_call,
    queue_call,
    tiers,
)
from tests.model_server import Reply, Request, calls, text

COUNTER = '''
"""A tool that leaves a trace of every call."""
from pathlib import Path
from headway import tool

@tool
def ring(bell: str) -> dict:
    """Ring a bell."""
    with Path(__file__).with_name("rung.txt").open("a") as file:
        file.write(bell + "\\n")
    return {"rung": bell}
'''


@pytest.fixture
def bells(tmp_path: Path) -> Path:
    """Offer a tool that writes a line at every call, and return the file."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "bells.py").write_text(COUNTER)
    return tmp_path / "tools" / "rung.txt"


def fork(talk: Talk, turn_id: str, request: ForkRequest) -> dict[str, Any]:
    """Fork a turn, run the fork to its end, and make it the turn that the harness shows."""
    return start(talk, request, lambda tx, checked: talk.headway.forks.begin(tx, talk.tenant_id, turn_id, checked))


def start(talk: Talk, request: ForkRequest, begin: Callable[[Transaction, ForkRequest], Job]) -> dict[str, Any]:
    async def run() -> None:
        headway, checked = talk.headway, talk.headway.forks.check(request)
        job = await headway.database.of(talk.tenant_id).write(lambda tx: begin(tx, checked))
        talk.run = talk.database.read(lambda tx: run_store.find_run(tx, talk.tenant_id, job.id))
        headway.engine.take(job)
        await talk.wait_until_ended(headway.engine.tasks[job.id])

    talk.wait(run())
    return talk.turn()


def list_plan(talk: Talk, turn_id: str) -> list[Todo]:
    return talk.database.read(lambda tx: todo_store.list_by_turn(tx, talk.tenant_id, turn_id))


def summarize(plan: list[Todo]) -> list[tuple[str, str, str | None]]:
    return [(todo.subject, todo.status, todo.outcome) for todo in plan]


def test_a_fork_copies_the_turn_up_to_a_step_and_the_rest_starts_anew(database_url: str, tmp_path: Path) -> None:
    script = in_order(
        text("Hello."),
        plan_call("bake", "frost"),
        complete_next,
        complete_next,
        text("The cake is ready."),
        complete_next,
        text("Frosted in another way.", usage=(50, 7)),
    )
    with open_talk(database_url, tmp_path, script) as talk:
        talk.say("Hi!")
        original = talk.say("A cake!")
        before, messages = summarize(talk.plan()), talk.messages()
        events = talk.events()

        forked = fork(talk, original["id"], ForkRequest(2))

        assert (forked["status"], forked["outcome"], forked["iterations"]) == ("finished", "drained", 4)
        assert forked["forked_from"] == {"turn_id": original["id"], "at": 2}
        assert forked["usage"]["output_tokens"] > 7  # of the two new calls: what was copied is not paid for again
        assert len(talk.model_calls()) == 7
        assert summarize(talk.plan()) == [("bake", "completed", "done"), ("frost", "completed", "done")]
        assert (forked["plan_source"], {todo.completed_by for todo in talk.plan()}) == ("agent", {"agent"})
        first = talk.requests[5]
        assert "Hello." in " ".join(first.texts)
        assert [result.name for result in first.tool_results] == ["create_todo", "complete_todo"]
        assert OPEN_ITEM.findall(first.last) == [str(talk.plan()[1].id)]

        # The conversation reads like the original up to there, and the original is as it was.
        talk.conversation_id = forked["conversation_id"]
        assert [message.content for message in talk.messages()] == ["Hi!", "Hello.", "A cake!", "Frosted in another way."]
        title = talk.database.read(lambda tx: finding.get_conversation(tx, talk.tenant_id, talk.conversation_id)).title
        assert title == "Hi! (fork at step 2)"
        talk.conversation_id = original["conversation_id"]
        assert (talk.messages(), summarize(list_plan(talk, original["id"]))) == (messages, before)
        assert all(data["turn_id"] != original["id"] for _, data in talk.events()[len(events) :] if "turn_id" in data)


def test_recorded_results_are_served_and_the_fork_stops_at_a_call_without_one(
    database_url: str, tmp_path: Path, bells: Path
) -> None:
    script = in_order(
        calls(("ring", {"bell": "a"})),
        calls(("ring", {"bell": "b"}), ("ring", {"bell": "a"})),
        text("Rung."),
        calls(("now", {}), ("ring", {"bell": "a"}), ("ring", {"bell": "b"})),
        calls(("calculate", {"expression": "1+1"}), ("ring", {"bell": "c"}), text="Now the third."),
    )
    with open_talk(database_url, tmp_path, script) as talk:
        original = talk.say("Ring!")
        rung = bells.read_text()

        forked = fork(talk, original["id"], ForkRequest(1))

        assert bells.read_text() == rung == "a\nb\na\n"
        assert (forked["status"], forked["outcome"]) == ("finished", "needs_live")
        answer = talk.run_row().result or ""
        assert 'stopped at step 3, because it would have needed the real world: ring {"bell": "c"}' in answer
        results = [data for data in talk.list_event_data("tool_result") if data["turn_id"] == forked["id"]]
        assert [(data["tool"], data["result"], data.get("replayed")) for data in results if data["tool"] == "ring"] == [
            ("ring", {"rung": "a"}, True),  # the copied one
            ("ring", {"rung": "a"}, True),
            ("ring", {"rung": "b"}, True),
        ]
        assert [data.get("replayed") for data in results if data["tool"] in ("now", "calculate")] == [None, None]
        assert json.loads(talk.requests[4].tool_results[-1].content) == {"rung": "b"}

        # The next turn of the fork's conversation is an ordinary one.
        talk.conversation_id = forked["conversation_id"]
        talk.server.script = in_order(calls(("ring", {"bell": "c"})), text("Rung after all."))
        assert talk.say("Go on.")["outcome"] == "answered"
        assert bells.read_text() == "a\nb\na\nc\n"


def test_a_live_fork_makes_its_calls(sqlite_url: str, tmp_path: Path, bells: Path) -> None:
    script = in_order(calls(("ring", {"bell": "a"})), text("Rung."), calls(("ring", {"bell": "a"})), text("Rung again."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        original = talk.say("Ring!")
        forked = fork(talk, original["id"], ForkRequest(0, live=True))
        assert (forked["outcome"], bells.read_text()) == ("answered", "a\na\n")


def test_the_policy_denies_a_call_before_its_recorded_result_is_served(sqlite_url: str, tmp_path: Path, bells: Path) -> None:
    script = in_order(calls(("ring", {"bell": "a"})), text("Rung."), calls(("ring", {"bell": "a"})), text("Not allowed."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        original = talk.say("Ring!")
        (tmp_path / "policy.toml").write_text('[[rule]]\ntool = "ring"\ndecision = "deny"\n')
        assert fork(talk, original["id"], ForkRequest(0))["outcome"] == "answered"
        assert "policy does not allow" in talk.requests[-1].tool_results[-1].content


def test_a_message_replaces_the_request_or_is_read_next(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(("now", {})), text("Noon."), text("A pie."), text("In Rome."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        original = talk.say("A cake!")
        edited = fork(talk, original["id"], ForkRequest(0, "A pie!"))
        assert (edited["request"], talk.requests[2].texts[1:]) == ("A pie!", ["A pie!"])

        asked = fork(talk, original["id"], ForkRequest(2, "And in Rome?"))
        assert (asked["request"], asked["outcome"]) == ("A cake!", "answered")
        assert "And in Rome?" in talk.requests[3].last
        talk.conversation_id = asked["conversation_id"]
        assert [message.content for message in talk.messages()] == ["A cake!", "And in Rome?", "Noon.", "In Rome."]


def test_a_fork_can_have_another_model_and_another_role(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(text("One."), text("Two."))
    with open_talk(sqlite_url, tmp_path, script, model_cheap=CHEAP_TIER) as talk:
        original = talk.say("Which?")
        fork(talk, original["id"], ForkRequest(0, model=CHEAP_TIER, role="writer"))
        assert talk.requests[1].model == CHEAP
        assert (talk.run_row().role, talk.run_row().model, talk.run_row().result) == ("writer", CHEAP_TIER, "Two.")
        rows = talk.database.read(lambda tx: tx.one("SELECT COUNT(*) FROM turns"))
        for request, problem in [
            (ForkRequest(0, model="nonsense"), "The model 'nonsense' cannot be used: write it as provider:name"),
            (ForkRequest(0, model="openai-chat:never-heard-of"), "has no price here"),
            (ForkRequest(0, role="nobody"), "nobody"),
        ]:
            with pytest.raises(HeadwayError, match=problem):
                fork(talk, original["id"], request)
        assert talk.database.read(lambda tx: tx.one("SELECT COUNT(*) FROM turns")) == rows


def test_copied_todos_are_known_by_their_former_numbers(database_url: str, tmp_path: Path) -> None:
    """The copied messages name the original's items. A number of theirs means the copy, also in a fork of a fork."""
    former: list[int] = []

    def finish(reply: Any) -> Any:
        return lambda _request: reply()

    script = in_order(
        plan_call("bake", "frost"),
        text("Too early."),
        complete_next,
        complete_next,
        text("Done."),
        finish(lambda: calls(("complete_todo", {"todoId": str(former[0]), "outcome": "by its former number"}))),
        finish(lambda: text(f"/todo done {former[1]}: by a writ")),
        text("Done again."),
        finish(
            lambda: calls(
                ("use_tool", {"name": "todo_update", "arguments": {"id": former[1], "status": "completed", "outcome": "third"}})
            )
        ),
        complete_next,
        text("Done for the third time."),
        *(text("Not now."),) * 3,
    )
    with open_talk(database_url, tmp_path, script) as talk:
        original = talk.say("A cake!")
        former += [todo.id for todo in talk.plan()]
        before = list_plan(talk, original["id"])

        forked = fork(talk, original["id"], ForkRequest(2))
        assert summarize(talk.plan()) == [("bake", "completed", "by its former number"), ("frost", "completed", "by a writ")]
        second = fork(talk, forked["id"], ForkRequest(2))
        assert summarize(talk.plan()) == [("bake", "completed", "done"), ("frost", "completed", "third")]
        assert (forked["outcome"], second["outcome"]) == ("drained", "drained")
        assert second["forked_from"] == {"turn_id": forked["id"], "at": 2}
        assert fork(talk, second["id"], ForkRequest(1))["forked_from"] == {"turn_id": original["id"], "at": 1}  # a copied step
        assert summarize(talk.plan()) == [("bake", "pending", None), ("frost", "pending", None)]
        assert list_plan(talk, original["id"]) == before


def test_a_copied_item_keeps_the_receipt_that_proves_it(database_url: str, tmp_path: Path) -> None:
    number = {"kind": "outcome", "schema": {"type": "integer"}}
    script = in_order(
        calls(("create_todo", {"items": [{"title": "count", "checks": [number]}]})),
        lambda request: calls(("complete_todo", {"todoId": list_open_ids(request)[0], "outcome": "7"})),
        text("Counted."),
        text("Seven."),
        text("Seven, I think."),
    )
    with open_talk(database_url, tmp_path, script) as talk:
        talk.say("Count the bells.")
        (item,) = talk.plan()
        second = talk.say("How many?")
        fork(talk, second["id"], ForkRequest(0))

        rows = talk.database.read(lambda tx: tx.all("SELECT subject_id, ok, results FROM receipts ORDER BY id"))
        (original, *receipt), (copied, *copied_receipt) = rows
        assert (original, receipt) == (item.id, copied_receipt)
        assert copied != item.id
        assert talk.database.read(lambda tx: todos.get_todo(tx, talk.tenant_id, copied)).proof == "proven"


def test_a_step_must_be_complete_and_a_running_turn_can_be_forked_up_to_its_last_one(sqlite_url: str, tmp_path: Path) -> None:
    gate = threading.Event()

    def answer_late(_request: Request) -> Reply:
        gate.wait(60)
        return text("Late.")

    script = in_order(calls(("now", {})), answer_late, text("From the first step on."))
    with open_talk(sqlite_url, tmp_path, script) as talk:

        async def fork_while_running() -> dict[str, Any]:
            task = await talk.begin()
            await talk.wait_for_requests(2)
            original = talk.turn()
            for at in (-1, 2):
                with pytest.raises(Invalid, match="at must be between 0 and 1"):
                    await talk.headway.fork(original["id"], ForkRequest(at), tenant="acme")
            report = await talk.headway.fork(original["id"], ForkRequest(1), tenant="acme")
            assert (report.outcome, report.answer) == ("answered", "From the first step on.")
            gate.set()
            await talk.wait_until_ended(task)
            return talk.turn()

        assert talk.wait(fork_while_running())["status"] == "finished"


def test_a_turn_without_a_run_has_no_steps_to_fork(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("Hi.")) as talk:
        turn = talk.database.write(lambda tx: conversations.open_turn(tx, talk.tenant_id, talk.conversation_id))
        with pytest.raises(HeadwayError, match="outside Headway"):
            fork(talk, turn.id, ForkRequest(0))
        talk.halt()
        with pytest.raises(HeadwayError, match="halt"):
            fork(talk, turn.id, ForkRequest(0))
        talk.unhalt()


def test_sub_agents_are_not_started_again_and_their_results_complete_the_plan(database_url: str, tmp_path: Path) -> None:
    def delegate_first(request: Request) -> Reply:
        return calls(("delegate", {"agent": "researcher", "task": "dig", "todoId": list_open_ids(request)[0]}))

    def answer(request: Request) -> Reply:
        return text("Dug.") if "[DELEGATION CONTEXT]" in request.texts[1] else script(request)

    script = in_order(
        plan_call("dig", "fill"),
        delegate_first,
        complete_next,
        text("/agent researcher look around"),
        text("Done."),
        delegate_first,
        text("/agent researcher look around"),
        complete_next,
        calls(("spawn_agent", {"task": "dig deeper"})),
    )
    with open_talk(database_url, tmp_path, answer) as talk:
        original = talk.say("A garden!")
        assert original["outcome"] == "drained"
        count = "SELECT COUNT(*) FROM runs WHERE parent_run_id IS NOT NULL"
        assert talk.database.read(lambda tx: tx.one(count)) == (2,)

        forked = fork(talk, original["id"], ForkRequest(1))
        assert summarize(talk.plan()) == [("dig", "completed", "Dug."), ("fill", "completed", "done")]
        assert "[/agent researcher]\nDug.\n[END AGENT]" in " ".join(talk.requests[-1].texts)
        assert forked["outcome"] == "needs_live"
        assert "spawn_agent" in (talk.run_row().result or "")
        assert talk.database.read(lambda tx: tx.one(count)) == (2,)


def test_what_is_not_the_forks_own_is_the_real_world(sqlite_url: str, tmp_path: Path) -> None:
    """The tenant's todos, schedules and goals are shared with the original, so a fork does not change them."""

    def use(tool: str, **arguments: Any) -> Reply:
        return calls(("use_tool", {"name": tool, "arguments": arguments}))

    with open_talk(sqlite_url, tmp_path, text("Hi.")) as talk:
        original = talk.say("Hi!")
        shared = talk.database.write(lambda tx: todos.add_todo(tx, talk.tenant_id, Draft("shared")))
        for reply, named in [
            (use("todo_add", subject="x", tenant_wide=True), "todo_add"),
            (use("todo_update", id=shared.id, status="completed"), "todo_update"),
            (use("todo_claim"), "todo_claim"),
            (use("set_goal", description="peace"), "set_goal"),
            (use("AddTask", title="x"), "AddTask"),
            (use("ask_person", question="Why?"), "ask_person"),
            (text("/schedule mine every 1h: go"), "/schedule mine"),
            (text(f"/todo done {shared.id}"), "/todo done"),
            (text("/todo add --tenant-wide x"), "/todo add"),
        ]:
            talk.server.script = in_order(reply)
            assert fork(talk, original["id"], ForkRequest(0))["outcome"] == "needs_live", named
            assert named in (talk.run_row().result or "")
        own = (use("todo_add", subject="mine"), use("remember", text="it rains"), text("/todo add ours"), text("Done."))
        talk.server.script = in_order(*own)
        forked = fork(talk, original["id"], ForkRequest(0))
        assert forked["outcome"] == "answered"
        rows = talk.database.read(lambda tx: tx.all("SELECT conversation_id, subject, status FROM todos ORDER BY id"))
        assert rows == [(0, "shared", "pending"), *((forked["conversation_id"], one, "pending") for one in ("mine", "ours"))]


def test_a_queue_is_forked_as_it_was(database_url: str, tmp_path: Path) -> None:
    yes = text(json.dumps({"ok": True, "reason": "fine"}))
    strong = in_order(
        queue_call("bake", "frost", "eat"), text("Baked."), text("Frosted."), text("Eaten."), text("Frosted twice."), text("Gone.")
    )
    with open_talk(database_url, tmp_path, tiers(strong, yes), model_cheap=CHEAP_TIER) as talk:
        original = talk.say("A cake!", "queue")
        former = list_plan(talk, original["id"])
        forked = fork(talk, original["id"], ForkRequest(2))
        assert (forked["mode"], forked["outcome"]) == ("queue", "drained")
        assert summarize(talk.plan()) == [
            ("bake", "completed", "Baked."),
            ("frost", "completed", "Frosted twice."),
            ("eat", "completed", "Gone."),
        ]
        assert list_plan(talk, original["id"]) == former


def test_a_long_result_can_be_read_again_by_its_handle(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "long.py").write_text(COUNTER.replace('{"rung": bell}', '"x" * 60_000 + bell').replace("dict", "str"))

    def read_rest(request: Request) -> Reply:
        (handle,) = re.findall(r"handle (\S+), offset", request.tool_results[0].content)
        return calls(("use_tool", {"name": "read_result", "arguments": {"handle": handle, "offset": 60_000}}))

    script = in_order(calls(("ring", {"bell": "the end"})), text("Long."), read_rest, text("Read."))
    with open_talk(sqlite_url, tmp_path, script) as talk:
        original = talk.say("Ring!")
        assert fork(talk, original["id"], ForkRequest(1))["outcome"] == "answered"
        assert "the end" in talk.requests[-1].tool_results[-1].content


def test_a_conversation_is_forked_at_a_message(sqlite_url: str, tmp_path: Path) -> None:
    """A user's message is sent again, as it is or edited; an agent's is written again."""
    replies = ("One.", "Two.", "Two again.", "Three.", "Two, rewritten.")
    with open_talk(sqlite_url, tmp_path, in_order(*map(text, replies))) as talk:
        talk.say("First?")
        talk.say("Second?")
        first, _, second, answer = talk.messages()
        original = talk.conversation_id

        def fork_at(request: ForkRequest) -> list[str]:
            start(talk, request, lambda tx, checked: talk.headway.forks.begin_at_message(tx, talk.tenant_id, original, checked))
            talk.conversation_id = talk.turn()["conversation_id"]
            return [message.content for message in talk.messages()]

        assert fork_at(ForkRequest(second.id)) == ["First?", "One.", "Second?", "Two again."]
        assert fork_at(ForkRequest(second.id, "Third?")) == ["First?", "One.", "Third?", "Three."]
        assert fork_at(ForkRequest(answer.id)) == ["First?", "One.", "Second?", "Two, rewritten."]
        for wrong, problem in [
            (ForkRequest(answer.id, "No."), "cannot be edited"),
            (ForkRequest(10**9), "has no message"),
            (ForkRequest(first.id, " "), "blank"),
        ]:
            with pytest.raises(HeadwayError, match=problem):
                fork_at(wrong)


def test_the_same_model_takes_the_same_steps_again(sqlite_url: str, tmp_path: Path) -> None:
    """A fork shows its model what the original's saw, so that a model that follows rules answers in the same way."""
    with open_talk(sqlite_url, tmp_path, text(""), model="rehearsal") as talk:
        original = talk.say("buy cake, invite friends, write a card")
        for at in (0, 1, 3, 4):
            forked = fork(talk, original["id"], ForkRequest(at))
            diff = talk.database.read(
                lambda tx, forked=forked: steps.compare_turns(tx, talk.tenant_id, original["id"], forked["id"])  # type: ignore[misc]
            )
            assert (diff["diverged_at"], diff["b"]["answer"]) == (None, diff["a"]["answer"]), at
