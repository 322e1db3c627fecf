"""Turns whose books the runtime keeps: it makes the plan, completes items by what was written, and takes up what is left."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headway.actions.turns import steering
from headway.storage.direct import DirectDatabase
from tests.agents.turn_harness import Talk, in_order, open_talk
from tests.model_server import Reply, Request, Script, calls, text

ROOMS = "Make these notes:\n1. Write the text wine to cellar.txt.\n2. Write the text flour to pantry.txt."
DONE = "All done!"


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


def open_driven(url: str, home: Path, script: Script | Reply, **files: str) -> Any:
    """Open a talk with a small model. `files` are in the workspace: dots in their names are written as two underscores."""
    folder = home / "workspaces" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return open_talk(url, home, script, drive="item", workspace=str(home / "workspaces"))


def list_completions(talk: Talk) -> list[tuple[str, str | None]]:
    return [(todo.status, todo.completed_by) for todo in talk.plan()]


def test_a_list_becomes_a_plan_and_is_completed_by_what_was_written(sqlite_url: str, tmp_path: Path) -> None:
    with open_driven(sqlite_url, tmp_path, calls(write("cellar.txt", "wine"), write("pantry.txt", "flour"))) as talk:
        turn = talk.say(ROOMS)
        assert turn["outcome"] == "drained"
        assert turn["answer"] == (
            "All 2 items are done:\n- Write the text wine to cellar.txt. (wrote cellar.txt)\n"
            "- Write the text flour to pantry.txt. (wrote pantry.txt)"
        )
        assert list_completions(talk) == [("completed", "effect")] * 2
        assert turn["plan_source"] == "request"
        assert len(talk.requests) == 1, "the model is not asked again for what is proven"


def test_what_is_left_is_taken_up_in_a_context_of_its_own(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(write("cellar.txt", "wine")), text(DONE), calls(write("pantry.txt", "flour")))
    with open_driven(sqlite_url, tmp_path, script) as talk:
        assert talk.say(ROOMS)["outcome"] == "drained"
        assert DONE not in talk.answers()
        last = talk.requests[-1]
        assert last.texts[1:] == [
            "Write the text flour to pantry.txt.\nCall write_file with the path pantry.txt and the content: flour"
        ]
        assert last.tools == ["write_file"]


def test_a_claim_without_a_deed_is_reported_as_incomplete(sqlite_url: str, tmp_path: Path) -> None:
    with open_driven(sqlite_url, tmp_path, text(DONE)) as talk:
        turn = talk.say(ROOMS)
        assert turn["outcome"] == "incomplete"
        assert turn["answer"].startswith("0 of 2 items are done.")
        assert "- Write the text wine to cellar.txt. (cellar.txt was not written)" in turn["answer"]
        assert [todo.status for todo in talk.plan()] == ["pending"] * 2
        assert len(talk.requests) == 6, "the whole, both together, and each twice alone"


def test_a_missing_source_is_admitted_without_trying(sqlite_url: str, tmp_path: Path) -> None:
    request = "1. Copy old.txt to new.txt.\n2. Write the text hi to a.txt."
    with open_driven(sqlite_url, tmp_path, in_order(calls(write("new.txt", "invented"), write("a.txt", "hi")), text(DONE))) as talk:
        turn = talk.say(request)
        assert turn["outcome"] == "incomplete"
        assert turn["answer"].endswith("Incomplete:\n- Copy old.txt to new.txt. (there is no old.txt)")
        assert len(talk.requests) == 1


def test_files_that_the_request_names_are_read_before_the_model_is_asked(sqlite_url: str, tmp_path: Path) -> None:
    script = calls(write("poster.txt", "Small steps."))
    with open_driven(sqlite_url, tmp_path, script, motto__txt="Small steps.") as talk:
        turn = talk.say("Copy the text of motto.txt to poster.txt.")
        assert (turn["outcome"], turn["answer"]) == ("answered", "Done: wrote poster.txt.")
        (request,) = talk.requests
        assert request.tool_results[0].content == "Small steps."
        assert [effect.tool for effect in talk.effects()] == ["read_file", "write_file"]


def test_a_doubted_write_is_refused_and_the_next_context_says_why(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(write("sum.txt", "318 + 467 = 785")), calls(write("sum.txt", "785")))
    with open_driven(sqlite_url, tmp_path, script) as talk:
        assert talk.say("Add 318 and 467 and write only the result to sum.txt.")["outcome"] == "answered"
        _, second = talk.requests
        assert second.texts[-1].endswith("\n318 + 467 = 785. Write only 785.")
        assert (tmp_path / "workspaces/1/sum.txt").read_text() == "785"


def test_a_wrong_number_is_not_repeated_in_the_next_context(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(
        calls(write("sum.txt", "846")), calls(("calculate", {"expression": "318 + 467"})), calls(write("sum.txt", "785"))
    )
    with open_driven(sqlite_url, tmp_path, script) as talk:
        assert talk.say("Add 318 and 467 and write the sum to sum.txt.")["answer"] == "Done: wrote sum.txt."
        assert talk.requests[1].last.endswith("Call calculate with the numbers of the item first, then write its result.")
        assert "846" not in talk.requests[1].last


def test_a_write_that_would_undo_another_item_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    soup = ("edit_file", {"path": "menu.txt", "old": "soup", "new": "stew"})
    script = in_order(calls(soup), *[calls(write("menu.txt", "soup\ncake\n"))] * 2, calls(write("menu.txt", "stew\ncake\n")))
    with open_driven(sqlite_url, tmp_path, script, menu__txt="soup\npie\n") as talk:
        assert talk.say("1. Replace soup by stew in menu.txt.\n2. Replace pie by cake in menu.txt.")["outcome"] == "incomplete"
        assert (tmp_path / "workspaces/1/menu.txt").read_text() == "stew\npie\n"
        assert list_completions(talk) == [("completed", "effect"), ("pending", None)]


def test_a_model_that_makes_one_call_at_a_time_gets_one_item_at_a_time(sqlite_url: str, tmp_path: Path) -> None:
    def reply(request: Request) -> Reply:
        path = re.findall(r"[abc]\.txt", request.last)[0]
        return calls(write(path, path[0] * 3))

    request = "Then go on:\n- Write the text aaa to a.txt\n- Write the text bbb to b.txt\n- Write the text ccc to c.txt"
    with open_driven(sqlite_url, tmp_path, reply) as talk:
        assert talk.say(request)["outcome"] == "drained"
        items = [asked.last.partition("\n")[0] for asked in talk.requests[1:]]
        assert items == ["Write the text bbb to b.txt", "Write the text ccc to c.txt"]


def test_a_request_that_expects_words_ends_with_them(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(write("sum.txt", "785")), text("It is 785."))
    with open_driven(sqlite_url, tmp_path, script) as talk:
        turn = talk.say("Add 318 and 467, write the result to sum.txt and tell me the result.")
        assert (turn["outcome"], turn["answer"]) == ("answered", "It is 785.")


def test_small_talk_is_one_short_call(sqlite_url: str, tmp_path: Path) -> None:
    with open_driven(sqlite_url, tmp_path, text("Hello!")) as talk:
        turn = talk.say("Hello")
        assert (turn["outcome"], turn["answer"]) == ("answered", "Hello!")
        (request,) = talk.requests
        assert request.tools == ["calculate", "edit_file", "list_files", "read_file", "write_file"]
        assert len(str(request.body["tools"])) + len(request.system) < 4 * 600, "characters; a token has about four"


def test_an_unanswered_question_of_a_list_is_completed_on_the_agents_word(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(write("a.txt", "hi")), text("Old pond,\na frog jumps in."))
    with open_driven(sqlite_url, tmp_path, script) as talk:
        turn = talk.say("1. Write the text hi to a.txt\n2. Tell me a haiku")
        assert turn["outcome"] == "drained"
        assert turn["answer"] == (
            "All 2 items are done:\n- Write the text hi to a.txt (wrote a.txt)\n- Tell me a haiku\n\nOld pond,\na frog jumps in."
        )
        assert list_completions(talk) == [("completed", "effect"), ("completed", "agent")]


def test_what_was_not_asked_for_is_not_written(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(write("menu.txt", "nothing"), write("cellar.txt", "wine")), *[text(DONE)] * 3)
    with open_driven(sqlite_url, tmp_path, script, menu__txt="soup\n") as talk:
        talk.say("Copy menu.txt to cellar.txt.")
        assert (tmp_path / "workspaces/1/menu.txt").read_text() == "soup\n"
        written = [json.loads(effect.result)["error"] for effect in talk.effects() if effect.tool == "write_file"]
        assert written == [
            "Nothing was written. menu.txt is only to be read. Write to cellar.txt.",
            "Nothing was written. The content of cellar.txt must be exactly that of menu.txt: soup",
        ]


def test_a_folder_that_no_item_names_is_left_out(sqlite_url: str, tmp_path: Path) -> None:
    script = calls(write("/workspace/cellar.txt", "wine"), write("notes/2026/pantry.txt", "flour"))
    with open_driven(sqlite_url, tmp_path, script) as talk:
        assert talk.say(ROOMS)["outcome"] == "drained"
        assert sorted(path.name for path in (tmp_path / "workspaces/1").iterdir()) == ["cellar.txt", "pantry.txt"]


def test_a_result_is_followed_by_the_call_that_is_missing(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(("calculate", {"expression": "700 + 80"})), calls(write("total.txt", "780")))
    with open_driven(sqlite_url, tmp_path, script, bill__txt="rent 700\nheat 80\n") as talk:
        assert talk.say("Add the amounts in bill.txt and write the total to total.txt.")["answer"] == "Done: wrote total.txt."
        assert talk.requests[-1].last == "Call write_file with the path total.txt and the content: 780"


def test_a_doubt_is_raised_about_the_item_that_the_edit_belongs_to(sqlite_url: str, tmp_path: Path) -> None:
    edit = ("edit_file", {"path": "menu.txt", "old": "pie", "new": "cake"})
    with open_driven(sqlite_url, tmp_path, in_order(calls(edit), *[text(DONE)] * 9), menu__txt="soup\npie\n") as talk:
        talk.say("1. Replace soup by stew in menu.txt.\n2. Replace pie by cake in menu.txt.")
        assert list_completions(talk) == [("pending", None), ("completed", "effect")]


def test_a_file_that_no_item_names_is_doubted_once(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(text(DONE), calls(write("cellar.md", "wine")), *[text(DONE)] * 9)
    with open_driven(sqlite_url, tmp_path, script) as talk:
        talk.say(ROOMS)
        [effect] = [effect for effect in talk.effects() if effect.tool == "write_file"]
        assert json.loads(effect.result)["error"] == ("Nothing was written. The path is cellar.txt and pantry.txt, not cellar.md.")
        assert talk.requests[-1].last.endswith("Call write_file with the path pantry.txt and the content: flour")


def test_the_only_request_of_a_turn_may_take_many_calls(sqlite_url: str, tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(8)]
    script = in_order(*[calls(("read_file", {"path": name})) for name in names], calls(write("list.md", "eight")))
    with open_driven(sqlite_url, tmp_path, script, **dict.fromkeys([name.replace(".", "__") for name in names], "x\n")) as talk:
        assert talk.say("Write a description of all files to list.md.")["answer"] == "Done: wrote list.md."
        assert len(talk.requests[-1].tool_results) == len(names), "it remembers what it read"


def test_a_text_that_is_cut_off_gives_way_to_a_new_context(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(
        calls(write("cellar.txt", "wine")), text("Flour is a powder.", finish="length"), calls(write("pantry.txt", "flour"))
    )
    with open_driven(sqlite_url, tmp_path, script) as talk:
        assert talk.say(ROOMS)["outcome"] == "drained"
        [asked] = talk.requests[-1].texts[1:]
        assert asked.startswith("Write the text flour to pantry.txt.\n")


@pytest.mark.parametrize("answers", [1, 2, 3])
def test_a_crash_between_any_two_answers_loses_nothing(sqlite_url: str, tmp_path: Path, answers: int) -> None:
    """The process is lost with an answer on its way; another continues in the same context."""

    def reply(request: Request) -> Reply:
        if request.texts[1] == ROOMS:
            return calls(write("cellar.txt", "wine"))
        return calls(write("pantry.txt", "flour")) if len(talk.requests) > 2 else text(DONE)

    with open_driven(sqlite_url, tmp_path, reply) as talk:

        async def begin_and_crash() -> None:
            task = await talk.begin(ROOMS)
            await talk.wait_for_requests(answers)
            await talk.crash(task)

        talk.wait(begin_and_crash())
        talk.revive()
        turn = talk.resume_turn()
        assert turn["outcome"] == "drained"
        assert list_completions(talk) == [("completed", "effect")] * 2


def test_checks_complete_an_item_that_the_model_forgot_to_complete(sqlite_url: str, tmp_path: Path) -> None:
    check = {"kind": "file", "path": "report.md", "contains": "Summary"}
    plan = calls(("create_todo", {"items": [{"title": "The report", "checks": [check]}]}))
    script = in_order(plan, text(DONE), calls(write("report.md", "# Summary")), text(DONE))
    with open_driven(sqlite_url, tmp_path, script) as talk:
        assert talk.say("Please report.")["outcome"] == "drained"
        assert list_completions(talk) == [("completed", "check")]
        assert talk.turn()["plan_source"] == "agent"


def test_a_call_that_cannot_be_read_is_never_the_answer(sqlite_url: str, tmp_path: Path) -> None:
    unread = text('{"name": "copy_file", "arguments": {"from": "a.txt"}}')
    with open_driven(sqlite_url, tmp_path, in_order(unread, text("I cannot copy."))) as talk:
        assert talk.say("Hello")["answer"] == "I cannot copy."
        assert "nothing was called. Call one of: calculate, edit_file" in talk.requests[-1].last


def test_the_parameters_of_a_plan_tool_can_be_asked_for(sqlite_url: str, tmp_path: Path) -> None:
    script = in_order(calls(("use_tool", {"name": "complete_todo"})), text("I see."))
    with open_driven(sqlite_url, tmp_path, script) as talk:
        assert talk.say("Which todos are open?")["answer"] == "I see."
        assert '"todoId"' in talk.requests[-1].tool_results[0].content


def test_a_new_context_keeps_the_guide_and_what_people_said_meanwhile(sqlite_url: str, tmp_path: Path) -> None:
    asked: list[Request] = []

    def reply(request: Request) -> Reply:
        asked.append(request)
        if len(asked) == 1:
            with DirectDatabase(sqlite_url) as database:  # on the model server's thread
                turn_id = talk.run.turn_id if talk.run else ""
                database.write(lambda tx: steering.send_to_turn(tx, talk.tenant_id, turn_id or "", "Be quick.", "ada"))
        if "Later message" not in request.last:
            return text(DONE)
        return calls(write("cellar.txt", "wine") if "wine" in request.last else write("pantry.txt", "flour"))

    with open_driven(sqlite_url, tmp_path, reply, AGENTS__md="Never use capitals.") as talk:
        assert talk.say(ROOMS)["outcome"] == "drained"
        last = talk.requests[-1].texts
        assert "Never use capitals." in last[1]
        assert last[2].endswith("Later message of the user: Be quick.")


def test_a_result_that_is_no_json_is_sent_as_it_is(sqlite_url: str, tmp_path: Path) -> None:
    """Results of MCP servers and of a user's tools may be plain text, and a very long one is cut off."""
    long = "x" * 300_000
    script = in_order(calls(("read_file", {"path": "long.txt"}), ("calculate", {"expression": "2^10"})), text("Long."))
    with open_driven(sqlite_url, tmp_path, script, long__txt=long) as talk:
        assert talk.say("What is in the long file?")["answer"] == "Long."
        assert talk.requests[-1].tool_results[1].content == '{"result": 1024}'
