"""Shows an answer while it is written, and what it cost.

python examples/stream_answer.py "Calculate 12*7, then write the result to notes.txt"
"""

import asyncio
import sys

from headway import Headway


async def main(request: str) -> None:
    async with Headway.open() as headway:
        stream = headway.ask_stream(request)
        async for event in stream:
            if event.kind == "tool_call":
                print(f"[{event.data['tool']}]")
            print(event.text, end="", flush=True)
        report = await stream.report()
    print(f"\n{report.outcome}: {len(report.todos)} todos, {report.usage.total_tokens} tokens, ${report.cost_usd:.4f}")


asyncio.run(main(" ".join(sys.argv[1:]) or "Calculate 12*7, then write the result to notes.txt"))
