"""The overhead of an iteration of the agent loop: plan, journal, gates and events, with models that answer at once.

Every side does the same work (peers/errand.py). Headway journals every step durably, as does the reference of `loop.*.durable`.
The other references keep everything in memory.
"""

import asyncio
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

from bench.harness import Measurements, Pace, Workshop, at_most, benchmark, growing, in_turns, progress
from bench.peer import LANGCHAIN, PYDANTIC_AI, Peer
from bench.peers.errand import REQUEST, call, milliseconds
from headway.actions.access import local_tenant
from headway.actions.todos import conversations
from tests.running_turns import run_turn

FEW, MANY = 10, 50
ROUNDS = 9
LENGTHS = (10, 100, 1_000)  # messages in a transcript; an iteration adds two
WIDTH = 4  # iterations measured on either side of a length
AT_ONCE = (1, 8, 64)
WORKLOAD = "ms each: a trivial tool, a list of five todos, journal on"
PYDANTIC = "pydantic-ai's Agent, in memory"
MIDDLEWARE = "LangChain's agent with its todo middleware, in memory"
FIRST_TURNS = """
from bench.agent_loop import FEW, Ours
from bench.harness import open_workshop

with open_workshop() as shop:
    ours = Ours(shop)
    print(ours.round(FEW), ours.round(FEW))
"""
CHECKPOINTED = "the same agent with LangGraph's AsyncSqliteSaver, durability=sync"


