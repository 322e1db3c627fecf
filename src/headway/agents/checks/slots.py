"""How many checks run at once. The others wait their turn, and tenants take turns."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Lock
from typing import Final

PROCESS_LIMIT: Final = 12
TENANT_LIMIT: Final = 4


class CheckSlots:
    """The slots of a process. Several event loops may share them."""

    def __init__(self, process_limit: int = PROCESS_LIMIT, tenant_limit: int = TENANT_LIMIT) -> None:
        self.process_limit = process_limit
        self.tenant_limit = tenant_limit
        self.lock = Lock()
        self.running: dict[int, int] = {}  # by tenant
        self.queues: dict[int, deque[asyncio.Future[None]]] = {}  # those that wait, by tenant; the first tenant is the next

    @asynccontextmanager
    async def take(self, tenant_id: int) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the block."""
        turn = asyncio.get_running_loop().create_future()
        with self.lock:
            self.queues.setdefault(tenant_id, deque()).append(turn)
            self.admit()
        try:
            await turn
            yield
        finally:
            with self.lock:
                self.leave(tenant_id, turn)
                self.admit()

    def admit(self) -> None:
        """Give free slots to those that wait: to each tenant in turn, up to its limit."""
        while sum(self.running.values()) < self.process_limit:
            tenant_id = next((one for one in self.queues if self.running.get(one, 0) < self.tenant_limit), None)
            if tenant_id is None:
                return
            queue = self.queues.pop(tenant_id)
            turn = queue.popleft()
            if queue:
                self.queues[tenant_id] = queue  # behind the other tenants
            with suppress(RuntimeError):  # its event loop was closed
                turn.get_loop().call_soon_threadsafe(wake, turn)
                self.running[tenant_id] = self.running.get(tenant_id, 0) + 1

    def leave(self, tenant_id: int, turn: "asyncio.Future[None]") -> None:
        """Give back the slot, or the place in the queue if there was none yet."""
        queue = self.queues.get(tenant_id, deque())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self.queues[tenant_id]
            return
        self.running[tenant_id] -= 1
        if not self.running[tenant_id]:
            del self.running[tenant_id]


def wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


PROCESS_SLOTS: Final = CheckSlots()
