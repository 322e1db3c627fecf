"""The model of the turn scenario: it prepares a party, over every path of the loop. Its reply depends on the request alone, so a
request that is repeated after a crash gets the same reply.

It also kills some of its clients, at the moment their API key names: `before.3.4711` kills process 4711 when its third request
arrives, `after.3.4711` when that request has been answered, and `hold.3` holds the third reply back until `release`.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.model_server import ChatHandler, ModelProcess, ModelServer, Reply, Request, call, calls, get_text, text

REQUEST = "Prepare the party: read who comes, order what we need, and tell everybody."
MESSAGE = "And hurry."
STRONG, CHEAP = "fake-strong", "fake-cheap"
READ, ORDER, TELL = "read who comes", "order what we need", "tell everybody"
WANTED = ("cake", "candles")
LONG = "Dear all, you are invited, and this letter is longer than"
SUMMARY = "The letter to all has been begun."
BEGINNING, REST = "The party", " is prepared."
CONTINUE = "The length limit cut your answer off."
UNKNOWN = "The effect of this call is unknown"
FINAL = BEGINNING + REST
USAGE = (1_000, 100)
AGAIN = "-again"


def reply(request: Request) -> Reply:
    if request.model == CHEAP:
        assert LONG in request.last
        return text(SUMMARY, usage=(500, 50))
    return supervisor_reply(request)


def supervisor_reply(request: Request) -> Reply:
    """The reply to the newest message, as the loop derives its next step."""
    messages = [message for message in request.messages if not is_aside(get_text(message))]
    answered = list_answered_tools(messages)
    return reply_after_tools(request, answered, messages) if answered else reply_after_text(request, get_text(messages[-1]))


def is_aside(said: str) -> bool:
    """Whether a message changes nothing about the next reply."""
    return said.startswith("[TURN CONTEXT]") or said.endswith(MESSAGE)


def reply_after_text(request: Request, last: str) -> Reply:
    if last.startswith("Not finished"):
        return number_calls(request, complete_call(request, ORDER))
    if "clean up afterwards" in last:
        return calls(call("invite", {"guest": LONG}, id="cut-off"), finish="length", usage=USAGE)
    if SUMMARY in last:
        return number_calls(request, complete_call(request, TELL))
    if last.startswith(CONTINUE):
        return text(REST, usage=USAGE)
    assert last == REQUEST, last
    return number_calls(
        request, ("create_todo", {"items": [{"title": title} for title in (READ, ORDER, TELL)]}), text="First a plan."
    )


def reply_after_tools(request: Request, tools: list[str], messages: Sequence[dict[str, Any]]) -> Reply:
    results = "".join(get_text(message) for message in list_newest_results(messages))
    match tools:
        case ["create_todo"]:
            return number_calls(
                request, ("read_file", {"path": "guests.txt"}), ("invite", {"guest": "Ada"}), complete_call(request, READ)
            )
        case ["read_file", "invite", "complete_todo"]:
            return number_calls(request, *(("order", {"what": what}) for what in WANTED), text="There is much to order.")
        case ["order", *_] if UNKNOWN in results:
            return number_calls(request, ("read_file", {"path": "orders.txt"}))
        case ["read_file"] if missing := [what for what in WANTED if what not in results]:
            return number_calls(request, *(("order", {"what": what}) for what in missing))
        case ["complete_todo"] if '"remaining": 1' in results:
            return text("I keep in mind what is left.\n/todo add clean up afterwards\n\nNow the letter.", usage=USAGE)
        case ["complete_todo"]:
            return text(BEGINNING, finish="length", usage=USAGE)
    return text("Everything is ordered, so I am done.", usage=USAGE)


def number_calls(request: Request, *requested: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """Give every call a unique id. A repeated call gets the suffix `-again`."""
    taken = {made["id"] for message in request.messages for made in message.get("tool_calls") or []}
    named = [
        call(name, arguments, id=find_free_id("-".join([name, *list_key_parts(arguments)]), taken)) for name, arguments in requested
    ]
    return calls(*named, text=text, usage=USAGE)


def find_free_id(id: str, taken: set[str]) -> str:
    return find_free_id(f"{id}{AGAIN}", taken) if id in taken else id


def list_key_parts(arguments: dict[str, Any]) -> Iterator[str]:
    return (value.replace(" ", "_") for name, value in arguments.items() if isinstance(value, str) and name != "todoId")


def complete_call(request: Request, title: str) -> tuple[str, dict[str, Any]]:
    """Complete the item with this title. Its id is in the result of create_todo."""
    matched = re.search(rf'"id": (\d+), "title": "{title}"', "\n".join(request.texts))
    assert matched, f"no item {title!r} in {request.texts!r}"
    return "complete_todo", {"todoId": int(matched[1]), "outcome": f"done: {title}"}


def list_answered_tools(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The tools whose results end the transcript; empty if another message follows them."""
    names = {made["id"]: made["function"]["name"] for message in messages for made in message.get("tool_calls") or []}
    return [names[message["tool_call_id"]] for message in list_newest_results(messages)]


def list_newest_results(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    before = max((place for place, message in enumerate(messages) if message["role"] != "tool"), default=-1)
    return list(messages[before + 1 :])


# The process


class KillingHandler(ChatHandler):
    """Handles requests as usual, and kills or holds a client as its key demands."""

    asked: Counter[str] = Counter()

    def complete(self, body: Any) -> None:
        key = self.headers["Authorization"].removeprefix("Bearer ")
        self.asked[key] += 1
        verb, _, rest = key.partition(".")
        number, _, process = rest.partition(".")
        due = number == str(self.asked[key])
        if due and verb == "hold":
            self.server.hold()
        if due and verb == "before":
            kill(int(process))
        super().complete(body)
        if due and verb == "after":
            kill(int(process))


def kill(process: int) -> None:
    with suppress(ProcessLookupError):  # the client may exit after its last answer
        os.kill(process, signal.SIGKILL)


@contextmanager
def run_turn_model() -> Iterator[ModelProcess]:
    """Run it in a separate process until the block ends."""
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True, env=path) as process:
        try:
            assert process.stdout is not None
            yield ModelProcess(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()


def main() -> None:
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before any thread starts: threads inherit the mask
    server = ModelServer(reply)
    server.RequestHandlerClass = KillingHandler
    with server:
        print(json.dumps({"url": server.url}), flush=True)
        signal.sigwait(ends)


if __name__ == "__main__":
    main()
