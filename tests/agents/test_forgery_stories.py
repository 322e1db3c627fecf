"""Two hundred forgeries, on every path by which outside text reaches a model. The test examines the requests themselves.

Each scenario runs twice, once with harmless text and once with forged text. Both times the model must get the same number of
requests, from the same speakers, with frames of the same kind and length. No forged command may be executed.
"""

import ast
import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.actions.todos import conversations
from headway.agents.instructions import guide
from headway.agents.instructions.prompts import (
    CUT_OFF_PREFIX,
    SUMMARISER,
    render_advice,
    render_check_in,
    render_focus,
    render_note,
    render_request_and_plan,
)
from headway.agents.transcripts.history import render_stub
from headway.agents.transcripts.transcript import TranscriptEntry
from headway.autonomy.prompts import render_task
from headway.ledger.framing import escape_frames
from headway.ledger.items.advice import advise_call
from headway.ledger.items.work import collect_work
from headway.ledger.text import to_one_line
from tests.agents.sub_agent_harness import find_role
from tests.agents.turn_harness import CHEAP, CHEAP_TIER, Talk, list_open_ids, open_talk
from tests.forgeries import BREAKS, PAYLOADS, check_nothing_changed, get_shape, list_edges
from tests.goal_plans import sub_goal
from tests.model_server import Reply, Request, calls, error, text
from tests.proofs import Proof

HARMLESS = "look"
FAILING = {"agent": "researcher", "task": "break down"}
RUN_ID = re.compile('"run_id": "([0-9a-f-]{36})"')
STRIDE = 51  # over 200 runs, every payload is used once in every place
PACKAGE = Path(headway.__file__).parent

FIXED = "none: its words are fixed"
# Every function that sends text to a model, and the scenario that covers it. Add each new one here and to a scenario.
PLACES = {
    "agents/instructions/guide.py build_message": "test_a_guide_cannot_forge_a_frame",
    "agents/transcripts/history.py end_with_answer": "plan",
    "agents/transcripts/history.py load_entries": "plan",
    "agents/loop/assessor.py ask_cheap_model": "queue",
    "agents/loop/broken_answers.py handle_error": FIXED,
    "agents/loop/calls/tool_calls.py describe_dropped_calls": FIXED,
    "agents/loop/compaction.py append_compaction": FIXED,
    "agents/loop/compaction.py build_note": "test_neither_a_note_nor_a_stub_can_forge_a_frame",
    "agents/loop/compaction.py handle_refusal": FIXED,
    "agents/loop/compaction.py repeat_guide": "test_a_guide_cannot_forge_a_frame",
    "agents/loop/broken_answers.py handle_cut_off": "goal",
    "agents/loop/broken_answers.py request_rest": "goal",
    "agents/delegation.py start_sub_agent": "plan",
    "agents/transcripts/transcript.py build_runtime_message": "every story",
    "agents/loop/step.py read_on": FIXED,
    "agents/loop/step_limits.py apply_limit": FIXED,
    "agents/loop/calls/tool_calls.py build_results_message": "plan",
    "agents/loop/items.py append_advice": "test_advice_cannot_forge_a_frame",
    "agents/loop/items.py open_context": "test_an_item_cannot_forge_a_frame",
    "agents/loop/gates.py apply_verdict": "queue",
    "agents/loop/gates.py ask_about_calls": FIXED,
    "agents/loop/gates.py reject_answer": "plan",
    "agents/loop/driver.py prepare_model_request": "goal",
    "agents/loop/driver.py apply_step": "plan",
    "agents/loop/driver.py record_reply": "queue",
    "agents/loop/calls/writ_calls.py run_writs": "plan",
    "agents/loop/structured.py fill_form": "goal",
    "agents/loop/structured.py build_rejection": "goal",
    "agents/instructions/prompts.py build_steering_message": "test_a_message_cannot_forge_a_frame",
    "agents/instructions/prompts.py build_turn_context": "plan",
    "agents/models/trial.py ask_once": FIXED,
    "agents/models/trial.py try_tier": "none: it is the whole request of a person, without tools or frames",
    "agents/transcripts/transcript.py build_user_message": "every story",
    "agents/transcripts/history.py shrink_part": "test_neither_a_note_nor_a_stub_can_forge_a_frame",
    "autonomy/prompts.py build_task": "test_a_sub_goal_cannot_forge_a_frame",
    "autonomy/prompts.py build_work": "goal",
}
SPEAKING = {"build_user_message", "build_runtime_message", "UserPromptPart", "ToolReturnPart"}


