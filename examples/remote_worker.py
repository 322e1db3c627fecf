"""A worker that takes todos from a server, one after the other, until none is ready.

headway serve
HEADWAY_TOKEN=hw_… python examples/remote_worker.py
"""

import asyncio
import os
import sys

import headway


async def work_off(client: headway.Client, agent: str) -> None:
    """Claim todos and complete them. It takes any client: one of a server, or a Headway inside the program."""
    while claim := await client.todos.claim(agent, lease_s=300):
        print(f"{agent} works on #{claim.todo.id}: {claim.todo.subject}")
        await client.todos.complete(claim.todo.id, f"done by {agent}", lease_token=claim.lease.token)


async def main() -> None:
    if not (token := os.environ.get("HEADWAY_TOKEN")):
        sys.exit("Set HEADWAY_TOKEN: `headway token add` prints one.")
    async with headway.connect(os.environ.get("HEADWAY_URL", "http://127.0.0.1:8484"), token) as client:
        await work_off(client, "ada")


asyncio.run(main())
