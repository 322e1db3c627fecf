"""How the slots of a process are divided among tenants."""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from headway.ledger.job import Job


def choose_jobs(due_jobs: Iterable[Job], running: Mapping[int, int], slots: int, per_tenant: int) -> list[Job]:
    """Choose the due jobs that start now. `running` counts the jobs of each tenant that this process runs already.

    Slots are handed out in turn: the next one goes to the tenant with the fewest running jobs. An equal share of the slots belongs
    to each tenant that has a job. A tenant may use more than its share while slots are free. What it uses beyond its share does not
    count against the others, so a tenant below its share never waits for the long jobs of another one.
    """
    counts = Counter(running)
    queues: dict[int, deque[Job]] = {}
    for job in due_jobs:
        queues.setdefault(job.tenant_id, deque()).append(job)
    tenants = {tenant_id for tenant_id, count in counts.items() if count} | set(queues)
    share = max(1, slots // max(1, len(tenants)))
    used, used_within_shares = counts.total(), sum(min(count, share) for count in counts.values())
    order = [(counts[tenant_id], place, tenant_id) for place, tenant_id in enumerate(queues)]
    heapq.heapify(order)
    chosen: list[Job] = []
    while order:
        count, place, tenant_id = heapq.heappop(order)
        is_within_share = count < share and used_within_shares < slots
        if count >= per_tenant or not (used < slots or is_within_share):
            break  # every other tenant runs at least as many jobs
        chosen.append(queues[tenant_id].popleft())
        used += 1
        used_within_shares += count < share
        if queues[tenant_id]:
            heapq.heappush(order, (count + 1, place, tenant_id))
    return chosen
