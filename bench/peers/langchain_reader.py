"""LangChain's agent with its todo middleware reads files, over HTTP."""

import asyncio
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from bench.peers import stations
from bench.peers.answering import serve


def run(url: str, folder: str, steps: int) -> None:
    async def read_file(path: str) -> str:
        """Read a text file."""
        return Path(folder, path).read_text(encoding="utf-8")

    model = ChatOpenAI(model=stations.MODEL, base_url=url, api_key=SecretStr("none"))
    agent = create_agent(model, [read_file], middleware=[TodoListMiddleware()])
    request: Any = {"messages": [{"role": "user", "content": stations.write_request(steps)}]}
    asyncio.run(agent.ainvoke(request, {"recursion_limit": 10_000}))


serve(run=run)
