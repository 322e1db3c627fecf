"""The port for an external engine that dispatches jobs: it decides when, and to which process, a job is delivered.

A dispatcher is asked for one thing: each job that it accepted is delivered to some process, when it is due or later, and again
until a delivery has returned. It may lose jobs, deliver them early, late, twice, or to several processes at once. The job's row
decides whether the job is due, who owns it and whether it has ended, and the engine announces again what was lost. So there is no
call to cancel a delivery: one for a job that is not due any more returns at once.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol


class DueJob(NamedTuple):
    job_id: str
    delay_ms: int  # from now; 0 if the job is due
    key: str  # the same for the same move of the same job: a job announced twice with one key may be delivered once


class NotNow(Exception):
    """The job is due, but this process cannot run it now. Deliver it again a little later."""


Deliver = Callable[[str], Awaitable[None]]  # with a job id; returns when the row has moved on or was not for this process


class Dispatcher(Protocol):
    async def announce(self, jobs: Sequence[DueJob]) -> list[str]:
        """Accept jobs to deliver when they are due. Return the ids of those that were not accepted."""
        ...

    async def serve(self, deliver: Deliver) -> None:
        """Receive deliveries until canceled, and call `deliver` for each, on this event loop. Several calls may be under way at
        once. Canceling a call does not stop the job.

        A call that raises NotNow is delivered again a little later, and so is one that raises anything else or is canceled.
        """
        ...
