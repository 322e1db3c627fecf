"""`headway schedule …`: recurring work from the shell, with the same operations as the REST API."""

import json
import re
from typing import Any

import pytest

from headway.actions.engine import schedules
from tests.surfaces.server_harness import Client, Service
from tests.surfaces.shell import Shell, get_error_line

NOW = ("--tool", "now")
HOURLY = ("--every", "1h")


def put(headway: Shell, name: str = "it", *flags: str) -> dict[str, Any]:
    schedule: dict[str, Any] = headway.json("schedule", "put", name, *(flags or (*HOURLY, *NOW)))["schedule"]
    return schedule


def add_conversation(headway: Shell, key: str = "talk") -> int:
    return int(headway.json("conversation", "new", "--key", key)["conversation"]["id"])


def test_the_documents_are_those_of_rest(headway: Shell, sqlite_service: Service, sqlite_client: Client) -> None:
    flags = ("--database-url", sqlite_service.database_url, "--tenant", sqlite_client.desk.tenant.name)
    conversation_id = str(sqlite_client.conversation())
    cron = ("--cron", "0 6 1 1 *", "--tz", "Europe/Berlin", "--message", "hi", "--conversation", conversation_id)
    schedule = headway.json("schedule", "put", "report", *cron, *flags)
    assert schedule == sqlite_client.ok("GET", "/v1/schedules/report")
    beat = headway.json("schedule", "put", "beat", *HOURLY, "--tool", "todo_add", "--args", '{"subject": "x"}', *flags)
    assert beat == sqlite_client.ok("GET", "/v1/schedules/beat")
    assert beat["schedule"]["tool"] == {"name": "todo_add", "arguments": {"subject": "x"}, "conversation_id": 0}
    assert headway.json("schedule", "list", *flags) == sqlite_client.ok("GET", "/v1/schedules")

    for verb in ("pause", "resume", "run"):
        assert headway.json("schedule", verb, "beat", *flags)["schedule"].keys() == beat["schedule"].keys()
    assert headway.json("schedule", "rm", "report", *flags) == {"deleted": True}
    assert [entry["name"] for entry in sqlite_client.ok("GET", "/v1/schedules")["schedules"]] == ["beat"]


def test_a_schedule_is_edited_and_previewed(headway: Shell) -> None:
    put(headway, "it", "--cron", "0 6 * * *", "--tz", "Europe/Berlin", *NOW)
    edited = headway.json("schedule", "edit", "it", "--cron", "0 7 * * *", "--rename", "daily")["schedule"]
    assert (edited["name"], edited["cron"], edited["timezone"]) == ("daily", "0 7 * * *", "Europe/Berlin")
    assert headway.json("schedule", "edit", "daily", "--every", "5m")["schedule"]["every_s"] == 300
    assert "omit it with --every" in headway("schedule", "edit", "daily", "--every", "5m", "--tz", "UTC").err
    assert len(headway.json("schedule", "preview", "--cron", "0 6 * * *")["times"]) == 5
    assert len(headway.ok("schedule", "preview", "--every", "1h").splitlines()) == 5


def test_the_commands_print_text_for_people(headway: Shell) -> None:
    assert headway.ok("schedule", "list") == "no schedules\n"
    conversation_id = str(add_conversation(headway))
    put(
        headway,
        "report",
        "--cron",
        "0 6 * * *",
        "--tz",
        "Europe/Berlin",
        "--message",
        "How\nis it?",
        "--conversation",
        conversation_id,
    )
    put(headway)
    headway.ok("schedule", "pause", "it")
    hourly, report = headway.ok("schedule", "list").splitlines()
    assert hourly == "it\tevery 1h\tpaused\tnever run\tnow"
    assert re.fullmatch(r"report\t0 6 \* \* \* Europe/Berlin\tnext \S.*\tnever run\tHow is it\?", report)
    assert re.fullmatch(r"it\tevery 1h\tpaused\tlast \S.*\tnow\n", headway.ok("schedule", "run", "it"))
    assert headway.ok("schedule", "resume", "it").startswith("it\tevery 1h\tnext ")
    assert headway.ok("schedule", "rm", "it") == "deleted it\n"


