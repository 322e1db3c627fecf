"""Agents that work while their tenant is moved continue in the other cell."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headway import settings
from headway.actions.goals import goals
from headway.actions.turns import turns
from headway.cells.moving import move_tenant
from headway.process.assembly import Headway
from headway.storage.stores import goals as goal_store
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells, run_sql
from tests.model_server import ModelServer, by_turn, environment, text

PATIENCE_S = 60


async def start_agents(home: Path, url: str, model: str) -> Headway:
    headway = Headway(settings.load({"home": str(home), "database_url": url, "model": model, "restart_stagger_s": "0"}))
    headway.start()
    headway.start_agents()
    await headway.agents_ready()
    return headway


async def stop(headway: Headway) -> None:
    await headway.stop_agents()
    headway.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_turn_that_waits_for_its_model_is_answered_once_in_the_other_cell(
    cells: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = TenantHarness(cells.databases["a"])
    conversation = desk.conversation()
    with ModelServer(by_turn(text("Done."))) as server:
        for variable, value in environment(server).items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
        server.hold()

        async def run() -> None:
            first = await start_agents(tmp_path, cells.urls.a, "openai-chat:strong")
            job = await first.database.of(desk.tenant.id).write(
                lambda tx: first.begin_turn(tx, desk.tenant.id, conversation.id, "Do it.")
            )
            first.engine.take(job)
            await asyncio.to_thread(server.wait_for_requests, 1)
            await asyncio.to_thread(move_tenant, cells.route(), "acme")
            second = await start_agents(tmp_path, cells.urls.b, "openai-chat:strong")
            await asyncio.to_thread(server.wait_for_requests, 2)  # the call is made again
            server.release()
            ended = "SELECT 1 FROM turns WHERE ended_at <> 0 AND status = 'finished'"
            await until(lambda: bool(run_sql(cells.databases["b"], ended)))
            await until(lambda: not first.engine.tasks)
            await stop(first)
            await stop(second)

        asyncio.run(run())

    moved = cells.desk("b", "acme")
    messages = moved.read(turns.list_messages, conversation.id, 10)
    assert [(message.role, message.content) for message in messages] == [("user", "Do it."), ("assistant", "Done.")]
    assert cells.count_rows("a", desk.tenant.id) == 0


def test_a_goal_is_pursued_in_the_other_cell(cells: Cells, tmp_path: Path) -> None:
    desk = TenantHarness(cells.databases["a"])
    goal = desk.write(goals.add_goal, goals.NewGoal("Write a.txt: hello; write b.txt: world; list the files"))

    async def run() -> None:
        first = await start_agents(tmp_path, cells.urls.a, "rehearsal")
        has_plan = partial(desk.read, goal_store.list_sub_goals, goal.id)
        await until(lambda: bool(has_plan()))
        await asyncio.to_thread(move_tenant, cells.route(), "acme")
        second = await start_agents(tmp_path, cells.urls.b, "rehearsal")
        ended = "SELECT 1 FROM goals WHERE status = 'completed'"
        await until(lambda: bool(run_sql(cells.databases["b"], ended)))
        await stop(first)
        await stop(second)

    asyncio.run(run())

    assert cells.count_rows("a", desk.tenant.id) == 0
