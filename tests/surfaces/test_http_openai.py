"""The OpenAI-compatible endpoint, through OpenAI's own Python client: answers, progress, conversations, waits and errors."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from pydantic import SecretStr

from headway.actions.installation import halts
from tests.model_server import Failure, ModelServer, Reply, Request, calls, text
from tests.surfaces.conversation_client import get_turn, list_messages, plan_and_drain, reply_in_order, say
from tests.surfaces.front_end_clients import openai_js
from tests.surfaces.server_harness import LOCAL_OPTIONS, PATIENCE_S, Client, Service
from tests.surfaces.waiting_turns import SUM, add_rule, ask_then_answer, call_then_answer
from tests.tables import each_row

Chat = list[Any]
LONG = " ".join(f"word {n}" for n in range(200))


def open_openai(client: Client) -> openai.OpenAI:
    """Return OpenAI's client of this tenant."""
    url = f"{str(client.base_url).rstrip('/')}/v1"
    web: Any = httpx.Client(**LOCAL_OPTIONS)
    return openai.OpenAI(base_url=url, api_key=client.secret, max_retries=0, timeout=PATIENCE_S, http_client=web)


@pytest.fixture
def ai(sqlite_chatter: Client) -> Iterator[openai.OpenAI]:
    with open_openai(sqlite_chatter) as opened:
        yield opened


def user(content: Any) -> Any:
    return {"role": "user", "content": content}


def complete(ai: openai.OpenAI, messages: Chat, **options: Any) -> str:
    """Send a chat's messages, append the answer to them and return it."""
    completion = ai.chat.completions.create(model="index", messages=messages, **options)
    answer = completion.choices[0].message.content
    messages.append({"role": "assistant", "content": answer})
    return str(answer)


def list_conversations(client: Client) -> list[int]:
    return [row["id"] for row in client.ok("GET", "/v1/conversations")["conversations"]][::-1]


def test_roles_are_models(ai: openai.OpenAI) -> None:
    names = [model.id for model in ai.models.list()]
    assert names[0] == "index"
    assert "researcher" in names
    assert ai.models.retrieve("coder").owned_by == "headway"
    with pytest.raises(openai.NotFoundError) as refused:
        ai.chat.completions.create(model="gpt-9", messages=[user("hello")])
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    assert "researcher" in refused.value.message


def test_a_completion_has_the_answer_the_progress_and_the_usage(
    ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer
) -> None:
    script = plan_and_drain("buy milk", "buy bread", answer="All is bought.")
    model.script = lambda request: Reply(**{**vars(script(request)), "usage": (100, 10), "cached": 60})
    answer = ai.chat.completions.with_raw_response.create(model="index", messages=[user("Buy milk and bread.")])
    completion = answer.parse()

    (choice,) = completion.choices
    assert (choice.message.content, choice.finish_reason) == ("All is bought.", "stop")
    progress = choice.message.reasoning_content  # type: ignore[attr-defined]
    assert "Todos: 2 of 2 left\n[>] buy milk\n[ ] buy bread\n" in progress
    assert "Todos: 0 of 2 left\n[x] buy milk\n[x] buy bread\n" in progress
    assert completion.usage is not None
    assert completion.usage.prompt_tokens_details is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (400, 40)
    assert completion.usage.prompt_tokens_details.cached_tokens == 240
    turn = get_turn(sqlite_chatter, answer.headers["headway-turn"])
    assert (turn["status"], turn["conversation_id"]) == ("finished", int(answer.headers["headway-conversation"]))