def test_put_again_alike_is_put_once(headway: Shell) -> None:
    first, second = put(headway), put(headway)
    assert {**first, "updated_at": 0} == {**second, "updated_at": 0}
    assert put(headway, "it", "--every", "90m", *NOW)["every_s"] == 5_400
    assert len(headway.json("schedule", "list")["schedules"]) == 1


def test_a_conversation_is_named_by_its_key_too(headway: Shell) -> None:
    conversation_id = add_conversation(headway, "standup")
    schedule = put(headway, "it", *HOURLY, "--message", "hi", "--conversation", "standup")
    assert schedule["message"] == {"conversation_id": conversation_id, "content": "hi"}


BAD = {
    "nothing": (),
    "no work": HOURLY,
    "no time": NOW,
    "two times": ("--cron", "0 6 * * *", *HOURLY, *NOW),
    "two kinds of work": (*HOURLY, *NOW, "--message", "hi", "--conversation", "talk"),
    "no conversation": (*HOURLY, "--message", "hi"),
    "a blank message": (*HOURLY, "--message", " ", "--conversation", "talk"),
    "no cron": ("--cron", "at dawn", *NOW),
    "never": ("--cron", "0 0 31 2 *", *NOW),
    "a long cron": ("--cron", "0," * 30_000 + "0 * * * *", *NOW),
    "no zone": ("--cron", "0 6 * * *", "--tz", "Mars/Olympus", *NOW),
    "a path": ("--cron", "0 6 * * *", "--tz", "../../../etc/passwd", *NOW),
    "no zone of an interval": ("--tz", "Mars/Olympus", *HOURLY, *NOW),
    "too often": ("--every", "0.5s", *NOW),
    "all the time": ("--every", "0", *NOW),
    "never again": ("--every", "400d", *NOW),
    "no duration": ("--every", "soon", *NOW),
    "no JSON": (*HOURLY, *NOW, "--args", "{"),
    "no object": (*HOURLY, *NOW, "--args", "[1]"),
    "not a number": (*HOURLY, *NOW, "--args", '{"a": NaN}'),
    "a number beyond 64 bits": (*HOURLY, *NOW, "--args", '{"a": 9223372036854775808}'),
    "a number without end": (*HOURLY, *NOW, "--args", '{"a": ' + "9" * 5_000 + "}"),
    "NUL": (*HOURLY, *NOW, "--args", '{"a": "\\u0000"}'),
    "a surrogate": (*HOURLY, *NOW, "--args", '{"a": "\\ud800"}'),
    "a bottomless hole": (*HOURLY, *NOW, "--args", '{"a": ' + "[" * 50_000),
    "a deep hole": (*HOURLY, *NOW, "--args", '{"a": ' + "[" * 900 + "]" * 900 + "}"),
    "arguments that the tool does not take": (*HOURLY, "--tool", "todo_add", "--args", '{"subject": "x", "nope": 1}'),
    "arguments that are missing": (*HOURLY, "--tool", "todo_add"),
    "a tool that needs a turn": (*HOURLY, "--tool", "create_todo", "--args", '{"items": [{"title": "x"}]}'),
    "a tool that needs an agent at work": (*HOURLY, "--tool", "spawn_agent", "--args", '{"task": "x", "context": {}}'),
    "a tool that needs a conversation": (*HOURLY, "--tool", "ListTasks"),
    "a tool without a name": (*HOURLY, "--tool", ""),
    "a tool that plays tricks": (*HOURLY, "--tool", "now\x1b[2J"),
}


def test_bad_input_is_one_line_and_exit_2(headway: Shell) -> None:
    add_conversation(headway)
    for flags in BAD.values():
        assert len(get_error_line(headway("schedule", "put", "it", *flags), 2)) < 400
    for name in ("", " ", "a\nb", "\x1b[2J", "x" * 201, "a/b", "/", ".", ".."):
        get_error_line(headway("schedule", "put", name, *HOURLY, *NOW), 2)
    assert headway.json("schedule", "list") == {"schedules": [], "next_cursor": None}


def test_an_invalid_interval_is_explained(headway: Shell) -> None:
    assert "at least a second" in get_error_line(headway("schedule", "put", "it", "--every", "0s", *NOW), 2)
    assert "omit it with --every" in get_error_line(headway("schedule", "put", "it", *HOURLY, "--tz", "Europe/Berlin", *NOW), 2)
    for given, printed in {"100d": "100d", "90s": "90s", "1.5s": "1.5s", "5400": "90m"}.items():
        assert headway.ok("schedule", "put", "it", "--every", given, *NOW).startswith(f"it\tevery {printed}\tnext ")


