"""Steering: what a person writes to a running turn or sub-agent is read at its next step, and before it ends with an answer."""

from functools import partial
from itertools import count
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestParameters

from headway.actions.engine import run_ends
from headway.actions.installation import tenants
from headway.actions.todos import conversations
from headway.actions.turns import steering, turns
from headway.agents.instructions.prompts import STEERING_PREFIX, build_steering_message
from headway.agents.models.local import LocalModel
from headway.agents.models.rehearsal.model import TEXT_ONLY, answer
from headway.ledger.attachment import Attachment
from headway.ledger.errors import Conflict, HeadwayError, Invalid, NotFound, TurnEnded
from headway.ledger.run import SteeringMessage
from headway.storage.direct import DirectDatabase
from tests.agents.sub_agent_harness import by_role, by_transcript, delegate_call, get_result, list_requests, list_sub_agents
from tests.agents.test_compaction import NOTE, SMALL
from tests.agents.test_request_prefix import read_all, write_files
from tests.agents.turn_harness import CHEAP_TIER, SCRIPTED, Talk, in_order, list_open_ids, open_talk, plan_call, queue_call, tiers
from tests.autonomy.goal_harness import agent, by_part, open_pursuit, plan, step
from tests.forgeries import PAYLOADS, list_edges
from tests.model_server import Reply, Request, Script, calls, filtered_text, text, to_script

NOW = calls(("now", {}))
TWO_STEPS = "Calculate 12*7, then calculate 1+1"


def send(talk: Talk, *contents: str) -> None:
    """Send messages to the turn, as a surface does."""
    assert talk.run is not None
    turn_id = talk.run.turn_id or ""
    for content in contents:
        talk.database.write(
            partial(steering.send_to_turn, tenant_id=talk.tenant_id, turn_id=turn_id, content=content, sender="ada")
        )


def send_to_sub_agent(talk: Talk, task: str, content: str) -> None:
    run_id = list_sub_agents(talk)[task].id
    talk.database.write(lambda tx: steering.send_to_agent(tx, talk.tenant_id, run_id, content, "ada"))


def list_steering(talk: Talk) -> list[SteeringMessage]:
    turn_id = talk.turn()["id"]
    return talk.database.read(lambda tx: steering.list_by_turn(tx, talk.tenant_id, turn_id, 500))


def list_received(request: Request) -> list[str]:
    """Return the messages that a request hands to the agent."""
    return [message.removeprefix(STEERING_PREFIX) for message in request.texts if message.startswith(STEERING_PREFIX)]


def while_sending(talk: Talk, reply: Reply | Script, *contents: str) -> Script:
    """Return a script during whose reply messages are sent to the turn."""

    def script(request: Request) -> Reply:
        send(talk, *contents)
        return to_script(reply)(request)

    return script


def test_messages_are_in_the_next_request_in_order(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, NOW) as talk:
        talk.server.script = in_order(while_sending(talk, NOW, "In German.", "And short."), text("Es ist spät."))
        turn = talk.say("What time is it?")
        assert (turn["outcome"], talk.answers(), talk.run_row().unread) == ("answered", ["Es ist spät."], 0)
        first, second = talk.requests
        assert (list_received(first), list_received(second)) == ([], ["In German.", "And short."])
        assert [message["role"] for message in second.messages[-3:]] == ["tool", "user", "user"]
        assert [(message.role, message.content) for message in talk.messages()] == [
            ("user", "What time is it?"),
            ("user", "In German."),
            ("user", "And short."),
            ("assistant", "Es ist spät."),
        ]
        assert [data["content"] for data in talk.list_event_data("message")] == [message.content for message in talk.messages()]
        rows = list_steering(talk)
        assert [(row.content, row.sender, row.run_id, row.turn_id) for row in rows] == [
            (content, "ada", talk.run_row().id, turn["id"]) for content in ("In German.", "And short.")
        ]
        assert all(row.read_at >= row.created_at > 0 for row in rows)


