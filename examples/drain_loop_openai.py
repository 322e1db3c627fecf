"""A plain OpenAI loop that plans in Headway and does not stop while its plan has open steps.

headway serve
HEADWAY_TOKEN=hw_… OPENAI_API_KEY=… python examples/drain_loop_openai.py "Plan a picnic for four"
"""

import json
import os
import sys
from typing import Any

import httpx
from openai import OpenAI

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
PLANNING = {"create_todo", "list_todo", "start_todo", "complete_todo"}
SYSTEM = "Plan work with several steps with create_todo, end each step with complete_todo, and answer when no step is open."
STEPS = 50

if missing := [name for name in ("HEADWAY_TOKEN", "OPENAI_API_KEY") if not os.environ.get(name)]:
    sys.exit(f"Set {' and '.join(missing)}: `headway token add` prints a token, and the loop calls OpenAI or OPENAI_BASE_URL.")

headway = httpx.Client(
    base_url=os.environ.get("HEADWAY_URL", "http://127.0.0.1:8484"),
    headers={"Authorization": f"Bearer {os.environ['HEADWAY_TOKEN']}"},
    timeout=60,
)


def call_headway(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    return headway.request(method, f"/v1{path}", json=body).raise_for_status().json()


def main(request: str) -> None:
    tools: list[Any] = [
        {
            "type": "function",
            "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]},
        }
        for tool in call_headway("GET", "/tools")["tools"]
        if tool["name"] in PLANNING
    ]
    conversation = call_headway("POST", "/conversations", {"title": request[:80]})["conversation"]
    turn = call_headway("POST", "/turns", {"conversation_id": conversation["id"]})["turn"]
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": request}]
    client = OpenAI()
    for _ in range(STEPS):
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=tools).choices[0].message
        messages.append(answer.model_dump(exclude_none=True))
        for call in answer.tool_calls or []:
            assert call.type == "function"
            # The turn and conversation come from this program, never from the model.
            body = {"arguments": json.loads(call.function.arguments), "turn_id": turn["id"], "conversation_id": conversation["id"]}
            result = call_headway("POST", f"/tools/{call.function.name}", body)["result"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
        if answer.tool_calls:
            continue
        unfinished = call_headway("GET", f"/turns/{turn['id']}")["turn"]["incomplete"]
        if not unfinished:
            print(answer.content)
            return
        titles = ", ".join(item["title"] for item in unfinished)
        messages.append(
            {"role": "user", "content": f"Not finished. These steps are still open: {titles}. Do them, or cancel them."}
        )
    sys.exit(f"Not finished after {STEPS} model calls.")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "Plan a picnic for four, then write the shopping list")