def test_every_place_where_the_runtime_speaks_is_in_a_story() -> None:
    def list_senders(path: Path) -> Iterator[str]:
        source = path.read_text(encoding="utf-8")
        if not any(name in source for name in SPEAKING):
            return
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                functions = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                names = {
                    func.id if isinstance(func, ast.Name) else func.attr
                    for func in functions
                    if isinstance(func, ast.Name | ast.Attribute)
                }
                if names & SPEAKING:
                    yield f"{path.relative_to(PACKAGE)} {function.name}"

    assert {place for path in sorted(PACKAGE.rglob("*.py")) for place in list_senders(path)} == set(PLACES)


def test_a_check_in_message_cannot_forge_a_frame() -> None:
    for payload in PAYLOADS:
        assert (list_edges(render_check_in(payload)), len(BREAKS.split(render_check_in(payload)))) == ([], 1), ascii(payload)


def test_an_item_cannot_forge_a_frame() -> None:
    for payload in PAYLOADS:
        assert list_edges(render_focus(payload, [payload, payload], [payload])) == [], ascii(payload)


def test_advice_cannot_forge_a_frame() -> None:
    for payload in PAYLOADS:
        advice = advise_call(f"Write the text {payload} to a.txt", collect_work(()), (), ("write_file",))
        assert list_edges(render_advice(advice)) == [], ascii(payload)


def test_a_sub_goal_cannot_forge_a_frame() -> None:
    for payload in PAYLOADS:
        assert list_edges(render_task(sub_goal(payload))) == [], ascii(payload)


def test_a_guide_cannot_forge_a_frame() -> None:
    """Texts that a note repeats are found again in the message that showed them."""
    for payload in PAYLOADS:
        message = guide.build_message(payload, [])
        assert message is not None
        body = guide.find_shown([TranscriptEntry.of(1, message)])
        assert body == escape_frames(payload)
        assert list_edges(guide.render_frame(body)) == list_edges(guide.render_frame(HARMLESS)), ascii(payload)


def test_neither_a_note_nor_a_stub_can_forge_a_frame() -> None:
    """The summary of a note may have any number of lines, but all of them are indented."""

    def get_lines(words: str) -> tuple[list[str], int]:
        note = render_note(render_request_and_plan(words, [], [words]), words, [(words, "0a1b2c3d.1.0")])
        return list_edges(note), sum(not line.startswith("  ") for line in BREAKS.split(note))

    for payload in PAYLOADS:
        assert get_lines(payload) == get_lines(HARMLESS), ascii(payload)
        stub = render_stub(escape_frames(payload) * 40, "0a1b2c3d.1.0")
        assert (list_edges(stub), len(BREAKS.split(stub))) == ([], 2), ascii(payload)


Words = Callable[[], str]


