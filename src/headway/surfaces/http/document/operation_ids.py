"""Names the operations of the OpenAPI document. Generated clients call their functions by these names."""

import re
from typing import Any, Final

# What the rules below would name badly.
NAMES: Final = {
    "GET /v1/conversations/{conversation_id}/events": "stream_conversation_events",
    "GET /v1/events": "stream_events",
    "GET /metrics": "get_metrics",
    "GET /v1/audit": "list_audit_entries",
    "GET /v1/quotas": "get_quotas",
    "GET /v1/files/{file_id}/diff": "compare_file_versions",
    "DELETE /v1/halt": "end_halt",
    "DELETE /v1/policy/always/{approval_id}": "forget_always_rule",
    "GET /v1/schedule-preview": "preview_schedule",
    "GET /v1/todos/counts": "count_todos",
    "GET /v1/todos/ready": "list_ready_todos",
    "GET /v1/turns/{turn_id}/diff/{other}": "compare_turns",
    "GET /v1/turns/{turn_id}/events": "stream_turn_events",
    "GET /v1/ui-stream/{key}/stream": "resume_ui_stream",
    "POST /v1/ag-ui": "run_ag_ui",
    "POST /v1/agents/{run_id}/messages": "steer_agent",
    "POST /v1/approvals/{approval_id}": "decide_approval",
    "POST /v1/conversations/{conversation_id}/messages": "run_turn",
    "POST /v1/dead-jobs": "change_dead_jobs",
    "POST /v1/goals/{goal_id}/decision": "decide_goal",
    "POST /v1/goals/{goal_id}/run-again": "repeat_goal",
    "POST /v1/notices/done": "mark_notices",
    "POST /v1/questions/{question_id}": "answer_question",
    "POST /v1/todos/claim": "claim_todo",
    "POST /v1/tools/{name}": "call_tool",
    "POST /v1/turns/{turn_id}/messages": "steer_turn",
    "POST /v1/ui-stream": "stream_ui",
    "POST /v1/writs": "run_writs",
    "PUT /v1/costs": "set_cost_limit",
    "PUT /v1/halt": "halt_work",
}
VERBS: Final = {"GET": "get", "POST": "create", "PATCH": "change", "PUT": "put", "DELETE": "delete"}
OTHER_WORDS: Final = {"memory": "memory_entries"}
SAME_IN_PLURAL: Final = ("costs",)


def name_operations(paths: dict[str, Any]) -> None:
    """Set the id of each operation: `list_todos`, `get_todo`, `pause_goal`."""
    for path, operations in paths.items():
        for method, operation in operations.items():
            operation["operationId"] = name_operation(method.upper(), path)


def name_operation(method: str, path: str) -> str:
    """Name an operation after its method and the words of its path: `GET /v1/turns/{turn_id}/messages` is `list_turn_messages`."""
    if name := NAMES.get(f"{method} {path}"):
        return name
    parts = [part for part in path.split("/") if part and part != "v1"]
    words = [OTHER_WORDS.get(part, re.sub(r"\W", "_", part)) for part in parts if not part.startswith("{")]
    if words[0] == "why":
        return f"explain_{words[1]}"
    *owners, last = words
    owner = [to_singular(word) for word in owners]
    if parts[-1].startswith("{"):
        return "_".join([VERBS[method], *owner, to_singular(last)])
    if method == "POST" and owner and not is_plural(last):
        return "_".join([last, *owner])  # the last word is a verb: /goals/{goal_id}/pause
    if method == "POST":
        return "_".join([VERBS[method], *owner, to_singular(last)])
    verb = "list" if method == "GET" and is_plural(last) else VERBS[method]
    return "_".join([verb, *owner, last])


def is_plural(word: str) -> bool:
    return word.endswith("s") and word not in SAME_IN_PLURAL


def to_singular(word: str) -> str:
    return re.sub("ie$", "y", word[:-1]) if is_plural(word) else word
