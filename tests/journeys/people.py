"""People in scenarios that span processes: they decide about proposed calls and answer questions, as soon as nothing else runs."""

import asyncio
import json
from collections.abc import Coroutine
from functools import partial
from typing import Any

from headway.actions.runs import inbox
from headway.actions.runs.inbox import ApprovalDecision
from headway.ledger.inbox import PersonRequest
from headway.storage.direct import DirectDatabase
from headway.storage.transaction import Row, Transaction
from tests.journeys.forked_process import ProcessPlan
from tests.journeys.kill_points import observe

BOB = "bob"
IN_USE = "They are in use."
REJECTED = "cups"
EDITED, INSTEAD = "linen", "napkins"
ANSWER = "No"
SELECT_OPEN = "SELECT kind, id FROM requests WHERE tenant_id = ? AND state = 'open' ORDER BY kind, id"
SELECT_BUSY = """SELECT 1 FROM jobs WHERE tenant_id = ? AND kind IN ('turn', 'agent', 'goal')
    AND state IN ('queued', 'running') LIMIT 1"""


async def accompany(headway: Any, plan: ProcessPlan, work: Coroutine[Any, Any, None]) -> None:
    """Do the work. When it waits for people alone, either leave it or let a person decide."""
    task = asyncio.ensure_future(work)
    with observe():
        database = DirectDatabase(plan.database_url)
    while not task.done():
        await asyncio.wait([task], timeout=0.005)
        with observe():
            needed = not task.done() and database.read(partial(is_person_needed, tenant_id=plan.tenant_id))
        if needed and plan.people == "wait":
            task.cancel()
            break
        if needed:
            await decide_all(headway, plan)
    with observe():
        database.close()
    if not task.cancelling():
        await task


def is_person_needed(tx: Transaction, tenant_id: int) -> bool:
    """Whether everything waits for people."""
    return not tx.one(SELECT_BUSY, tenant_id) and bool(list_open(tx, tenant_id))


def list_open(tx: Transaction, tenant_id: int) -> list[Row]:
    return tx.all(SELECT_OPEN, tenant_id)


async def decide_all(headway: Any, plan: ProcessPlan) -> None:
    """Decide about every open call, and answer every open question."""
    tenant_id = plan.tenant_id
    for kind, number in await headway.database.of(tenant_id).read(partial(list_open, tenant_id=tenant_id)):
        if kind == "question":
            await headway.database.of(tenant_id).write(lambda tx, number=number: inbox.answer(tx, tenant_id, number, ANSWER, BOB))
        else:
            await headway.database.of(tenant_id).write(partial(decide, headway=headway, tenant_id=tenant_id, number=number))
    headway.nudge()


def decide(tx: Transaction, headway: Any, tenant_id: int, number: int) -> PersonRequest:
    name = json.loads(inbox.get(tx, tenant_id, number).arguments)["name"]
    decision = ApprovalDecision("reject", BOB, reason=IN_USE) if name == REJECTED else ApprovalDecision("approve", BOB)
    if name == EDITED:
        decision = decision._replace(arguments=json.dumps({"name": INSTEAD}))
    approval: PersonRequest = headway.permission.decide(tx, tenant_id, number, decision)
    return approval