def test_a_stream_has_the_same_and_keeps_the_answer_clean(ai: openai.OpenAI, model: ModelServer) -> None:
    model.script = reply_in_order(calls(("calculate", {"expression": "1/0"}), text="Let me see."), text(LONG))
    chunks = list(
        ai.chat.completions.create(model="index", messages=[user("Divide.")], stream=True, stream_options={"include_usage": True})
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    pieces = [delta.content for delta in deltas if delta.content]
    progress = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)

    assert "".join(pieces) == LONG
    assert len(pieces) > 3  # it is streamed while the model writes
    assert progress.startswith('Let me see.\ncalculate {"expression":"1/0"}\ncalculate failed: ')
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_client_that_resends_its_history_continues_its_conversation(
    ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer
) -> None:
    model.script = lambda request: text(f"Answer {len(request.messages)} to {request.last.splitlines()[-1]}")
    first: Chat = [user("hello")]
    second: Chat = [user("hello")]
    complete(ai, first)
    complete(ai, second)
    one, two = list_conversations(sqlite_chatter)
    first[-1]["content"] += "  \n"  # clients trim and reformat
    for chat in (first, second):
        chat.append(user("and then?"))
        complete(ai, chat)
        chat.append(user("and at last?"))
        complete(ai, chat)

    assert list_conversations(sqlite_chatter) == [one, two]
    for conversation in (one, two):
        asked = [content for role, content in list_messages(sqlite_chatter, conversation) if role == "user"]
        assert asked == ["hello", "and then?", "and at last?"]


@pytest.fixture
def either_ai(chatter: Client) -> Iterator[openai.OpenAI]:
    """OpenAI's client, once with each kind of database."""
    with open_openai(chatter) as opened:
        yield opened


def test_an_edited_message_continues_a_copy_of_the_conversation(
    either_ai: openai.OpenAI, chatter: Client, model: ModelServer
) -> None:
    ai = either_ai
    model.script = lambda request: text(f"You said: {request.last.splitlines()[-1]}")
    chat: Chat = [user("My name is Ada.")]
    complete(ai, chat)
    edited = [*chat, user("What is my name?")]
    complete(ai, [*chat, user("What is my nmae?")])
    complete(ai, edited)

    original, copy = list_conversations(chatter)
    assert [content for _, content in list_messages(chatter, copy)][0::2] == ["My name is Ada.", "What is my name?"]
    assert [content for _, content in list_messages(chatter, original)][2] == "What is my nmae?"
    assert any("My name is Ada." in said for said in model.requests[-1].texts)  # the agent knows what was said before

    edited[1]["content"] = "Something that was never said."
    complete(ai, [*edited[:2], user("And now?")])
    unknown = list_conversations(chatter)[-1]
    assert list_messages(chatter, unknown)[0] == ("user", "And now?")
    assert any("Something that was never said." in said for said in model.requests[-1].texts)  # as a file


@pytest.mark.parametrize("name", ["header", "metadata", "user"])
def test_a_conversation_can_be_named(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer, name: str) -> None:
    model.script = lambda _request: text("Noted.")
    options: Any = {
        "header": {"extra_headers": {"Headway-Conversation": "mine"}},
        "metadata": {"metadata": {"conversation": "mine"}, "user": "somebody"},
        "user": {"user": "mine"},
    }[name]
    complete(ai, [user("one")], **options)
    complete(ai, [user("never sent"), {"role": "assistant", "content": "never said"}, user("two")], **options)

    (conversation,) = sqlite_chatter.ok("GET", "/v1/conversations")["conversations"]
    assert conversation["key"] == "mine"
    assert [content for role, content in list_messages(sqlite_chatter, conversation["id"]) if role == "user"] == ["one", "two"]
    by_id: Any = {"extra_headers": {"Headway-Conversation": str(conversation["id"])}}
    complete(ai, [user("three")], **by_id)
    assert len(list_messages(sqlite_chatter, conversation["id"])) == 6