def test_a_call_that_could_never_run_is_refused_with_the_reason(headway: Shell) -> None:
    conversation_id = str(add_conversation(headway))
    handed_over = ("--tool", "delegate", "--args", '{"agent": "writer", "task": "x"}')

    assert "delegate cannot be scheduled" in get_error_line(headway("schedule", "put", "it", *HOURLY, *handed_over), 2)
    unknown = ("--tool", "todo_add", "--args", '{"subject": "x", "nope": 1}')
    assert "nope: Extra inputs" in get_error_line(headway("schedule", "put", "it", *HOURLY, *unknown), 2)
    assert put(headway, "it", *HOURLY, "--tool", "ListTasks", "--conversation", conversation_id)["tool"]["name"] == "ListTasks"


def test_an_unknown_name_is_exit_3(headway: Shell) -> None:
    for verb in ("pause", "resume", "run", "rm"):
        assert get_error_line(headway("schedule", verb, "no\x1bne"), 3).startswith("headway: No schedule named ")
    get_error_line(headway("schedule", "put", "it", *HOURLY, "--message", "hi", "--conversation", "404"), 3)
    get_error_line(headway("schedule", "list", "--tenant", "nobody"), 3)
    unknown = get_error_line(headway("schedule", "put", "it", *HOURLY, "--tool", "todo_read"), 3)
    assert unknown.startswith("headway: No tool named 'todo_read'. Available: ")
    assert " todo_ready," in unknown
    assert headway.json("schedule", "list")["schedules"] == []


def test_a_list_may_be_cut_short(headway: Shell) -> None:
    for name in ("b", "a", "c"):
        put(headway, name)
    cut = headway.json("schedule", "list", "--limit", "2")
    assert ([schedule["name"] for schedule in cut["schedules"]], cut["next_cursor"]) == (
        ["a", "b"],
        schedules.CURSORS.encode(("b",)),
    )
    assert len(headway.ok("schedule", "list").splitlines()) == 3


def test_a_conversation_that_is_busy_is_exit_4(headway: Shell) -> None:
    add_conversation(headway)
    put(headway, "it", *HOURLY, "--message", "hi", "--conversation", "talk")
    headway.ok("schedule", "run", "it")
    assert "A turn is running" in get_error_line(headway("schedule", "run", "it"), 4)
    assert len(headway.json("jobs", "list")["jobs"]) == 1


def test_while_halted_run_is_exit_5(headway: Shell) -> None:
    put(headway)
    headway.ok("halt", "--why", "lunch")
    assert "lunch" in get_error_line(headway("schedule", "run", "it"), 5)
    headway.ok("schedule", "pause", "it")
    assert headway.json("jobs", "list") == {"jobs": [], "next_cursor": None}
    headway.ok("unhalt")
    headway.ok("schedule", "run", "it")


def test_both_databases_give_the_same_answers(headway: Shell, database_url: str) -> None:
    flags = ("--database-url", database_url)
    schedule = headway.json("schedule", "put", "it", "--cron", "*/5 * * * *", *NOW, *flags)["schedule"]
    ran = headway.json("schedule", "run", "it", *flags)["schedule"]
    (job,) = headway.json("jobs", "list", *flags)["jobs"]
    assert (job["id"], job["kind"], job["state"]) == (ran["last_job"], "tool", "queued")
    assert schedule["next_at"] % 300 == 0
    get_error_line(headway("schedule", "rm", "other", *flags), 3)


@pytest.mark.parametrize("message", ["[END TODO]\x1b[2J\r\nobey", "\u202egnp.exe"])
def test_control_characters_in_a_message_do_not_reach_the_terminal(headway: Shell, message: str) -> None:
    add_conversation(headway)
    headway.ok("schedule", "put", "it", *HOURLY, "--message", message, "--conversation", "talk")
    (line,) = headway.ok("schedule", "list").splitlines()
    assert line.replace("\t", "").isprintable()
    assert line.count("\t") == 4  # between the columns
    output = headway("schedule", "list", "--json").out
    assert all(row.isprintable() for row in output.splitlines())
    assert json.loads(output)["schedules"][0]["message"]["content"] == message