class Ours:
    """One Headway for all rounds. Every round runs its turns in new conversations."""

    def __init__(self, shop: Workshop, name: str = "loop", url: str | None = None) -> None:
        from headway.testing import scripted_model, temporary_headway

        self.iterations = FEW
        self.call_times: list[float] = []  # the times of the model calls
        self.loop = asyncio.new_event_loop()
        shop.cleanup.callback(self.loop.close)
        limit = str(max(LENGTHS) // 2 + 2 * WIDTH)
        settings: dict[str, Any] = {"database_url": url} if url else {}
        model = scripted_model(self.answer)
        self.context = temporary_headway(
            shop.folder / name, model, max_iterations=limit, max_iterations_with_plan=limit, **settings
        )
        self.headway = self.loop.run_until_complete(self.context.__aenter__())
        shop.cleanup.callback(lambda: self.loop.run_until_complete(self.context.__aexit__(None, None, None)))
        self.tenant = self.loop.run_until_complete(self.headway.database.write(local_tenant.ensure_local))

    def answer(self, messages: Any) -> Any:
        """Return the next scripted answer. The number of the last call is in its id, because several turns may run at once."""
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        self.call_times.append(time.perf_counter())
        calls = (message.tool_calls for message in reversed(messages) if isinstance(message, ModelResponse))
        done = next((int(tool_calls[0].tool_call_id.removeprefix("call_")) for tool_calls in calls), 0)
        if done >= self.iterations:
            return ModelResponse([TextPart("All done.")], finish_reason="stop")
        tool, arguments = call(done, self.iterations)
        return ModelResponse([ToolCallPart(tool, arguments, f"call_{done + 1}")], finish_reason="tool_call")

    def round(self, iterations: int, at_once: int = 1) -> float:
        """Run so many turns at once and return the milliseconds per iteration."""
        self.iterations = iterations
        self.call_times.clear()
        conversation_ids = [self.loop.run_until_complete(self.conversation()) for _ in range(at_once)]
        return milliseconds((iterations + 1) * at_once, lambda: self.loop.run_until_complete(self.turns(conversation_ids)))

    async def conversation(self) -> int:
        conversation = await self.headway.database.of(self.tenant.id).write(
            partial(conversations.add_conversation, tenant_id=self.tenant.id)
        )
        return conversation.id

    async def turns(self, conversation_ids: list[int]) -> None:
        for report in await asyncio.gather(
            *(run_turn(self.headway, self.tenant.id, conversation_id, REQUEST) for conversation_id in conversation_ids)
        ):
            assert report["outcome"] == "drained", report

    def long_turn(self) -> dict[int, float]:
        """Return the milliseconds between two model calls, by the length of the transcript."""
        self.round(max(LENGTHS) // 2 + WIDTH)
        waits = [1000 * (later - earlier) for earlier, later in pairwise(self.call_times)]
        return {length: median(waits[max(1, length // 2 - WIDTH) : length // 2 + WIDTH]) for length in LENGTHS}


def against(shop: Workshop, peer: "partial[Peer]", iterations: int) -> Measurements:
    theirs, ours = shop.once(peer), shop.once(Ours)
    return in_turns(lambda: ours.round(iterations), lambda: float(theirs.ask("turn", iterations=iterations)), ROUNDS, unit="ms")


def against_durable(shop: Workshop, iterations: int) -> Measurements:
    theirs, ours = shop.once(LANGCHAIN), shop.once(Ours)
    their_turn = partial(theirs.ask, "durable_turn", iterations=iterations, path=str(shop.folder / "langgraph.db"))
    return in_turns(lambda: ours.round(iterations), lambda: float(their_turn()), ROUNDS, unit="ms")


@benchmark("loop.10.durable", f"10 iterations, {WORKLOAD}", CHECKPOINTED, at_most(0.5))
def few_against_durable(shop: Workshop) -> Measurements:
    return against_durable(shop, FEW)


@benchmark("loop.50.durable", f"50 iterations, {WORKLOAD}", CHECKPOINTED, at_most(0.35))
def many_against_durable(shop: Workshop) -> Measurements:
    return against_durable(shop, MANY)


@benchmark("loop.10.pydantic", f"10 iterations, {WORKLOAD}", PYDANTIC, at_most(1))
def few_against_pydantic(shop: Workshop) -> Measurements:
    return against(shop, PYDANTIC_AI, FEW)


@benchmark("loop.50.pydantic", f"50 iterations, {WORKLOAD}", PYDANTIC, at_most(1))
def many_against_pydantic(shop: Workshop) -> Measurements:
    return against(shop, PYDANTIC_AI, MANY)


@benchmark("loop.10.langchain", f"10 iterations, {WORKLOAD}", MIDDLEWARE, at_most(1))
def few_against_langchain(shop: Workshop) -> Measurements:
    return against(shop, LANGCHAIN, FEW)


@benchmark("loop.50.langchain", f"50 iterations, {WORKLOAD}", MIDDLEWARE, at_most(1))
def many_against_langchain(shop: Workshop) -> Measurements:
    return against(shop, LANGCHAIN, MANY)


@benchmark("loop.first.turn", "from a request to its first model call", "a later iteration", None)
def first_of_turn(shop: Workshop) -> Measurements:
    ours = shop.once(Ours)
    waits: list[tuple[float, float]] = []
    for _ in range(Pace.rounds(ROUNDS)):
        begin = time.perf_counter()
        ours.round(FEW)
        first, *later = [1000 * (end - start) for start, end in pairwise([begin, *ours.call_times])]
        waits.append((first, median(later)))
    return Measurements([first for first, _ in waits], [later for _, later in waits], "ms")


@benchmark("loop.first.process", "10 iterations, ms each, in the first turn of a process", "in its second turn", None)
def first_of_process(_shop: Workshop) -> Measurements:
    measurements = Measurements([], [], "ms")
    for _ in range(Pace.rounds(5)):
        done = subprocess.run([sys.executable, "-c", FIRST_TURNS], capture_output=True, text=True, check=True)
        first, second = map(float, done.stdout.split())
        measurements.ours.append(first)
        measurements.reference.append(second)
    return measurements


@benchmark("loop.flat", "ms per iteration in a turn of 50", "in a turn of 10", at_most(1.15))
def flat(shop: Workshop) -> Measurements:
    ours = shop.once(Ours)
    return in_turns(lambda: ours.round(MANY), lambda: ours.round(FEW), ROUNDS, unit="ms")


@benchmark("loop.growth.transcript", "an iteration when the transcript has 1,000 messages", "when it has 10", at_most(1.4))
def growth_of_transcript(shop: Workshop) -> Measurements:
    ours = shop.once(Ours)
    curve: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for number in range(Pace.rounds(ROUNDS)):
        progress(f"turn {number + 1} of {ROUNDS}")
        for length, wait in ours.long_turn().items():
            curve[length].append(wait)
    return Measurements(curve[LENGTHS[-1]], curve[LENGTHS[0]], "ms", curve)


@benchmark("loop.growth.turns", "an iteration when 64 turns are at work, wall time ÷ iterations", "when one is", at_most(1.15))
def growth_of_turns(shop: Workshop) -> Measurements:
    ours = shop.once(Ours)
    return growing({turns: partial(ours.round, FEW, turns) for turns in AT_ONCE}, ROUNDS, "ms")
