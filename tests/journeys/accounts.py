"""Checks that a killed and resumed turn left the same state as one that was never killed."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from headway.ledger.events import TURN_ENDS
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.snapshot import Snapshot, normalize
from tests.journeys.turn_model import AGAIN, FINAL, MESSAGE, ORDER, READ, REQUEST, SUMMARY, TELL, UNKNOWN, WANTED

PLAN = [READ, ORDER, TELL]


def check_all(plan: ProcessPlan, unkilled: Snapshot, *found: Snapshot) -> None:
    """Check that the final state is as if no process had been killed; `found` holds the states the earlier processes left."""
    left: Snapshot = json.loads(plan.left.read_text())
    interrupted = {effect["call_id"] for seen in found for effect in seen["effects"] if is_interrupted_order(effect)}
    assert {effect["call_id"] for effect in left["effects"] if effect["state"] == "unknown"} == interrupted
    check_messages(left)
    check_money(left)
    check_log(left)
    check_tools(plan, left, processes=len(found) + 1)
    for seen in found:
        check_nothing_was_repeated(seen, left)
    if interrupted:
        check_same_but_for_detour(left, unkilled)
    else:
        assert normalize(strip_takeover(left)) == normalize(strip_takeover(unkilled))


def is_interrupted_order(effect: dict[str, Any]) -> bool:
    return bool(effect["state"] == "started" and effect["tool"] == "order")


def strip_takeover(state: Snapshot) -> Snapshot:
    """The state without tool runs and `recovered` events, which differ when a turn is taken over."""
    events = [event for event in state["events"] if event["kind"] not in ("recovered", "job_recovered")]
    return {name: rows for name, rows in state.items() if name != "ran"} | {"events": events}


def check_messages(left: Snapshot, requests: Sequence[str] = (REQUEST, MESSAGE)) -> None:
    """Check that there is one request, one answer and one list."""
    (turn,) = left["turns"]
    assert (turn["status"], turn["outcome"]) == ("finished", "drained")
    (run,) = left["runs"]
    assert (run["status"], run["result"], run["reserved"], run["unread"]) == ("completed", FINAL, 0, 0)
    messages = [(message["role"], message["content"]) for message in left["messages"]]
    assert [content for role, content in messages if role == "user"] == [*requests]
    for request in requests:  # each was read once
        assert sum(request in json.dumps(message["parts"]) for message in left["transcript"]) == 1
    assert messages.count(("assistant", FINAL)) == 1
    assert messages[-1] == ("assistant", FINAL)
    assert [todo["subject"] for todo in left["todos"] if todo["turn_id"]] == PLAN
    assert [todo["subject"] for todo in left["todos"] if not todo["turn_id"]] == ["clean up afterwards"]
    assert {todo["status"] for todo in left["todos"] if todo["turn_id"]} == {"completed"}
    assert [message["n"] for message in left["transcript"]] == list(range(len(left["transcript"])))


def check_money(left: Snapshot) -> None:
    """Check that every answer in the transcript was paid for once."""
    (run,), (pool,) = left["runs"], left["pools"]
    responses = [message for message in left["transcript"] if message["kind"] == "response"]
    answers = [message for message in responses if "parts" not in (message.get("metadata") or {})]  # without the joined one
    assert len(responses) == len(answers) + 1
    summaries = [message for message in left["transcript"] if SUMMARY in json.dumps(message) and message["kind"] == "request"]
    paid = Counter(call["tier"] for call in left["model_calls"])
    assert paid == {"strong": len(answers), "cheap": len(summaries)}
    assert len(summaries) == 1
    assert run["iterations"] == len(answers)
    assert run["cost"] == pool["spent"] == sum(call["cost"] for call in left["model_calls"]) > 0
    assert pool["reserved"] == 0


def check_log(left: Snapshot) -> None:
    """Check that every event was logged once."""
    kinds = Counter(event["kind"] for event in left["events"])
    assert sum(kinds[kind] for kind in TURN_ENDS) == kinds["turn_started"] == kinds["refused"] == 1
    assert kinds["message"] == len(left["messages"])
    assert kinds["cost_changed"] == len(left["model_calls"])
    assert not kinds["turn_failed"]
    effects = {effect["call_id"]: effect["state"] for effect in left["effects"]}
    results = [json.loads(event["data"]) for event in left["events"] if event["kind"] == "tool_result"]
    calls = [json.loads(event["data"])["call_id"] for event in left["events"] if event["kind"] == "tool_call"]
    assert [(effect["call_id"], effect["state"]) for effect in results] == list(effects.items())
    assert calls == list(effects)


def check_tools(plan: ProcessPlan, left: Snapshot, processes: int) -> None:
    """Check that no unsafe call ran twice, and that every call has exactly one result."""
    ran = Counter(name for name, _ in left["ran"])
    made = Counter(effect["call_id"].replace(AGAIN, "") for effect in left["effects"])
    assert [what for what in WANTED if ran[f"order-{what}"] > made[f"order-{what}"]] == []
    assert 1 <= ran["invite-Ada"] <= processes
    assert sorted((plan.workspace / "orders.txt").read_text().split()) == sorted(WANTED)
    calls, answers = ([part["tool_call_id"] for part in list_parts(left, kind)] for kind in ("tool-call", "tool-return"))
    assert calls == answers == [effect["call_id"] for effect in left["effects"]]
    assert len(set(calls)) == len(calls)


def check_nothing_was_repeated(found: Snapshot, left: Snapshot) -> None:
    """Check that no call that already had a result ran again."""
    before, after = (Counter(name for name, _ in state["ran"]) for state in (found, left))
    finished = [effect["call_id"] for effect in found["effects"] if effect["state"] == "succeeded"]
    assert [name for name in finished if after[name] != before[name]] == []


def list_parts(state: Snapshot, kind: str) -> list[dict[str, Any]]:
    """The parts of the messages that are sent, which leaves out the call that was cut off."""
    sent = (message for message in state["transcript"] if message["sent"])
    return [part for message in sent for part in message["parts"] if part["part_kind"] == kind]


def check_same_but_for_detour(left: Snapshot, unkilled: Snapshot) -> None:
    """Check that the transcript differs only after the interrupted order: the result reported an unknown
    effect, and the model read the orders before it ordered the missing items."""
    for name in ("turns", "messages", "todos", "notices"):
        assert normalize(left[name]) == normalize(unkilled[name])
    straight, bent = list_transcript(unkilled), list_transcript(left)
    ordering = next(place for place, message in enumerate(straight) if '"order-cake"' in json.dumps(message))
    rest = len(straight) - ordering - 2  # without the order and its results
    assert bent[: ordering + 1] == straight[: ordering + 1]
    assert bent[-rest:] == straight[-rest:]
    detour = bent[ordering + 1 : -rest]
    assert UNKNOWN in json.dumps(detour[0])
    called = [part["tool_name"] for message in detour for part in message["parts"] if part["part_kind"] == "tool-call"]
    assert called[::2] == ["read_file"] * len(called[::2])
    assert called[1::2] == ["order"] * len(called[1::2])


def list_transcript(state: Snapshot) -> list[dict[str, Any]]:
    """The transcript without message numbers, which the detour shifts."""
    essential: list[dict[str, Any]] = normalize([{**message, "n": None} for message in state["transcript"]])
    return essential
