"""/v1/schedules: creating, changing and running recurring work."""

from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from headway.actions.engine import schedules
from headway.actions.engine.schedules import Timing
from headway.actions.installation import halts
from tests.model_server import ModelServer
from tests.surfaces.conversation_client import list_messages
from tests.surfaces.event_stream import open_stream
from tests.surfaces.server_harness import Client, Service, wait_until
from tests.tables import each_row

TOOL = {"tool": {"name": "now", "arguments": {}}}
SHAPE = {"name", "paused", "next_at", "last_at", "last_job", "skipped", "created_at", "updated_at"}


def put(client: Client, name: str = "it", **body: Any) -> dict[str, Any]:
    schedule: dict[str, Any] = client.ok("PUT", f"/v1/schedules/{name}", json={"every_s": 3_600, **TOOL, **body})["schedule"]
    return schedule


def get(client: Client, name: str = "it") -> dict[str, Any]:
    schedule: dict[str, Any] = client.ok("GET", f"/v1/schedules/{name}")["schedule"]
    return schedule


def list_jobs(client: Client) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.ok("GET", "/v1/jobs")["jobs"]
    return rows


# Create, read, change, delete


def test_put_get_list_and_delete(client: Client) -> None:
    conversation = client.conversation()
    message = {"conversation_id": conversation, "content": "How is it going?"}
    by_cron = client.ok("PUT", "/v1/schedules/report", json={"cron": "0 6 1 1 *", "timezone": "Europe/Berlin", "message": message})
    by_interval = client.ok("PUT", "/v1/schedules/beat", json={"every_s": 30.5, "tool": {"name": "now"}})

    assert list(by_cron) == list(by_interval) == ["schedule"]
    assert set(by_cron["schedule"]) == SHAPE | {"cron", "timezone", "message"}
    assert set(by_interval["schedule"]) == SHAPE | {"every_s", "tool"}
    assert by_cron["schedule"]["message"] == message
    assert by_interval["schedule"]["tool"] == {"name": "now", "arguments": {}, "conversation_id": 0}
    assert by_interval["schedule"]["next_at"] - by_interval["schedule"]["created_at"] in (30, 31)
    assert client.ok("GET", "/v1/schedules/report") == by_cron
    assert client.ok("GET", "/v1/schedules") == {"schedules": [by_interval["schedule"], by_cron["schedule"]], "next_cursor": None}
    first = client.ok("GET", "/v1/schedules", params={"limit": 1})
    assert first == {"schedules": [by_interval["schedule"]], "next_cursor": schedules.CURSORS.encode(("beat",))}
    rest = client.ok("GET", "/v1/schedules", params={"limit": 1, "cursor": first["next_cursor"]})
    assert rest == {"schedules": [by_cron["schedule"]], "next_cursor": None}
    client.refused("GET", "/v1/schedules?cursor=%00", 422, "bad_cursor")

    assert client.ok("DELETE", "/v1/schedules/report") == {"deleted": True}
    client.refused("GET", "/v1/schedules/report", 404, "not_found")
    client.refused("DELETE", "/v1/schedules/report", 404, "not_found")
    assert [schedule["name"] for schedule in client.ok("GET", "/v1/schedules")["schedules"]] == ["beat"]


def test_put_twice_alike_is_put_once(client: Client) -> None:
    first, second = put(client), put(client)
    assert {**second, "updated_at": 0} == {**first, "updated_at": 0}
    assert put(client, every_s=7_200)["next_at"] > first["next_at"]


def test_the_verbs(client: Client) -> None:
    created = put(client)
    paused = client.ok("POST", "/v1/schedules/it/pause")["schedule"]
    assert (paused["paused"], paused["next_at"]) == (True, 0)
    resumed = client.ok("POST", "/v1/schedules/it/resume")["schedule"]
    assert (resumed["paused"], resumed["next_at"]) == (False, created["next_at"])
    ran = client.ok("POST", "/v1/schedules/it/run")["schedule"]
    assert (ran["next_at"], get(client)["last_job"]) == (created["next_at"], ran["last_job"])
    assert ran["last_at"] >= created["created_at"]

    wait_until(lambda: list_jobs(client)[0]["state"] == "completed", "the tool is called")
    (job,) = list_jobs(client)
    assert (job["id"], job["kind"], job["payload"]["name"]) == (ran["last_job"], "tool", "now")