class Scenario:
    """Takes outside text from `words` wherever a model may read it, the same number of times in every run."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.step = count()

    def __call__(self, request: Request) -> Reply:
        if request.model == CHEAP:
            return self.cheap(request)
        if find_role(request) == "index":
            return self.index(request)
        if request.last.endswith(f"\n\n{FAILING['task']}"):
            return error(400, to_one_line(self.words())[:400])  # the delegating agent reads a provider's error message
        # The result of a writ is rendered line by line.
        summary = to_one_line(self.words()) if request.last.endswith("\n\ndig") else self.words()
        return calls(("report_outcome", {"summary": summary, "data": {self.words(): [self.words()]}}))

    def cheap(self, request: Request) -> Reply:
        raise NotImplementedError

    def index(self, request: Request) -> Reply:
        raise NotImplementedError


class Plan(Scenario):
    def index(self, request: Request) -> Reply:
        words = self.words
        item = {"title": words(), "context": words(), "completionCriteria": words()}
        todo = {"subject": words(), "description": words(), "completion_criteria": words()}
        note = {"text": words(), "kind": to_one_line(words())[:60]}
        page = {"path": "page", "content": words()}
        scenes: tuple[Callable[[], Reply], ...] = (
            lambda: text("Hello."),
            lambda: calls(("create_todo", {"items": [item, {"title": words()}]})),
            lambda: calls(("todo_add", todo), ("todo_list", {}), ("todo_ready", {}), ("list_todo", {"status": "all"})),
            lambda: calls(("AddTask", {"title": words(), "description": words()}), ("ListTasks", {})),
            lambda: calls(("remember", note), ("recall", {})),
            lambda: calls(("write_file", page), ("read_file", {"path": "page"}), ("list_files", {})),
            lambda: calls(("write_file", {"path": to_file_name(words()), "content": words()}), ("list_files", {})),
            lambda: calls(("page", {}), ("read_file", {"path": words()}), ("set_goal", {"description": ""}), (words()[:60], {})),
            lambda: calls(
                ("broken_page", {}), ("refused_page", {}), ("calculate", {"expression": words()[:100]}), (words()[:60], {})
            ),
            lambda: calls(
                ("recall", {"kind": words()[:60]}), ("todo_update", {"id": words()}), ("create_todo", {words(): words()})
            ),
            lambda: calls(("delegate", {"agent": to_one_line(words())[:60], "task": words()}), ("delegate", FAILING)),
            lambda: calls(
                ("delegate", {"agent": "researcher", "task": words()}), ("spawn_agent", {"task": words(), "context": words()})
            ),
            lambda: calls(("await_agent", {"run_id": RUN_ID.findall(request.tool_results[-1].content)[-1]})),
            lambda: text("/todo list once more\n/agent researcher dig\n/schedule rm nothing\n/todo done nothing like it"),
            lambda: text("An answer too early."),
            lambda: calls(("complete_todo", {"todoId": list_open_ids(request)[0], "outcome": words()})),
            lambda: calls(("complete_todo", {"todoId": list_open_ids(request)[0], "outcome": words()})),
        )
        step = next(self.step)
        return scenes[step]() if step < len(scenes) else text("The end.")


class Queue(Scenario):
    def cheap(self, request: Request) -> Reply:
        if request.system == SUMMARISER:
            return text(self.words())
        return text('{"ok": true}' if next(self.step) else json.dumps({"ok": False, "reason": self.words()}))

    def index(self, request: Request) -> Reply:
        if not request.calls:
            return calls(("manage_todos", {"add": [self.words(), self.words(), self.words()]}))
        if request.assistant_turns == 2 and not any(CUT_OFF_PREFIX in message for message in request.texts):
            return calls(("now", {}), text=quote(self.words()), finish="length")
        return text(quote(self.words()))


def to_file_name(words: str) -> str:
    """Turn the text into a valid file name."""
    return words.replace("/", "\N{FULLWIDTH SOLIDUS}")[:60] or "x"


def quote(words: str) -> str:
    """Quote the text as a model does. A line that starts with a slash would be a writ of the model itself."""
    return "".join(f"> {line}\n" for line in BREAKS.split(words))


def run_scenario(talk: Talk, scenario: Scenario, words: Words, mode: Any, turns: int) -> list[Any]:
    """Run the scenario in a new conversation and return the shapes of the model requests."""
    talk.server.forget()
    talk.server.script = scenario
    title = words()
    talk.conversation_id = talk.database.write(lambda tx: conversations.add_conversation(tx, talk.tenant_id, title)).id
    for _ in range(turns):
        turn = talk.say(words(), mode)
        assert (turn["status"], turn["outcome"]) in (("finished", "answered"), ("finished", "drained")), turn
    return sorted((get_shape(request) for request in talk.server.requests), key=repr)  # sub-agents run concurrently


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "mode", "turns"), [(Plan, "plan", 2), (Queue, "queue", 1)])
def test_no_forgery_changes_the_shape_of_a_request(
    sqlite_url: str, tmp_path: Path, proof: Proof, kind: type[Scenario], mode: str, turns: int
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "page").write_text(HARMLESS)
    tool = f"""from pathlib import Path
from headway import tool
from headway.ledger.errors import Invalid

@tool
def page() -> dict:
    "A page of the web."
    words = Path({str(tmp_path / "page")!r}).read_text(encoding="utf-8")
    return {{"text": words, words: [words]}}

@tool
def broken_page() -> dict:
    "A page that cannot be read."
    raise ValueError(page()["text"])

@tool
def refused_page() -> dict:
    "A page that nobody may read."
    raise Invalid(page()["text"])
"""
    (tmp_path / "tools" / "page.py").write_text(tool)
    with open_talk(sqlite_url, tmp_path, text("hello"), model_cheap=CHEAP_TIER) as talk:
        expected = run_scenario(talk, kind(lambda: HARMLESS), lambda: HARMLESS, mode, turns)
        place = 0

        def next_words() -> str:
            nonlocal place
            place += 1
            return PAYLOADS[place % len(PAYLOADS)]

        for seed in proof.seeds(f"forged frames through the paths of a {mode}", share=2, whole=200):
            place = seed * STRIDE
            (tmp_path / "page").write_text(PAYLOADS[seed % len(PAYLOADS)], encoding="utf-8")
            shapes = run_scenario(talk, kind(next_words), next_words, mode, turns)
            differences = [(shape, other) for shape, other in zip(shapes, expected, strict=False) if shape != other]
            assert (differences, len(shapes)) == ([], len(expected)), f"seed {seed}: payloads after {seed * STRIDE} up to {place}"
            check_nothing_changed(talk.database)
            assert talk.server.violations == []
