"""Random groups are pruned at random ages, and interrupted at random steps: what is open keeps its rows, stored counters stay
right, and the log never ends earlier than before."""

import shutil
from pathlib import Path
from random import Random

import pytest

from headway.actions.engine import run_ends
from headway.actions.goals import goals
from headway.actions.installation import pruning
from headway.actions.todos import todos
from headway.ledger.tenancy import DAY_MS, GROUPS, Group
from headway.storage.direct import DirectDatabase
from headway.storage.stores import events as event_store
from headway.storage.stores.retention import Key
from headway.storage.transaction import Row, Transaction
from headway.testing import FixedClock, TenantHarness
from tests.proofs import Proof
from tests.tenant_rows import fill_tenant

OF_TURN = ("turns", "transcript", "effects", "messages", "attachments", "requests", "steering")
OF_GOAL = ("goals", "sub_goals", "journal")


def read_rows(desk: TenantHarness, tables: tuple[str, ...]) -> dict[str, list[Row]]:
    def read(tx: Transaction) -> dict[str, list[Row]]:
        return {table: tx.all(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}

    return desk.database.read(read)


def prune_some(desk: TenantHarness, random: Random, group: Group) -> None:
    position: Key | None = None
    before = desk.database.connection.read(lambda tx: tx.now) - random.randint(1, 60) * DAY_MS
    for _ in range(random.randint(1, 5)):
        step = desk.database.write(lambda tx: pruning.PRUNES[group](tx, desk.tenant.id, before, position))  # noqa: B023  called at once
        position = step.position
        if position is None:
            return


def check_counters(tx: Transaction) -> None:
    stored = tx.all("SELECT conversation_id, turn_id, pending, in_progress, completed, canceled FROM todo_lists")
    for conversation_id, turn_id, *counts in stored:
        found = [
            tx.all(
                "SELECT 1 FROM todos WHERE conversation_id = ? AND COALESCE(turn_id, '') = ? AND status = ?",
                conversation_id,
                turn_id,
                status,
            )
            for status in ("pending", "in_progress", "completed", "canceled")
        ]
        assert [len(rows) for rows in found] == counts
    assert tx.all("PRAGMA foreign_key_check") == []


@pytest.mark.proof
def test_random_pruning_keeps_what_is_open(tmp_path: Path, empty_ledger: Path, proof: Proof) -> None:
    for seed in proof.seeds("pruned ledgers", share=10, whole=1_000):
        random, clock = Random(seed), FixedClock()
        path = tmp_path / f"{seed}.db"
        shutil.copy(empty_ledger, path)
        with DirectDatabase(f"sqlite:///{path}", clock) as database:
            desk = TenantHarness(database)
            ids = fill_tenant(desk)
            is_turn_open, is_goal_open = random.random() < 0.5, random.random() < 0.5
            if not is_turn_open:
                desk.write(run_ends.cancel_turn, ids.turn)
            if not is_goal_open:
                desk.write(goals.abandon, ids.goal)
            if random.random() < 0.5:
                for todo in desk.database.read(
                    lambda tx: tx.all("SELECT id FROM todos WHERE completed_at = 0 AND turn_id IS NULL")
                ):
                    desk.write(todos.end_todo, todo[0], "canceled", force=True)
            of_turn, of_goal = read_rows(desk, OF_TURN), read_rows(desk, OF_GOAL)
            end = desk.read(event_store.get_last_seq)
            for _ in range(random.randint(5, 20)):
                clock.advance(random.randint(0, 10) * 86_400)
                prune_some(desk, random, random.choice(GROUPS))
                assert desk.read(event_store.get_last_seq) >= end
                end = desk.read(event_store.get_last_seq)
            if is_turn_open:
                assert read_rows(desk, OF_TURN) == of_turn, seed
                assert desk.database.read(lambda tx: tx.all("SELECT 1 FROM runs WHERE turn_id IS NOT NULL")), seed
            if is_goal_open:
                assert read_rows(desk, OF_GOAL) == of_goal, seed
            database.read(check_counters)
        path.unlink()