def test_a_patch_changes_only_what_it_names(client: Client) -> None:
    before = put(client, cron="0 6 * * *", timezone="Europe/Berlin", every_s=None)
    path = "/v1/schedules/it"
    at_seven = client.ok("PATCH", path, json={"cron": "0 7 * * *"})["schedule"]
    assert (at_seven["cron"], at_seven["timezone"], at_seven["tool"]) == ("0 7 * * *", "Europe/Berlin", before["tool"])
    assert at_seven["next_at"] != before["next_at"]
    paused = client.ok("PATCH", path, json={"timezone": "UTC", "paused": True})["schedule"]
    assert (paused["timezone"], paused["paused"]) == ("UTC", True)
    goal = client.ok("PATCH", path, json={"every_s": 60, "goal": {"description": "tidy up"}, "paused": False})["schedule"]
    assert ("cron" in goal, "tool" in goal, goal["every_s"], goal["goal"]["description"]) == (False, False, 60, "tidy up")
    renamed = client.ok("PATCH", path, json={"name": "daily"})["schedule"]
    assert {**goal, "name": "daily", "updated_at": renamed["updated_at"]} == renamed
    client.refused("GET", path, 404, "not_found")

    put(client)
    client.refused("PATCH", path, 409, "conflict", json={"name": "daily"})
    client.refused("PATCH", path, 422, "invalid", json={"timezone": "Europe/Berlin"})
    client.refused("PATCH", path, 422, "invalid", json={"cron": "0 6 * * *", "every_s": 60})
    client.refused("PATCH", path, 422, "invalid", json={"name": "a/b"})
    client.refused("PATCH", path, 404, "not_found", json={"tool": {"name": "none"}})
    assert get(client)["every_s"] == 3_600
    assert client.ok("PATCH", path, json={})["schedule"] == get(client)


def test_a_preview_has_the_next_five_times_in_the_time_zone(client: Client) -> None:
    query = {"cron": "30 2 * * *", "timezone": "America/New_York"}
    answer = client.ok("GET", "/v1/schedules/preview", params=query)
    times = [datetime.fromtimestamp(moment, ZoneInfo("America/New_York")) for moment in answer["times"]]
    assert len(times) == 5
    assert times == sorted(times)
    assert {(moment.hour, moment.minute) for moment in times} <= {(2, 30), (3, 0), (3, 30)}  # an hour may be missing in spring

    beats = client.ok("GET", "/v1/schedules/preview", params={"every_s": 90})["times"]
    assert [later - earlier for earlier, later in pairwise(beats)] == [90] * 4
    for bad in ({}, {"cron": "soon"}, {"cron": "0 6 * * *", "every_s": 9}, {"cron": "0 6 * * *", "timezone": "Mars"}):
        client.refused("GET", "/v1/schedules/preview", 422, "invalid", params=bad)
    client.refused("PUT", "/v1/schedules/preview", 405, "method_not_allowed", json={"every_s": 60, "message": {"text": "x"}})
    assert client.ok("GET", "/v1/schedules")["schedules"] == []


