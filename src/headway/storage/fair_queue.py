"""Work that waits for a database connection, in one line per tenant. The next unit comes from the tenant that has used the least
connection time, so a tenant that keeps the connections busy waits behind the others."""

import heapq
import threading
from collections import Counter, deque
from contextvars import ContextVar
from typing import Generic, Protocol, TypeVar

HEADWAY = 0  # the line of work that Headway does for all tenants: claims, heartbeats, housekeeping
UNKNOWN_CALLER = -1  # the line of requests whose token was not seen before

# The tenant that the current task works for. The engine sets it for each job, and the HTTP server for each request.
current_tenant: ContextVar[int] = ContextVar("current_tenant", default=HEADWAY)


class Waiting(Protocol):
    @property
    def tenant_id(self) -> int: ...


W = TypeVar("W", bound=Waiting)

EXPECTED_S = 0.0001  # counted for a unit of work until its real duration is known


class FairQueue(Generic[W]):
    """A queue for threads. `most` is how many units of one tenant may be in progress at once.

    `used_s` is the connection time that each tenant in the queue has used. A tenant that joins starts with what the tenant served
    last has used, so it neither has an advantage over waiting tenants nor pays for earlier work.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.changed = threading.Condition()
        self.lines: dict[int, deque[W]] = {}
        self.order: list[tuple[float, int]] = []  # a heap of (used_s, tenant), one entry for each line that may be served
        self.held: set[int] = set()  # tenants with waiting work and as much in progress as they may have
        self.in_progress: Counter[int] = Counter()
        self.used_s: dict[int, float] = {}
        self.origin_s = 0.0
        self.closed = False

    def __len__(self) -> int:
        """Return how many units wait."""
        return sum(map(len, self.lines.values()))

    def put(self, item: W) -> None:
        with self.changed:
            if item.tenant_id in self.lines:
                self.lines[item.tenant_id].append(item)
            else:
                self._open_line(item.tenant_id, deque([item]))
            self.changed.notify()

    def close(self) -> None:
        """Let `take` return what is left, then nothing."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def take(self, limit: int) -> list[W]:
        """Wait for work and return up to `limit` units of it, or none if the queue is closed and empty."""
        with self.changed:
            while not (taken := self._take_now(limit)) and not (self.closed and not self.lines):
                self.changed.wait()
            return taken

    def finish(self, item: W, seconds: float) -> None:
        """Record that a unit of work has ended."""
        with self.changed:
            self._leave(item.tenant_id, seconds)

    def put_back(self, items: list[W]) -> None:
        """Return units that were taken but not started. They come first in their lines."""
        with self.changed:
            for item in reversed(items):
                if item.tenant_id in self.lines:
                    self.lines[item.tenant_id].appendleft(item)
                else:
                    self._open_line(item.tenant_id, deque([item]))
                self._leave(item.tenant_id, 0.0)
            self.changed.notify()

    def _take_now(self, limit: int) -> list[W]:
        taken: list[W] = []
        while len(taken) < limit and self.order:
            used_s, tenant_id = heapq.heappop(self.order)
            if used_s < self.used_s[tenant_id]:  # it has used more since it got its place
                heapq.heappush(self.order, (self.used_s[tenant_id], tenant_id))
            elif tenant_id != HEADWAY and self.in_progress[tenant_id] >= self.most:
                self.held.add(tenant_id)
            else:
                taken.append(self._serve(tenant_id))
        return taken

    def _open_line(self, tenant_id: int, line: deque[W]) -> None:
        self.lines[tenant_id] = line
        self.used_s[tenant_id] = max(self.used_s.get(tenant_id, 0.0), self.origin_s)
        heapq.heappush(self.order, (self.used_s[tenant_id], tenant_id))

    def _serve(self, tenant_id: int) -> W:
        line = self.lines[tenant_id]
        item = line.popleft()
        self.in_progress[tenant_id] += 1
        self.origin_s = max(self.origin_s, self.used_s[tenant_id])
        self.used_s[tenant_id] += EXPECTED_S
        if line:
            heapq.heappush(self.order, (self.used_s[tenant_id], tenant_id))
        else:
            del self.lines[tenant_id]
        return item

    def _leave(self, tenant_id: int, seconds: float) -> None:
        self.in_progress[tenant_id] -= 1
        self.used_s[tenant_id] += seconds - EXPECTED_S
        if tenant_id in self.held:
            self.held.discard(tenant_id)
            heapq.heappush(self.order, (self.used_s[tenant_id], tenant_id))
            self.changed.notify()
        if not self.in_progress[tenant_id]:
            del self.in_progress[tenant_id]
            if tenant_id not in self.lines:
                del self.used_s[tenant_id]
        if self.closed:
            self.changed.notify_all()
