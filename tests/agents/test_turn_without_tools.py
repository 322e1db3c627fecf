"""Models that cannot call functions: they plan and finish with writs alone."""

from pathlib import Path

from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.model_server import Reply, Request, error, text

NO_TOOLS = error(400, "registry.ollama.ai/library/gemma3:latest does not support tools")


def write_plan(*subjects: str) -> Reply:
    return text("First a plan.\n" + "\n\n".join(f"/todo add {subject}" for subject in subjects))


def refuse_tools(talk: Talk, *replies: Reply) -> None:
    """Answer like a server whose model has no function calling: an error for every request with tools."""
    answer = in_order(*replies)
    talk.server.script = lambda request: NO_TOOLS if request.tools else answer(request)


def finish_plan(talk: Talk) -> Reply:
    return text("\n".join(f"/todo done {todo.id}: It is {todo.subject.lower()}d." for todo in talk.plan()))


def test_a_model_that_refuses_tools_is_driven_by_writs(database_url: str, tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        if request.tools:
            return NO_TOOLS
        if not talk.plan():
            return write_plan("Bake", "Frost")
        return text("Here is the cake.") if all(todo.ended for todo in talk.plan()) else finish_plan(talk)

    with open_talk(database_url, tmp_path, answer) as talk:
        turn = talk.say("A cake!")
        assert (turn["status"], turn["outcome"], turn["iterations"]) == ("finished", "drained", 3)
        assert [(todo.subject, todo.status, todo.outcome) for todo in talk.plan()] == [
            ("Bake", "completed", "It is baked."),
            ("Frost", "completed", "It is frostd."),
        ]
        assert talk.answers()[-1] == "Here is the cake."
        assert sum(bool(request.tools) for request in talk.server.requests) == 1
        talk.say("Another one!")
        assert sum(bool(request.tools) for request in talk.server.requests) == 1  # the process remembers it


def test_its_instructions_name_writs_and_no_tools(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        refuse_tools(talk, text("Hello."))
        assert talk.say("Hi")["outcome"] == "answered"
        system = talk.server.requests[-1].system
        assert "/todo add SUBJECT" in system
        assert "create_todo" not in system
        assert "tools" not in talk.server.requests[-1].body


def test_its_answer_is_refused_while_its_plan_is_open(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        refuse_tools(talk, write_plan("Bake"), text("Done!"), text("/todo list"), text("/todo cancel Bake"), text("No cake."))
        assert talk.say("A cake!")["outcome"] == "drained"
        refusal = talk.server.requests[3].texts[-1]
        assert refusal.startswith("Not finished: 1 item of your plan is still open.")
        assert "/todo done ID: OUTCOME" in refusal
        assert f"#{talk.plan()[0].id} [pending] Bake" in talk.server.requests[4].texts[-1]
        assert "Done!" not in talk.answers()


def test_it_works_a_queue_too(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, text("")) as talk:
        yes = text('{"ok": true, "reason": "Yes."}')
        refuse_tools(talk, write_plan("Bake", "Frost"), text("Baked."), yes, text("Frosted."), yes)
        assert talk.say("A cake!", "queue")["outcome"] == "drained"
        assert [todo.outcome for todo in talk.plan()] == ["Baked.", "Frosted."]


def test_a_model_that_refuses_everything_fails_once(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, NO_TOOLS) as talk:
        assert talk.say()["status"] == "failed"
        assert len(talk.server.requests) == 2
