"""deepagents reads files with its own tools, over HTTP. It has no todo tool unless LangChain's todo middleware is added."""

import asyncio
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from langchain.agents.middleware import TodoListMiddleware
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from bench.peers import stations
from bench.peers.answering import serve


def run(url: str, folder: str, steps: int) -> None:
    model = ChatOpenAI(model=stations.MODEL, base_url=url, api_key=SecretStr("none"), use_responses_api=False)
    backend = FilesystemBackend(root_dir=folder, virtual_mode=True)
    agent = create_deep_agent(model, backend=backend, middleware=[TodoListMiddleware()])
    request: Any = {"messages": [{"role": "user", "content": stations.write_request(steps)}]}
    asyncio.run(agent.ainvoke(request, {"recursion_limit": 10_000}))


serve(run=run)
