"""Forks of goals: a copy of a goal as it was after an entry of its journal, that is pursued from there."""

import json
from typing import Any, NamedTuple

from headway.actions.goals import goals
from headway.actions.goals.goals import NewGoal
from headway.actions.installation import halts
from headway.actions.runs import sub_goals
from headway.actions.todos import proof
from headway.ledger.check import Proof
from headway.ledger.errors import Conflict, Invalid
from headway.ledger.events import encode_json, restore_texts
from headway.ledger.goal import Goal, JournalEntry, SubGoal
from headway.ledger.limits import Limits
from headway.ledger.text import MAX_INTEGER
from headway.storage.stores import events as event_store
from headway.storage.stores import forks as fork_store
from headway.storage.stores import goals as goal_store
from headway.storage.transaction import Transaction

PLAN_KINDS = ("planned", "replanned")
EDIT_REASON = "A person changed the description of the goal."


class GoalForkRequest(NamedTuple):
    at: int  # the journal entry after which the fork begins
    message: str = ""  # replaces the description; an existing plan is then replaced
    live: bool = False  # whether calls without a recorded result are made
    limits: Limits = Limits()


def fork_goal(tx: Transaction, tenant_id: int, goal_id: int, request: GoalForkRequest) -> Goal:
    """Copy a goal as it was after a journal entry, and start to pursue the copy. The original is not changed.

    Sub-goals that had ended are copied with their outcomes. One that was in progress starts again, because its agent is not copied.
    """
    halts.check(tx)
    source = goals.get_locked_goal(tx, tenant_id, goal_id)
    check_history(tx, source)
    entries = goal_store.list_entries(tx, tenant_id, goal_id, MAX_INTEGER, MAX_INTEGER)
    if not 1 <= request.at <= len(entries):
        raise Invalid(f"at must be between 1 and {len(entries)}, the number of journal entries of goal #{goal_id}.")
    kept = entries[: request.at]
    plan_no = sum(entry.kind in PLAN_KINDS for entry in kept)
    deadline_at = source.deadline_at if source.deadline_at > tx.now else 0
    description = request.message or source.description
    new_goal = NewGoal(description, source.success_criteria, source.priority, source.budget, deadline_at)
    new_goal = new_goal._replace(checks=source.checks, repository=source.repository)
    goal = goals.insert_new_goal(tx, tenant_id, new_goal, source.source, "active", source.evidence)
    fork_store.save_goal_origin(tx, tenant_id, goal.id, source.id, request.at)
    ids = copy_sub_goals(tx, source, goal, request.at, plan_no)
    for entry in kept[1:]:  # the first one says that the goal was set, as the fork's own does
        sub_goals.append(tx, tenant_id, goal.id, entry.kind, translate_entry(entry, ids))
    sub_goals.append(tx, tenant_id, goal.id, "forked", {"goal_id": source.id, "at": request.at, "live": request.live})
    replan_why = EDIT_REASON if request.message and plan_no else ""
    goal = goals.begin_goal(
        tx, goal._replace(plan_no=plan_no, replan_why=replan_why, forked_from=source.id, fork_at=request.at), request.limits
    )
    if not request.live:
        fork_store.set_replays(tx, tenant_id, goal.run_id or "", f"{fork_store.GOAL_PREFIX}{source.id}")
    return goal


def check_history(tx: Transaction, source: Goal) -> None:
    """Raise Conflict if the goal's first events were deleted because of their age."""
    bounds = event_store.get_bounds(tx, source.tenant_id)
    if bounds.pruned and bounds.pruned_at >= source.created_at:
        first = fork_store.find_first_entry(tx, source.tenant_id, source.id)
        if first is None or json.loads(first)["entry"]["n"] != 1:
            raise Conflict(f"Goal #{source.id} cannot be forked: its history was deleted because of its age (HEADWAY_RETENTION).")


def copy_sub_goals(tx: Transaction, source: Goal, goal: Goal, at: int, plan_no: int) -> dict[int, int]:
    """Copy the sub-goals as they were after a journal entry. Returns the id of each copy by the id of its original."""
    versions = load_versions(tx, source, at, plan_no)
    copies: list[SubGoal] = []
    ids: dict[int, int] = {}
    for original in goal_store.list_sub_goals(tx, source.tenant_id, source.id):
        if original.id in versions:
            ids[original.id] = goal_store.insert_sub_goal(tx, copy_sub_goal(original, goal))
            copies.append(original)
    for original in copies:
        depends_on = [ids[other] for other in versions[original.id]["depends_on"] if other in ids]
        goal_store.replace_edges(tx, goal.tenant_id, ids[original.id], depends_on)
    for original in copies:
        version = versions[original.id]
        copied_row = goal_store.find_sub_goal(tx, goal.tenant_id, ids[original.id])
        assert copied_row is not None
        if not version["ended_at"]:
            sub_goals.change_sub_goal(tx, copied_row)
            continue
        changed = sub_goals.change_sub_goal(
            tx,
            copied_row,
            status=version["status"],
            outcome=encode_json(version["outcome"]) if version["outcome"] is not None else None,
            reason=version["reason"],
            proof=version.get("proof", "none"),
            divergence=version["divergence"],
            divergence_reason=version["divergence_reason"],
            superseded_by=version.get("superseded_by") or 0,
            judged_under=original.judged_under if version["divergence"] else 0,
            started_at=version["started_at"] * 1000,
            ended_at=version["ended_at"] * 1000,
        )
        proof.copy_receipt(tx, goal.tenant_id, "sub_goal", original.id, changed)
    return ids


def copy_sub_goal(original: SubGoal, goal: Goal) -> SubGoal:
    """Copy a sub-goal as it was when it was planned. All its later fields have defaults."""
    proof: Proof = "unproven" if original.checks else "none"
    planned = {"goal_id": goal.id, "checks": original.checks, "proof": proof, "title": original.title}
    return original._replace(**SubGoal._field_defaults | planned)


def load_versions(tx: Transaction, source: Goal, at: int, plan_no: int) -> dict[int, dict[str, Any]]:
    """Load the last logged state of each sub-goal before the next journal entry, if a plan up to then had introduced it."""
    versions: dict[int, dict[str, Any]] = {}
    kinds = ("journal_appended", "sub_goal_changed")
    for event in fork_store.list_subject_events(tx, source.tenant_id, f"goal:{source.id}", kinds):
        data = json.loads(event.data)
        if event.kind == "journal_appended" and data["entry"]["n"] > at:
            break
        if event.kind == "sub_goal_changed" and data["sub_goal"]["plan_no"] <= plan_no:
            sub_goal_id = data["sub_goal"]["id"]
            versions[sub_goal_id] = restore_texts(data, "sub_goal", versions.get(sub_goal_id))
    return versions


def translate_entry(entry: JournalEntry, ids: dict[int, int]) -> dict[str, Any]:
    """Return a journal entry's data with the numbers of the copied sub-goals."""
    data: dict[str, Any] = json.loads(entry.data)
    if data.get("sub_goal_id") in ids:
        data["sub_goal_id"] = ids[data["sub_goal_id"]]
    if entry.kind in PLAN_KINDS:
        data["added"] = [{**item, "id": ids.get(item["id"], item["id"])} for item in data["added"]]
        data["kept"] = [ids.get(number, number) for number in data["kept"]]
        data["dropped"] = [ids.get(number, number) for number in data["dropped"]]
        data["changed"] = [ids.get(number, number) for number in data.get("changed", ())]
    return data