def test_a_message_during_the_final_answer_is_still_read(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, NOW) as talk:
        talk.server.script = in_order(while_sending(talk, text("It is late."), "In German."), text("Es ist spät."), text("Danke."))
        assert talk.say()["outcome"] == "answered"
        assert talk.answers() == ["It is late.", "Es ist spät."]
        assert list_received(talk.requests[1]) == ["In German."]
        talk.say("Thanks.")
        last = talk.requests[-1].texts
        assert [at for at, message in enumerate(last) if message.endswith(("It is late.", "In German.", "spät."))] == [2, 3, 4]


def test_a_later_message_does_not_repeat_the_files_of_the_first(sqlite_url: str, tmp_path: Path) -> None:
    note = Attachment("note.txt", "text/plain", b"the door is green")
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        talk.server.script = in_order(while_sending(talk, NOW, "Look closer."), text("It is green."))
        talk.say("Look.", "plan", note)
        messages = talk.database.read(lambda tx: turns.list_messages(tx, talk.tenant_id, talk.conversation_id, 2))
        assert [(message.content, message.attachments) for message in messages] == [("Look closer.", ()), ("It is green.", ())]
        (first, *_) = talk.database.read(lambda tx: turns.list_messages(tx, talk.tenant_id, talk.conversation_id, 10))
        assert first.attachments == (note.info,)


def test_a_plan_that_is_drained_while_a_message_arrives_is_resumed(sqlite_url: str, tmp_path: Path) -> None:
    def complete(request: Request) -> Reply:
        return calls(("complete_todo", {"todoId": list_open_ids(request)[0], "outcome": "done"}))

    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        answer = while_sending(talk, text("Baked."), "Frost it, too.")
        talk.server.script = in_order(plan_call("Bake"), complete, answer, plan_call("Frost"), complete, text("Frosted."))
        assert talk.say()["outcome"] == "drained"
        assert talk.answers() == ["Baked.", "Frosted."]


def test_a_queue_whose_last_item_is_accepted_goes_on_with_a_message(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NOW, model_cheap=CHEAP_TIER) as talk:
        strong = in_order(queue_call("Bake"), while_sending(talk, text("Baked."), "Frost it, too."), text("Frosted."))
        talk.server.script = tiers(strong, text('{"ok": true, "reason": "fine"}'))
        assert talk.say(mode="queue")["outcome"] == "drained"
        assert talk.answers() == ["Baked.", "Frosted."]


@pytest.mark.parametrize("role", ["", "steps = 2\n"])
def test_a_message_at_the_step_limit_gives_the_turn_new_steps(sqlite_url: str, tmp_path: Path, role: str) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "index.toml").write_text(role)
    with open_talk(sqlite_url, tmp_path, NOW, max_iterations="2") as talk:
        summary = while_sending(talk, text("It is late."), "Look again.")
        talk.server.script = in_order(NOW, NOW, summary, NOW, text("It is later."))
        turn = talk.say()
        assert (turn["outcome"], turn["iterations"], turn["limit"]) == ("answered", 4, 4)
        assert talk.answers() == ["It is late.", "It is later."]
        assert [request.body.get("tool_choice") == "none" for request in talk.requests] == [False, False, True, False, False]


