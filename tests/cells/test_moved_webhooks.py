"""A tenant is moved while a webhook's receiver has not answered yet: the other cell delivers the rest, in order."""

import asyncio
from pathlib import Path
from threading import Event

from headway.cells.moving import move_tenant
from headway.testing import TenantHarness
from tests.cells.move_harness import Cells
from tests.webhooks.receiver import Received, open_headway, run_receiver, subscribe, until


def test_a_webhook_delivers_from_the_other_cell_what_the_first_one_has_not(cells: Cells, tmp_path: Path) -> None:
    async def run() -> None:
        with run_receiver() as receiver:
            is_stuck, over = Event(), Event()

            def answer(_received: Received) -> int:
                if len(receiver.received) == 3:
                    is_stuck.set()
                    over.wait()
                return 204

            receiver.answer = answer
            hook = subscribe(TenantHarness(cells.databases["a"]), receiver)
            for number in range(10):
                hook.desk.add(f"todo {number}")
            expected = hook.list_seqs()
            async with open_headway(cells.urls.a, tmp_path / "a"):
                await asyncio.to_thread(is_stuck.wait)
                await asyncio.to_thread(move_tenant, cells.route(), "acme")
                over.set()
                moved = hook._replace(desk=cells.desk("b", "acme"))
                moved.desk.add("in the other cell")
                async with open_headway(cells.urls.b, tmp_path / "b"):
                    await until(lambda: moved.show()["after"] == moved.list_seqs()[-1])
            assert moved.list_seqs()[: len(expected)] == expected
            assert list(dict.fromkeys(receiver.seqs)) == moved.list_seqs()
            assert cells.count_rows("a", hook.desk.tenant.id) == 0

    asyncio.run(run())