def test_system_messages_and_files_reach_the_agent(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = lambda _request: text("Oui.")
    note = base64.b64encode(b"the door is green").decode()
    content = [
        {"type": "text", "text": "Which colour?"},
        {"type": "file", "file": {"filename": "note.txt", "file_data": f"data:text/plain;base64,{note}"}},
    ]
    complete(ai, [{"role": "system", "content": "Answer in French."}, user(content)])

    assert "Answer in French." in model.requests[-1].system
    assert any("the door is green" in said for said in model.requests[-1].texts)
    (conversation,) = list_conversations(sqlite_chatter)
    (message, _) = sqlite_chatter.ok("GET", f"/v1/conversations/{conversation}/messages")["messages"]
    assert [file["name"] for file in message["attachments"]] == ["note.txt"]
    with pytest.raises(openai.UnprocessableEntityError, match="fetches no files"):
        complete(
            ai, [user([{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}])]
        )


@each_row(
    ("options", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"stop": ["\n"]}, "stop"),
        ({"logprobs": True}, "logprobs"),
    ],
)
def test_what_would_change_the_meaning_is_refused(ai: openai.OpenAI, options: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        ai.chat.completions.create(model="index", messages=[user("hello")], **options)
    assert (refused.value.param, refused.value.code, refused.value.type) == (
        param,
        "unsupported_parameter",
        "invalid_request_error",
    )


def test_what_is_harmless_is_ignored(ai: openai.OpenAI, model: ModelServer) -> None:
    model.script = lambda _request: text("Hello.")
    options: dict[str, Any] = {"temperature": 0.5, "max_tokens": 5, "n": 1, "tools": [], "response_format": {"type": "text"}}
    assert complete(ai, [user("hello")], **options) == "Hello."


def test_errors_have_the_form_that_clients_know(
    ai: openai.OpenAI, sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    model.script = reply_in_order(Reply(failure=Failure(400, "no such thing")))
    with pytest.raises(openai.InternalServerError, match="no such thing") as failed:
        complete(ai, [user("hello")])
    assert failed.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.APIError, match="no such thing"):
        list(ai.chat.completions.create(model="index", messages=[user("hello")], stream=True))
    with pytest.raises(openai.AuthenticationError) as stranger:
        openai.OpenAI(base_url=ai.base_url, api_key="hw_wrong", max_retries=0, http_client=ai._client).models.list()
    assert (stranger.value.type, stranger.value.code) == ("authentication_error", "unauthorized")  # LiteLLM goes by the type
    for ask in (lambda: ai.embeddings.create(model="index", input="x"), lambda: ai.completions.create(model="index", prompt="x")):
        with pytest.raises(openai.NotFoundError, match="No route matches this path") as missing:
            ask()
        assert (missing.value.type, missing.value.code) == ("invalid_request_error", "no_such_path")
    with pytest.raises(openai.UnprocessableEntityError, match="last message must be a user's"):
        complete(ai, [user("hello"), {"role": "assistant", "content": "Hi."}])
    no_list: Any = "hello"
    with pytest.raises(openai.UnprocessableEntityError) as mistaken:
        ai.chat.completions.create(model="index", messages=no_list)
    assert mistaken.value.param == "messages"
    sqlite_chat_service.database.write(halts.halt)
    try:
        with pytest.raises(openai.InternalServerError) as halted:
            complete(ai, [user("hello")])
    finally:
        sqlite_chat_service.database.write(halts.unhalt)
    assert (halted.value.status_code, halted.value.code) == (503, "halted")


def test_a_turn_that_cannot_finish_says_so(ai: openai.OpenAI, model: ModelServer) -> None:
    model.script = lambda request: calls(("now", {}))  # it never answers
    completion = ai.chat.completions.create(model="index", messages=[user("hello")])
    assert completion.choices[0].finish_reason == "length"
    assert completion.choices[0].message.content
    model.script = lambda _request: Reply("Never.", finish="content_filter")
    completion = ai.chat.completions.create(model="index", messages=[user("hello")])
    assert completion.choices[0].finish_reason == "content_filter"


def test_the_next_message_answers_what_the_turn_waits_for(
    ai: openai.OpenAI, sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    model.script = ask_then_answer("Which colour?", ("red", "blue"))
    chat: Chat = [user("Paint the door.")]
    assert complete(ai, chat) == "Which colour?\n- red\n- blue"
    chat.append(user("blue"))
    assert "blue" in complete(ai, chat)
    chat.append(user("Thank you."))
    model.script = lambda _request: text("You are welcome.")
    assert complete(ai, chat) == "You are welcome."
    assert len(list_conversations(sqlite_chatter)) == 1

    add_rule(sqlite_chat_service, "calculate", sqlite_chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM)
    chat = [user("Calculate.")]
    assert 'is needed to call `calculate` with {"expression":"6 * 7"}' in complete(ai, chat)
    chat.append(user("Approve."))
    assert complete(ai, chat) == "Done."


UNDECIDED = (
    "Approve nothing yet",
    "Yes, wait: what exactly would that write?",
    "no problem, go on",
    "approve 7 8",
    "approve\nit all",
)


def test_a_message_that_only_begins_like_a_decision_decides_nothing(
    ai: openai.OpenAI, sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer
) -> None:
    add_rule(sqlite_chat_service, "calculate", sqlite_chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM)
    chat = [user("Calculate.")]
    complete(ai, chat)
    for message in UNDECIDED:
        chat.append(user(message))
        assert 'is needed to call `calculate` with {"expression":"6 * 7"}. Reply "approve"' in complete(ai, chat)
    (approval,) = sqlite_chatter.get("/v1/approvals").json()["approvals"]
    assert approval["state"] == "proposed"
    with pytest.raises(openai.ConflictError, match="Nothing was decided") as undecided:
        complete(ai, [*chat, user(f"approve {approval['id'] + 1}")])
    assert (undecided.value.code, undecided.value.response.headers["x-should-retry"]) == ("turn_waiting", "false")

    chat.append(user(f"approve #{approval['id']}"))
    assert complete(ai, chat) == "Done."
    said = "\n".join(model.requests[-1].texts)
    assert all(message in said for message in UNDECIDED)
    assert len(list_conversations(sqlite_chatter)) == 1


@pytest.mark.parametrize(
    ("word", "state"), [("yes", "approved"), (" Approved! ", "approved"), ("DENY", "rejected"), ("no.", "rejected")]
)
def test_a_response_is_decided_by_one_word(
    ai: openai.OpenAI, sqlite_chatter: Client, sqlite_chat_service: Service, model: ModelServer, word: str, state: str
) -> None:
    add_rule(sqlite_chat_service, "calculate", sqlite_chatter.desk.tenant.name)
    model.script = call_then_answer("calculate", SUM)
    asked = ai.responses.create(model="index", input="Calculate.")
    reminded = ai.responses.create(model="index", input="yes that is a question I also have", previous_response_id=asked.id)
    assert 'Reply "approve"' in reminded.output_text
    ai.responses.create(model="index", input=word, previous_response_id=reminded.id)
    (approval,) = sqlite_chatter.get("/v1/approvals").json()["approvals"]
    assert approval["state"] == state


PAINT = {"name": "paint", "description": "Paint the door.", "parameters": {"type": "object", "properties": {"colour": {}}}}


def paint_twice(request: Request) -> Reply:
    """A model that thinks aloud, calls the client's tool twice, and then repeats the results."""
    if len(request.tool_results) < 2:
        return calls(("paint", {"colour": "blue"}), text=f"Coat {len(request.tool_results) + 1}.")
    return text(" and ".join(result.content for result in request.tool_results))


def test_an_agent_calls_the_tools_of_the_client(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = paint_twice
    chat: Chat = [user("Paint the door.")]
    tools: Any = [{"type": "function", "function": PAINT}]
    for coat in ("first", "second"):
        choice = ai.chat.completions.create(model="index", messages=chat, tools=tools).choices[0]
        assert choice.message.tool_calls is not None
        (made,) = choice.message.tool_calls
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        assert choice.message.reasoning_content == f"Coat {len(chat) // 2 + 1}.\n"  # type: ignore[attr-defined]
        assert (made.function.name, json.loads(made.function.arguments)) == ("paint", {"colour": "blue"})  # type: ignore[union-attr]
        chat += [choice.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": made.id, "content": f"{coat} coat"}]
    assert complete(ai, chat, tools=tools) == '{"result": "first coat"} and {"result": "second coat"}'
    model.script = lambda _request: text("Any time.")
    chat.append(user("Thank you."))
    assert complete(ai, chat, tools=tools) == "Any time."
    assert len(list_conversations(sqlite_chatter)) == 1
    with pytest.raises(openai.NotFoundError):
        complete(ai, [user("x"), {"role": "tool", "tool_call_id": "call_1", "content": "y"}])
    taken = [{"type": "function", "function": {**PAINT, "name": "calculate"}}]
    with pytest.raises(openai.UnprocessableEntityError, match="calculate"):
        complete(ai, [user("x")], tools=taken)


def test_a_response_calls_the_tools_of_the_client(ai: openai.OpenAI, model: ModelServer) -> None:
    model.script = paint_twice
    tools: Any = [{"type": "function", **PAINT}]
    with ai.responses.stream(model="index", input="Paint the door.", tools=tools) as stream:
        response = stream.until_done().get_final_response()
    made = response.output[-1]
    assert made.type == "function_call"
    stored = ai.responses.retrieve(response.id).output[-1]
    assert stored.type == "function_call"
    assert (stored.call_id, stored.name, stored.arguments) == (made.call_id, "paint", '{"colour":"blue"}')
    result: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "first coat"}
    again = ai.responses.create(model="index", input=[result], previous_response_id=response.id, tools=tools)
    assert [item.type for item in again.output] == ["reasoning", "function_call"]
    # A message instead of the result: the turn goes on, and the agent reads it.
    model.script = lambda request: text(f"I read: {request.last.splitlines()[-1]}")
    last = ai.responses.create(model="index", input="Never mind.", previous_response_id=again.id)
    assert last.output_text == "I read: Never mind."


@pytest.mark.compatibility
def test_langchain_calls_the_tools_of_the_client(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage  # noqa: PLC0415  slow, and all workers import this file
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    model.script = lambda request: text("Painted.") if request.tool_results else calls(("paint", {"colour": "red"}))
    chat = ChatOpenAI(model="index", base_url=str(ai.base_url), api_key=SecretStr(sqlite_chatter.secret), http_client=ai._client)
    bound = chat.bind_tools([{"type": "function", "function": PAINT}])
    talk: list[Any] = [HumanMessage("Paint it red.")]
    asked = bound.invoke(talk)
    assert [(call["name"], call["args"]) for call in asked.tool_calls] == [("paint", {"colour": "red"})]
    painted = bound.invoke([*talk, asked, ToolMessage("done", tool_call_id=asked.tool_calls[0]["id"])])
    assert painted.content == "Painted."


def test_a_key_makes_a_request_take_effect_once(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = lambda request: text(f"Answer {len(request.messages)}")
    answers = [
        ai.chat.completions.create(model="index", messages=[user("hello")], extra_headers={"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert len(list_conversations(sqlite_chatter)) == 1


def test_a_turn_goes_on_when_the_client_disconnects(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = lambda _request: text("Here.")
    model.hold()
    with ai.chat.completions.create(model="index", messages=[user("hello")], stream=True):
        model.wait_for_requests(1)
    (conversation,) = list_conversations(sqlite_chatter)
    sqlite_chatter.refused("POST", f"/v1/conversations/{conversation}/messages", 409, "turn_running", json={"content": "more"})
    chat: Chat = [user("hello"), {"role": "assistant", "content": ""}, user("and then?")]
    with pytest.raises(openai.ConflictError):
        complete(ai, chat)
    model.release()
    assert complete(ai, chat, extra_query={"wait": 60}) == "Here."
    assert len(list_messages(sqlite_chatter, conversation)) == 4


# The Responses API


def test_a_response_streams_its_progress_and_its_answer(ai: openai.OpenAI, model: ModelServer) -> None:
    model.script = plan_and_drain("buy milk", answer="Bought.")
    with ai.responses.stream(model="index", input="Buy milk.", instructions="Be brief.") as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()

    assert (response.status, response.output_text) == ("completed", "Bought.")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert "[x] buy milk" in response.output[0].summary[0].text  # type: ignore[union-attr]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert {"response.reasoning_summary_text.delta", "response.output_text.delta"} < set(kinds)
    assert "Be brief." in model.requests[0].system
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 0
    stored = ai.responses.retrieve(response.id)
    assert (stored.output_text, stored.status, stored.usage) == ("Bought.", "completed", response.usage)
    assert (stored.created_at, stored.id) == (response.created_at, response.id)


def test_a_response_continues_the_one_before_it(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    model.script = lambda request: text(f"You said: {request.last.splitlines()[-1]}")
    first = ai.responses.create(model="index", input="one")
    second = ai.responses.create(model="index", input="two", previous_response_id=first.id)
    other = ai.responses.create(model="index", input="three", previous_response_id=first.id)

    original, copy = list_conversations(sqlite_chatter)
    asked = [[content for role, content in list_messages(sqlite_chatter, id) if role == "user"] for id in (original, copy)]
    assert asked == [["one", "two"], ["one", "three"]]
    assert (second.metadata or {})["conversation"] == str(original)
    assert (other.metadata or {})["conversation"] == str(copy)
    named = ai.responses.create(model="index", input=[user("four")], conversation="mine", metadata={"about": "x"})
    assert named.metadata is not None
    assert (named.metadata["about"], named.output_text) == ("x", "You said: four")
    with pytest.raises(openai.NotFoundError):
        ai.responses.create(model="index", input="x", previous_response_id="resp_unknown")


def test_a_response_in_the_background_is_polled_and_canceled(ai: openai.OpenAI, model: ModelServer) -> None:
    model.script = lambda _request: text("Here.")
    model.hold()
    begun = ai.responses.create(model="index", input="hello", background=True)
    assert (begun.status, ai.responses.retrieve(begun.id).status) == ("in_progress", "in_progress")
    assert ai.responses.cancel(begun.id).status == "cancelled"
    with pytest.raises(openai.ConflictError):
        ai.responses.cancel(begun.id)
    model.release()


def test_a_turn_of_another_surface_can_be_continued(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    """The ledger's history is the truth, whoever wrote it."""
    model.script = lambda _request: text("Hello.")
    conversation = sqlite_chatter.conversation(key="mine")
    say(sqlite_chatter, conversation, "said elsewhere", params={"wait": 60})
    complete(ai, [user("and here")], user="mine", extra_query={"wait": 60})
    assert any("said elsewhere" in said for said in model.requests[-1].texts)
    assert json.loads(json.dumps(list_messages(sqlite_chatter, conversation)))[2] == ["user", "and here"]


# Other clients


def test_the_javascript_client_understands_every_answer(sqlite_chatter: Client, model: ModelServer) -> None:
    plan = plan_and_drain("buy milk", answer="Bought.")
    model.script = lambda request: text("Any time.") if "Thank you." in request.last else plan(request)
    view = openai_js(sqlite_chatter, "Buy milk.", "Thank you.")

    assert view["models"][0] == "index"
    assert [message["content"] for message in view["messages"]] == ["Buy milk.", "Bought.", "Thank you.", "Any time."]
    assert "[x] buy milk" in view["progress"][0]
    assert (view["response"]["status"], view["response"]["output"][-1]["content"][0]["text"]) == ("completed", "Bought.")
    assert view["refused"] == {"status": 422, "code": "unsupported_parameter", "param": "n"}
    assert len(list_conversations(sqlite_chatter)) == 2


@pytest.mark.compatibility
def test_langchain_talks_to_an_agent(ai: openai.OpenAI, sqlite_chatter: Client, model: ModelServer) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage  # noqa: PLC0415  as above
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    model.script = lambda request: text(f"You said: {request.last.splitlines()[-1]}", usage=(100, 10))
    chat = ChatOpenAI(model="index", base_url=str(ai.base_url), api_key=SecretStr(sqlite_chatter.secret), http_client=ai._client)
    talk = [SystemMessage("Be brief."), HumanMessage("one")]
    first = chat.invoke(talk)
    pieces = list(chat.stream([*talk, first, HumanMessage("two")]))

    assert (first.content, first.response_metadata["finish_reason"]) == ("You said: one", "stop")
    assert isinstance(first, AIMessage)
    assert first.usage_metadata is not None
    assert first.usage_metadata["total_tokens"] == 110
    assert "".join(str(piece.content) for piece in pieces) == "You said: two"
    (conversation,) = list_conversations(sqlite_chatter)
    assert len(list_messages(sqlite_chatter, conversation)) == 4
    by_responses = ChatOpenAI(
        model="index",
        base_url=str(ai.base_url),
        api_key=SecretStr(sqlite_chatter.secret),
        http_client=ai._client,
        use_responses_api=True,
    )
    assert by_responses.invoke("three").text == "You said: three"