def test_a_verb_with_a_key_acts_once(client: Client) -> None:
    put(client)
    answers = [client.ok("POST", "/v1/schedules/it/run", headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert answers[0] == answers[1]
    assert len(list_jobs(client)) == 1


def test_watchers_hear_of_changes(sqlite_client: Client) -> None:
    with sqlite_client.again() as watcher, open_stream(watcher) as stream:
        created = put(sqlite_client)
        sqlite_client.ok("DELETE", "/v1/schedules/it")
        events = stream.take(2)
    assert [(event.event, event.data["change"]) for event in events] == [
        ("schedule_changed", "updated"),
        ("schedule_changed", "deleted"),
    ]
    assert events[0].data["schedule"] == created


# Refusals

BAD: dict[str, dict[str, Any]] = {
    "no time": {"every_s": None},
    "two times": {"cron": "0 6 * * *"},
    "no cron": {"every_s": None, "cron": "at dawn"},
    "never": {"every_s": None, "cron": "0 0 31 2 *"},
    "no zone": {"every_s": None, "cron": "0 6 * * *", "timezone": "Mars/Olympus"},
    "no zone of an interval": {"timezone": "Mars/Olympus"},
    "NUL": {"timezone": "\0"},
    "too often": {"every_s": 0.5},
    "never again": {"every_s": 1e12},
    "text for a number": {"every_s": "60"},
    "no work": {"tool": None},
    "two kinds of work": {"message": {"conversation_id": 1, "content": "hi"}},
    "an empty message": {"tool": None, "message": {"conversation_id": 1, "content": " "}},
    "no conversation": {"tool": None, "message": {"content": "hi"}},
    "a number beyond 64 bits": {"tool": {"name": "now", "arguments": {"n": 2**63}}},
    "NUL in the arguments": {"tool": {"name": "now", "arguments": {"n": "\0"}}},
    "arguments that the tool does not take": {"tool": {"name": "todo_add", "arguments": {"subject": "x", "nope": 1}}},
    "arguments that are missing": {"tool": {"name": "todo_add"}},
    "a tool that needs a turn": {"tool": {"name": "create_todo", "arguments": {"items": [{"title": "x"}]}}},
    "a tool that needs a conversation": {"tool": {"name": "ListTasks"}},
    "arguments that are none": {"tool": {"name": "now", "arguments": []}},
    "a field that nobody knows": {"color": "red"},
}


def test_bad_input_is_422_and_changes_nothing(client: Client) -> None:
    conversation = client.conversation()
    for name, body in BAD.items():
        if "conversation_id" in body.get("message", ()):
            body["message"]["conversation_id"] = conversation
        answer = client.put("/v1/schedules/it", json={"every_s": 60, **TOOL, **body})
        assert answer.status_code == 422, (name, answer.text)
    for raw in ('{"every_s": NaN, "tool": {"name": "now"}}', '{"every_s": 60, "tool": {"name": "now", "arguments": {"n": NaN}}}'):
        answer = client.put("/v1/schedules/it", content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, answer.text
    assert client.ok("GET", "/v1/schedules") == {"schedules": [], "next_cursor": None}


@each_row("name", ["%00", "a%0Ab", "%1B%5B2J", "%20", "x" * 201])
def test_names_that_are_none(client: Client, name: str) -> None:
    assert client.put(f"/v1/schedules/{name}", json={"every_s": 60, **TOOL}).status_code == 422
    assert client.get(f"/v1/schedules/{name}").status_code in (404, 422)
    assert client.post(f"/v1/schedules/{name}/run").status_code in (404, 422)


def test_unknown_and_foreign_ids_get_the_same_answer(service: Service, client: Client) -> None:
    with service.tenant() as stranger:
        put(client)
        for method, path in (
            ("GET", "/v1/schedules/it"),
            ("DELETE", "/v1/schedules/it"),
            *(("POST", f"/v1/schedules/it/{verb}") for verb in ("pause", "resume", "run")),
        ):
            foreign = stranger.refused(method, path, 404, "not_found")
            assert foreign.replace("it", "no") == stranger.refused(method, path.replace("/it", "/no"), 404, "not_found")
        assert stranger.ok("GET", "/v1/schedules") == {"schedules": [], "next_cursor": None}
        conversation = client.conversation()
        for work in (
            {"message": {"conversation_id": conversation, "content": "hi"}},
            {"tool": {"name": "now", "conversation_id": conversation}},
        ):
            stranger.refused("PUT", "/v1/schedules/it", 404, "not_found", json={"every_s": 60, **work})
    assert not get(client)["paused"]
    assert list_jobs(client) == []


def test_an_unknown_tool_is_not_found(client: Client) -> None:
    detail = client.refused("PUT", "/v1/schedules/it", 404, "not_found", json={"every_s": 60, "tool": {"name": "make_coffee"}})
    assert "now" in detail  # the message lists the known tools


def test_strangers_hear_that_they_are_strangers(sqlite_service: Service, sqlite_client: Client) -> None:
    for method, path in (("PUT", "/v1/schedules/it"), ("GET", "/v1/schedules"), ("GET", "/v1/jobs"), ("GET", "/v1/agents")):
        answer = sqlite_client.request(method, path, headers={"Authorization": "Bearer hw_wrong"}, json={})
        assert answer.status_code == 401


# Writs


def test_a_schedule_writ_writes_the_same_schedule_as_the_api(client: Client) -> None:
    conversation = client.conversation()
    body = {"text": "So be it.\n/schedule look every 30m: Look.\n/schedule list\n", "conversation_id": conversation}
    answer = client.ok("POST", "/v1/writs", json=body)
    assert answer["visible"] == "So be it.\n"
    line = "look [active] every 1800s"
    assert answer["output"] == f"[/schedule look]\n{line}\n[END SCHEDULE]\n[/schedule list]\n{line}\n[END SCHEDULE]"
    schedule = get(client, "look")
    assert (schedule["every_s"], schedule["message"]) == (1_800, {"conversation_id": conversation, "content": "Look."})

    put(client, "kept")
    removed = client.ok("POST", "/v1/writs", json={"text": "/schedule rm look\n/schedule rm look"})["output"]
    assert removed.startswith("[/schedule rm]\nremoved look\n[END SCHEDULE]\n[/schedule rm]\nERR: No schedule named 'look'")
    refused = client.ok("POST", "/v1/writs", json={"text": "/schedule rm kept", "role": "writer"})["output"]
    assert "ERR: the role writer needs the grant `schedules`" in refused
    assert [row["name"] for row in client.ok("GET", "/v1/schedules")["schedules"]] == ["kept"]


def test_every_answer_about_jobs_and_schedules_is_in_the_document(sqlite_client: Client) -> None:
    paths = sqlite_client.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        if path.startswith(("/v1/jobs", "/v1/agents", "/v1/schedules", "/v1/halt", "/v1/costs")):
            for method, definition in methods.items():
                success = "202" if (method, path[-9:]) == ("post", "/messages") else "200"
                expected = {success, "401", "422", "503"} | ({"404"} if "{" in path else set())
                expected |= {"403"} if method in ("put", "delete") and path.endswith(("halt", "costs")) else set()
                expected |= {"409"} if path.startswith("/v1/jobs/") and method in ("post", "delete") else set()
                assert expected <= set(definition["responses"]), (method, path)


# Ticks


def test_a_schedule_of_every_second_runs_repeatedly(chatter: Client, model: ModelServer) -> None:
    conversation = chatter.conversation()
    put(chatter, "talk", every_s=1, tool=None, message={"conversation_id": conversation, "content": "How is it going?"})
    put(chatter, "note", every_s=1, tool={"name": "todo_add", "arguments": {"subject": "look"}})
    wait_until(lambda: len(list_messages(chatter, conversation)) >= 4 and len(chatter.subjects()) >= 2, "both have come twice")
    for name in ("talk", "note"):
        chatter.ok("POST", f"/v1/schedules/{name}/pause")
    wait_until(lambda: all(job["state"] == "completed" for job in list_jobs(chatter)), "what was begun has ended")

    chat, note = get(chatter, "talk"), get(chatter, "note")
    done = {kind: [job for job in list_jobs(chatter) if job["kind"] == kind] for kind in ("turn", "tool")}
    assert list_messages(chatter, conversation)[:2] == [("user", "How is it going?"), ("assistant", "hello")]
    assert len(chatter.subjects()) == len(done["tool"])  # one call per tick
    assert len(list_messages(chatter, conversation)) == 2 * len(done["turn"])
    for schedule, kind in ((chat, "turn"), (note, "tool")):
        assert schedule["last_job"] == done[kind][0]["id"]
        assert schedule["last_at"] == done[kind][0]["created_at"] > schedule["created_at"]
        times = [job["created_at"] for job in done[kind]]
        assert len(times) - 1 <= max(times) - min(times) + 1  # never two runs for one tick


def test_a_turn_that_is_slow_is_not_overtaken(sqlite_chatter: Client, model: ModelServer) -> None:
    conversation = sqlite_chatter.conversation()
    model.hold()
    put(sqlite_chatter, every_s=1, tool=None, message={"conversation_id": conversation, "content": "How is it going?"})
    wait_until(lambda: get(sqlite_chatter)["skipped"] >= 1, "a tick is skipped")
    sqlite_chatter.ok("POST", "/v1/schedules/it/pause")
    model.release()
    wait_until(lambda: list_jobs(sqlite_chatter)[0]["state"] == "completed", "the turn ends")
    assert len(list_jobs(sqlite_chatter)) == 1
    assert len(model.requests) == 1
    sqlite_chatter.refused("GET", "/v1/schedules/none", 404, "not_found")


def test_run_now_into_a_busy_conversation_is_a_conflict(sqlite_chatter: Client, model: ModelServer) -> None:
    conversation = sqlite_chatter.conversation()
    model.hold()
    put(sqlite_chatter, tool=None, message={"conversation_id": conversation, "content": "How is it going?"})
    sqlite_chatter.ok("POST", "/v1/schedules/it/run")
    sqlite_chatter.refused("POST", "/v1/schedules/it/run", 409, "turn_running")
    model.release()
    wait_until(lambda: list_jobs(sqlite_chatter)[0]["state"] == "completed", "the turn ends")


def test_scheduled_work_that_cannot_run_is_a_dead_job_with_the_reason(client: Client) -> None:
    put(client, "nothing", tool={"name": "read_file", "arguments": {"path": "nothing.txt"}})
    outdated = {"gone": ("a_tool_of_old", {}), "wrong": ("todo_add", {"colour": "red"})}  # valid when stored, no longer valid
    for name, (tool, arguments) in outdated.items():
        work = {"tool": {"name": tool, "arguments": arguments, "conversation_id": 0}}
        client.desk.write(schedules.put, name, Timing(every_ms=3_600_000), work)
    errors = {}
    for name in ("wrong", "nothing", "gone"):
        ran = client.ok("POST", f"/v1/schedules/{name}/run")["schedule"]["last_job"]
        wait_until(lambda ran=ran: client.ok("GET", f"/v1/jobs/{ran}")["job"]["state"] == "dead", f"{name} is dead")  # type: ignore[misc]
        errors[name] = client.ok("GET", f"/v1/jobs/{ran}")["job"]["error"]

    assert errors["wrong"].startswith("Invalid arguments: subject: Field required")
    assert errors["gone"].startswith("No tool named 'a_tool_of_old'")
    assert "nothing.txt" in errors["nothing"]
    assert not errors["nothing"].startswith("{")
    put(client)
    client.ok("POST", "/v1/schedules/it/run")
    wait_until(lambda: list_jobs(client)[0]["state"] == "completed", "the engine goes on")


def test_a_schedule_that_is_broken_does_not_stop_the_engine(client: Client) -> None:
    put(client, "broken", every_s=None, cron="* * * * *", timezone="Europe/Berlin")
    client.desk.database.write(
        lambda tx: tx.run(
            "UPDATE schedules SET timezone = 'Europe/Atlantis', next_at = 0 WHERE tenant_id = ?", client.desk.tenant.id
        )
    )
    wait_until(lambda: get(client, "broken")["paused"], "it is paused")
    put(client)
    client.ok("POST", "/v1/schedules/it/run")
    wait_until(lambda: list_jobs(client)[0]["state"] == "completed", "the engine goes on")
    wait_until(lambda: client.get("/readyz").status_code == 200, "it is ready")


def test_while_halted_nothing_is_run_and_all_can_be_read(client: Client) -> None:
    put(client)
    put(client, "talk", tool=None, message={"conversation_id": client.conversation(), "content": "hi"})
    client.desk.database.write(halts.halt)
    try:
        for name in ("it", "talk"):
            client.refused("POST", f"/v1/schedules/{name}/run", 503, "halted")
        put(client, "later", every_s=1)
        assert len(client.ok("GET", "/v1/schedules")["schedules"]) == 3
        assert list_jobs(client) == []
        client.ok("DELETE", "/v1/schedules/talk")
    finally:
        client.desk.database.write(halts.unhalt)
    wait_until(lambda: get(client, "later")["last_job"] is not None, "it ticks again")
