"""Turns that wait for a person: a policy that asks about a harmless tool, and a model that calls it."""

import json
from typing import Any

from tests.model_server import Reply, Script, calls, text
from tests.surfaces.conversation_client import get_turn, say
from tests.surfaces.server_harness import Client, Service, wait_until

SUM = {"expression": "6 * 7"}


def add_rule(service: Service, tool: str, tenant: str, decision: str = "ask") -> None:
    """Add a rule for this tenant to the policy of a server that other tests share."""
    policy = service.log.parent / ".headway" / "policy.toml"
    before = policy.read_text() if policy.exists() else ""
    policy.parent.mkdir(exist_ok=True)
    policy.write_text(f'{before}[[rule]]\ntool = "{tool}"\ntenant = "{tenant}"\ndecision = "{decision}"\n\n')


def call_then_answer(tool: str, arguments: dict[str, Any], answer: str = "Done.") -> Script:
    """Return a script of a model that calls a tool once in a conversation, and then answers."""
    return lambda request: text(answer) if request.assistant_turns else calls((tool, arguments))


def ask_then_answer(question: str, choices: tuple[str, ...] = ()) -> Script:
    """Return a script of a model that asks a person, and then repeats the result."""
    asked: Reply = calls(("ask_person", {"question": question, **({"choices": list(choices)} if choices else {})}))

    def script(request: Any) -> Reply:
        return text(f"I heard {request.tool_results[-1].content}") if request.tool_results else asked

    return script


def begin_waiting_turn(client: Client, conversation: int, message: str = "go") -> dict[str, Any]:
    """Send a message whose turn will wait for a person, and return the turn once it waits."""
    turn_id = say(client, conversation, message)
    wait_until(lambda: get_turn(client, turn_id)["status"] != "running", "the turn waits")
    turn = get_turn(client, turn_id)
    assert turn["status"] == "waiting", (turn, client.desk.events()[-5:])
    return turn


def list_results(client: Client) -> list[tuple[str, Any, bool]]:
    """Return the tool results of the tenant's agents: the tool, its result and whether it is an error."""
    events = [json.loads(data) for kind, data in client.desk.events() if kind == "tool_result"]
    return [(event["tool"], event["result"], event["is_error"]) for event in events]
