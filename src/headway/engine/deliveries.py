"""Claims the jobs that an external engine delivers to this process.

A delivered job is claimed like any other: only if its row is due, its family and its tenant have a free slot, and nothing is
halted. So a delivery can make a job start sooner, and nothing else.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import inf
from time import monotonic
from typing import NamedTuple

from headway.engine.polling import POLL_S, wait_with_timeout
from headway.engine.port import NotNow
from headway.engine.runner import JobRunner
from headway.ledger.job import Job
from headway.storage.stores import halts as halt_store
from headway.storage.stores import jobs as job_store
from headway.storage.transaction import Transaction

CLAIM_BATCH = 500
HOLD_S = 0.5  # how long a delivery waits while this process claims no job; another process may have a free slot
EARLY_MS = 2_000  # a delivery that is early by less than this waits for the due time
ID_LIMIT = 200  # in characters


class HeldJob:
    """A job that was delivered to this process and is not claimed yet."""

    __slots__ = ("answer", "expires_at", "job", "retry_at")

    def __init__(self) -> None:
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()  # whether this process has claimed the job
        self.expires_at = monotonic() + HOLD_S
        self.job: Job | None = None  # its row, once it was read
        self.retry_at = 0.0

    def resolve(self, *, is_claimed: bool) -> None:
        if not self.answer.done():
            self.answer.set_result(is_claimed)

    def refuse(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(NotNow(reason))
            self.answer.exception()  # marks it as retrieved, in case the dispatcher waits no more


class ClaimResult(NamedTuple):
    claimed: list[Job]
    waiting: dict[str, tuple[Job, float]]  # jobs to try again, with the pause until then in seconds; 0: when there is a free slot
    unknown: list[str]  # jobs of a kind that only a newer Headway knows


class Deliveries:
    def __init__(self, runner: JobRunner) -> None:
        self.runner = runner
        self.held: dict[str, HeldJob] = {}
        self.arrival = asyncio.Event()  # set when a claim may succeed
        self.last_claim_at = -inf
        self.is_closed = False

    async def deliver(self, job_id: str) -> None:
        """Run the job, if it is due and free. Returns when its row has moved on, or if it was not for this process."""
        if not (len(job_id) <= ID_LIMIT and job_id.isascii() and job_id.isprintable()):
            return
        if task := self.runner.tasks.get(job_id):  # delivered twice, or the row waits again while its last task is about to end
            await asyncio.wait([task])
        if self.is_closed:
            raise NotNow("This process is stopping.")
        delivery = self.held.setdefault(job_id, HeldJob())
        self.arrival.set()
        if not await asyncio.shield(delivery.answer):
            return
        if task := self.runner.tasks.get(job_id):
            await asyncio.wait([task])
            if task.cancelled():
                raise NotNow("This process has stopped the job.")

    def close(self) -> None:
        """Have jobs delivered to another process."""
        self.is_closed = True
        for delivery in self.held.values():
            delivery.refuse("This process is stopping.")
        self.held.clear()

    async def claim(self) -> None:
        """Wait for deliveries, and claim them together in one transaction."""
        if self.held:
            await wait_with_timeout(self.arrival, POLL_S)
        else:
            await self.arrival.wait()
        self.arrival.clear()
        job_ids = self._choose_ids()
        if job_ids:
            claim = partial(self._claim_delivered, job_ids=job_ids, running=Counter(self.runner.running))
            try:
                result = await self.runner.claim(claim)
            except Exception:
                for job_id in job_ids:
                    self._remove(job_id).refuse("The database could not be reached.")
                raise
            self._answer(job_ids, result)
        self._refuse_expired()

    def _choose_ids(self) -> list[str]:
        """Choose the deliveries to look up: new ones, and those that would now get a slot."""
        now = monotonic()
        ready = {job_id: delivery for job_id, delivery in self.held.items() if delivery.retry_at <= now}
        arrived = [job_id for job_id, delivery in ready.items() if delivery.job is None]
        if len(arrived) > CLAIM_BATCH:
            self.arrival.set()  # the others follow in the next round
        known = sorted((delivery.job for delivery in ready.values() if delivery.job), key=lambda job: (job.due_at, job.id))
        return [*arrived[:CLAIM_BATCH], *(job.id for job in self.runner.choose(known, Counter(self.runner.running)))]

    def _claim_delivered(self, tx: Transaction, job_ids: Sequence[str], running: Counter[int]) -> ClaimResult:
        locked = job_store.lock_waiting(tx, job_ids)
        missing = set(job_ids) - {job.id for job in locked}
        busy = job_store.list_waiting(tx, list(missing)) if tx.dialect.skip_locked and missing else []
        waiting, due_jobs, unknown = {}, [], []
        for job in (*locked, *busy):
            if job.kind not in self.runner.handlers:
                unknown.append(job.id)
            elif job.due_at <= tx.now:
                waiting[job.id] = (job, POLL_S)
                due_jobs.append(job)
            elif job.due_at <= tx.now + EARLY_MS:
                waiting[job.id] = (job, (job.due_at - tx.now) / 1000)
        if halt_store.find_active(tx):
            return ClaimResult([], waiting, unknown)
        lockable = [job for job in due_jobs if job.id not in missing]
        chosen = self.runner.choose(lockable, running)
        claimed = self.runner.claim_locked(tx, chosen)
        for job in set(lockable) - set(chosen):
            waiting[job.id] = (job, 0.0)
        for job in claimed:
            del waiting[job.id]
        return ClaimResult(claimed, waiting, unknown)

    def _answer(self, job_ids: Sequence[str], result: ClaimResult) -> None:
        now = monotonic()
        for job in result.claimed:
            self.last_claim_at = now
            self.runner.take(job)
            self.runner.tasks[job.id].add_done_callback(lambda _task: self.arrival.set())
            self._remove(job.id).resolve(is_claimed=True)
        for job_id in result.unknown:
            self._remove(job_id).refuse("This version of Headway has no handler for the job.")
        for job_id in set(job_ids) - {job.id for job in result.claimed} - set(result.unknown):
            if job_id not in result.waiting:  # ended, running elsewhere, or due much later
                self._remove(job_id).resolve(is_claimed=False)
            elif delivery := self.held.get(job_id):
                delivery.job, pause_s = result.waiting[job_id]
                delivery.retry_at = now + pause_s
                if pause_s > POLL_S:
                    delivery.expires_at = delivery.retry_at + HOLD_S

    def _refuse_expired(self) -> None:
        """Give up on deliveries that waited long enough. They wait longer while this process claims jobs."""
        now = monotonic()
        if now < self.last_claim_at + HOLD_S:
            return
        for job_id, delivery in list(self.held.items()):
            if delivery.job and now >= delivery.expires_at:
                self._remove(job_id).refuse("The job has to wait.")

    def _remove(self, job_id: str) -> HeldJob:
        """Remove a delivery. A stop may have done it before."""
        return self.held.pop(job_id, None) or HeldJob()