def test_a_message_to_a_turn_that_stalls_gives_it_new_attempts(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        last = while_sending(talk, text(""), "Say hello.")
        talk.server.script = in_order(text(""), text(""), last, text(""), text("Hello."))
        assert (talk.say()["outcome"], talk.answers()) == ("answered", ["Hello."])


def test_a_filtered_answer_is_asked_for_again_with_the_message(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        talk.server.script = in_order(while_sending(talk, filtered_text(), "Leave that out."), text("Here it is."))
        assert (talk.say()["outcome"], talk.answers(), talk.notices()) == ("answered", ["Here it is."], [])
        assert list_received(talk.requests[1]) == ["Leave that out."]


def test_a_message_does_not_come_between_the_parts_of_a_cut_off_answer(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        part = while_sending(talk, text("It is ", finish="length"), "In German.")
        talk.server.script = in_order(part, text("late."), text("Es ist spät."))
        assert (talk.say()["outcome"], talk.answers()) == ("answered", ["It is late.", "Es ist spät."])
        assert [list_received(request) for request in talk.requests] == [[], [], ["In German."]]


@pytest.mark.parametrize("end", [text("A hole."), calls(("report_outcome", {"summary": "A hole."}))])
def test_a_sub_agent_reads_a_message_before_it_ends(database_url: str, tmp_path: Path, end: Reply) -> None:
    def dig(request: Request) -> Reply:
        send_to_sub_agent(talk, "dig", "Deeper.")
        return end

    with open_talk(database_url, tmp_path, NOW) as talk:
        researcher = by_transcript(dig, text("A deep hole."))
        talk.server.script = by_role(index=by_transcript(delegate_call("dig"), text("Dug.")), researcher=researcher)
        assert talk.say("Dig a hole.")["outcome"] == "answered"
        assert get_result(talk, "dig")["summary"] == "A deep hole."
        assert list_received(list_requests(talk, "researcher")[1]) == ["Deeper."]
        child = list_sub_agents(talk)["dig"]
        (event,) = talk.list_event_data("agent_message")
        assert (event["run_id"], event["turn_id"], event["goal_id"]) == (child.id, talk.turn()["id"], None)
        assert (event["message"]["content"], event["message"]["read_at"]) == ("Deeper.", 0)
        assert [message.content for message in talk.messages()] == ["Dig a hole.", "Dug."]  # it is no part of the conversation


def test_a_turn_that_sleeps_reads_a_message_when_its_sub_agent_has_ended(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        researcher = while_sending(talk, text("A hole."), "In German.")
        index = by_transcript(delegate_call("dig"), text("Ein Loch."))
        talk.server.script = by_role(index=index, researcher=researcher)
        assert talk.say()["outcome"] == "answered"
        assert list_received(list_requests(talk, "index")[1]) == ["In German."]
        assert len(list_requests(talk, "researcher")) == 1


def test_a_message_that_arrives_while_no_process_runs_is_read_once(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, text("Es ist spät.")) as talk:

        async def stop_midway() -> None:
            talk.server.hold()
            task = await talk.begin("What time is it?")
            await talk.wait_for_requests(1)
            await talk.crash(task)

        talk.wait(stop_midway())
        send(talk, "In German.")
        assert talk.run_row().unread == 1
        talk.server.release()
        assert talk.resume_turn()["outcome"] == "answered"
        assert [list_received(request) for request in talk.requests] == [[], ["In German."]]
        assert [bool(row.read_at) for row in list_steering(talk)] == [True]


def test_an_unread_message_of_a_canceled_turn_is_in_the_history(sqlite_url: str, tmp_path: Path) -> None:
    def cancel(request: Request) -> Reply:
        send(talk, "In German.")
        turn_id = talk.run_row().turn_id or ""
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))
        return NOW

    with open_talk(sqlite_url, tmp_path, NOW) as talk:
        talk.server.script = in_order(NOW, cancel, text("Hallo."))
        assert talk.say("What time is it?")["status"] == "canceled"
        talk.say("Hello.")
        assert list_received(talk.requests[-1]) == ["In German."]


def test_a_note_repeats_messages_word_for_word(sqlite_url: str, tmp_path: Path) -> None:
    write_files(tmp_path, 20, 4_000)
    with open_talk(sqlite_url, tmp_path, NOTE, **SMALL) as talk:
        read_next = read_all(talk, 20)
        begin = while_sending(talk, read_next, "Skip no file.")
        talk.server.script = tiers(lambda request: (begin if not request.calls else read_next)(request), NOTE)
        assert talk.say("Read all files.")["outcome"] == "drained"
        last = [request for request in talk.requests if request.tools][-1]
        assert list_received(last) == []
        assert any("Later message of the user: Skip no file." in message for message in last.texts)
        stretches = [request.last for request in talk.requests if not request.tools]
        assert any("User: The user sent this message" in stretch for stretch in stretches)


def test_the_main_agent_of_a_goal_reads_messages_while_it_works_on_a_sub_goal(database_url: str, tmp_path: Path) -> None:
    def send_to_main(content: str) -> None:
        with DirectDatabase(database_url) as database:  # on the model server's thread
            ((run_id,),) = database.read(lambda tx: tx.all("SELECT run_id FROM goals"))
            database.write(lambda tx: steering.send_to_agent(tx, pursuit.tenant_id, run_id, content, "ada"))

    def dig(request: Request) -> Reply:
        if list_received(request):
            return text("A deep hole.")
        send_to_main("Deeper.")
        return text("A hole.")

    def fill(request: Request) -> Reply:
        with pytest.raises(Conflict, match="ask for a new plan with a note"):
            send_to_main("Never mind.")
        return text("Filled.")

    script = by_part({"dig": dig, "fill": fill}, plan=plan(step("dig"), agent("fill", "dig")))
    with open_pursuit(database_url, tmp_path, script) as pursuit:
        pursuit.achieve()
        assert pursuit.sub_goal("dig").as_json()["outcome"]["summary"] == "A deep hole."
        assert pursuit.sub_goal("fill").as_json()["outcome"]["summary"] == "Filled."


def try_to_send(talk: Talk, tenant_id: int, turn_id: str, content: str = "Hello?") -> HeadwayError:
    with pytest.raises(HeadwayError) as caught:
        talk.database.write(lambda tx: steering.send_to_turn(tx, tenant_id, turn_id, content, "ada"))
    return caught.value


def test_a_message_that_nobody_would_read_is_refused(database_url: str, tmp_path: Path) -> None:
    def script(_: Request) -> Reply:
        turn_id = talk.run_row().turn_id or ""
        stranger = talk.database.write(lambda tx: tenants.add_tenant(tx, "other")).id
        assert type(try_to_send(talk, stranger, turn_id)) is NotFound
        assert type(try_to_send(talk, talk.tenant_id, turn_id, " \n")) is Invalid
        send(talk, *map(str, range(steering.UNREAD_LIMIT)))
        assert "100 unread messages" in str(try_to_send(talk, talk.tenant_id, turn_id))
        return NOW

    with open_talk(database_url, tmp_path, NOW) as talk:
        talk.server.script = in_order(script, text("Hello."))
        turn = talk.say()
        assert list_received(talk.requests[1]) == [str(n) for n in range(steering.UNREAD_LIMIT)]
        assert type(try_to_send(talk, talk.tenant_id, turn["id"])) is TurnEnded
        own = talk.database.write(lambda tx: conversations.open_turn(tx, talk.tenant_id, talk.conversation_id)).id
        assert "outside Headway" in str(try_to_send(talk, talk.tenant_id, own))
        assert len(list_steering(talk)) == steering.UNREAD_LIMIT


def test_a_message_cannot_forge_a_frame() -> None:
    for payload in PAYLOADS:
        (part,) = build_steering_message(payload).parts
        assert isinstance(part, UserPromptPart)
        assert list_edges(str(part.content)) == [], ascii(payload)


@pytest.mark.parametrize(
    ("content", "after"),
    [("Calculate 12*7", 1), ("Calculate 12*7", 2), (TWO_STEPS, 1), (TWO_STEPS, 4)],
)
def test_the_rehearsal_model_does_what_a_message_asks(sqlite_url: str, tmp_path: Path, content: str, after: int) -> None:
    numbers = count(1)

    def reply(messages: list[ModelMessage], parameters: ModelRequestParameters) -> ModelResponse:
        if next(numbers) == after:
            send(talk, "Calculate 20+22")
        return answer(messages, parameters)

    with open_talk(sqlite_url, tmp_path, LocalModel(SCRIPTED, reply, 0, TEXT_ONLY)) as talk:
        assert talk.say(content)["outcome"] in ("answered", "drained")
        assert "42" in talk.answers()[-1]
        assert [effect.arguments for effect in talk.effects() if "20+22" in effect.arguments and effect.tool == "calculate"]
        assert {todo.status for todo in talk.plan()} <= {"completed"}
