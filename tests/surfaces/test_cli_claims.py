"""`todo claim` and `heartbeat`: claiming work from the shell, and how a lease protects it."""

import time
from typing import Any

import pytest

from headway.actions.access import local_tenant
from headway.actions.todos import claims
from headway.storage.direct import DirectDatabase
from headway.testing import FixedClock
from tests.surfaces.shell import Shell, get_error_line


def claim(headway: Shell, *options: str) -> Any:
    return headway.json("todo", "claim", "--agent", "ada", *options)


def claim_with_expired_lease(headway: Shell) -> str:
    """Claim the first todo with a lease that expired years ago, and return its token."""
    headway.ok("todo", "add", "abandoned")
    with DirectDatabase(f"sqlite:///{headway.ledger}", FixedClock()) as database:
        tenant = database.write(local_tenant.ensure_local)
        claimed = database.write(lambda tx: claims.claim(tx, tenant.id, "bob"))
    assert claimed is not None
    return claimed.lease.token


def test_a_claim_hands_out_the_next_ready_todo_with_a_lease(headway: Shell) -> None:
    headway.ok("todo", "add", "first")
    headway.ok("todo", "add", "second", "--after", "1")
    before = time.time()
    claimed = claim(headway)

    assert list(claimed) == ["todo", "lease"]
    todo = claimed["todo"]
    assert (todo["subject"], todo["status"], todo["agent_id"]) == ("first", "in_progress", "ada")
    assert set(claimed["lease"]) == {"token", "expires_at"}
    assert before + 58 <= claimed["lease"]["expires_at"] <= time.time() + 60
    assert headway("todo", "claim", "--agent", "bob").code == 3


def test_a_claim_with_nothing_ready_prints_nothing_and_exits_3(headway: Shell) -> None:
    assert headway("todo", "claim", "--agent", "ada") == (3, "", "")
    assert headway("todo", "claim", "--agent", "ada", "--json") == (3, "", "")


def test_a_claim_for_people_shows_the_todo_and_its_token(headway: Shell) -> None:
    headway.ok("todo", "add", "first")
    first, second = headway.ok("todo", "claim", "--agent", "ada", "--lease", "5m").splitlines()

    assert first == "▶ #1 [in_progress] first"
    token = second.split()[2].rstrip(",")
    assert headway.json("todo", "done", "1", "--lease-token", token)["todo"]["status"] == "completed"


@pytest.mark.parametrize(("lease", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("1h", 3600), ("1d", 86400)])
def test_a_lease_lasts_as_long_as_it_is_asked_for(headway: Shell, lease: str, seconds: int) -> None:
    headway.ok("todo", "add", "first")
    before = time.time()
    expires_at = claim(headway, "--lease", lease)["lease"]["expires_at"]

    assert before + seconds - 2 <= expires_at <= time.time() + seconds


def test_a_claim_in_a_conversation_takes_its_own_work_first_and_then_the_tenants(headway: Shell) -> None:
    headway.ok("conversation", "new", "--key", "ours")
    headway.ok("conversation", "new", "--key", "theirs")
    headway.ok("todo", "add", "tenant-wide")
    headway.ok("todo", "add", "ours", "--conversation", "ours")
    headway.ok("todo", "add", "theirs", "--conversation", "theirs")

    assert [claim(headway, "--conversation", "ours")["todo"]["subject"] for _ in range(2)] == ["ours", "tenant-wide"]
    assert headway("todo", "claim", "--agent", "ada", "--conversation", "ours").code == 3


@pytest.mark.parametrize("verb", [["start"], ["done"], ["cancel"], ["reopen"], ["edit", "--subject", "stolen"]])
def test_a_leased_todo_is_changed_with_its_token_or_by_force(headway: Shell, verb: list[str]) -> None:
    headway.ok("todo", "add", "first")
    token = claim(headway)["lease"]["token"]

    assert "'ada' holds a lease" in get_error_line(headway("todo", *verb, "1"), 4)
    assert "lease is no longer valid" in get_error_line(headway("todo", *verb, "1", "--lease-token", "another"), 4)
    assert headway.json("todo", "show", "1")["todo"]["subject"] == "first"
    assert headway("todo", *verb, "1", "--lease-token", token).code == 0


@pytest.mark.parametrize("verb", [["done"], ["cancel"], ["reopen"], ["edit", "--subject", "stolen"]])
def test_force_changes_a_leased_todo(headway: Shell, verb: list[str]) -> None:
    headway.ok("todo", "add", "first")
    claim(headway)
    assert headway("todo", *verb, "1", "--force").code == 0


def test_a_leased_todo_is_deleted_with_its_token_or_by_force(headway: Shell) -> None:
    for subject in ("first", "second"):
        headway.ok("todo", "add", subject)
    token = claim(headway)["lease"]["token"]
    claim(headway)

    assert "'ada' holds a lease" in get_error_line(headway("todo", "rm", "1", "--yes"), 4)
    assert headway.json("todo", "rm", "1", "--lease-token", token) == {"deleted": True}
    assert headway.json("todo", "rm", "2", "--force") == {"deleted": True}
    assert headway.json("todo", "list", "--all")["todos"] == []


def test_a_released_todo_can_be_claimed_again_and_the_old_token_is_worth_nothing(headway: Shell) -> None:
    headway.ok("todo", "add", "first")
    token = claim(headway)["lease"]["token"]
    headway.ok("todo", "reopen", "1", "--lease-token", token)
    assert claim(headway)["todo"]["id"] == 1

    get_error_line(headway("todo", "done", "1", "--lease-token", token), 4)
    assert headway.json("todo", "show", "1")["todo"]["status"] == "in_progress"


def test_work_of_a_silent_owner_is_taken_over_and_the_late_owner_is_refused(headway: Shell) -> None:
    late = claim_with_expired_lease(headway)
    headway.ok("todo", "add", "fresh")
    claimed = claim(headway)

    assert (claimed["todo"]["subject"], claimed["todo"]["agent_id"]) == ("abandoned", "ada")
    assert "lease is no longer valid" in get_error_line(headway("todo", "done", "1", "--lease-token", late), 4)
    assert "lease is no longer valid" in get_error_line(headway("todo", "heartbeat", "1", "--lease-token", late), 4)
    assert headway("todo", "done", "1", "--lease-token", claimed["lease"]["token"]).code == 0


def test_a_heartbeat_keeps_the_lease(headway: Shell) -> None:
    token = claim_with_expired_lease(headway)
    before = time.time()
    extended = headway.json("todo", "heartbeat", "1", "--lease-token", token, "--lease", "10m")

    assert list(extended) == ["todo", "lease"]
    assert extended["lease"]["token"] == token
    assert before + 598 <= extended["lease"]["expires_at"] <= time.time() + 600
    assert headway("todo", "claim", "--agent", "ada").code == 3
    assert "lease" in headway.ok("todo", "show", "1")


def test_a_heartbeat_needs_the_token_of_the_lease(headway: Shell) -> None:
    headway.ok("todo", "add", "first")
    get_error_line(headway("todo", "heartbeat", "1", "--lease-token", "none"), 4)
    claim(headway)
    get_error_line(headway("todo", "heartbeat", "1", "--lease-token", "another"), 4)
    get_error_line(headway("todo", "heartbeat", "404", "--lease-token", "none"), 3)
