"""The parts of JSON-RPC that are needed before the MCP library is loaded."""

import json
from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603


def build_result(request_id: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def build_error(request_id: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def parse_message(text: bytes) -> tuple[dict[str, Any], None] | tuple[None, dict[str, Any]]:
    """Parse a line or a body. Return the message, or the error to answer with."""
    try:
        message = json.loads(text, parse_constant=refuse_constant)
        if b"\\u" in text:
            json.dumps(message, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError):
        return None, build_error(None, PARSE_ERROR, "The text is not JSON.")
    if isinstance(message, list):
        return None, build_error(None, INVALID_REQUEST, "Send one message at a time, not a batch.")
    if not isinstance(message, dict) or not is_message(message):
        return None, build_error(None, INVALID_REQUEST, "The text is not a JSON-RPC 2.0 message.")
    return message, None


def is_message(message: dict[str, Any]) -> bool:
    """Whether it is a request, a notification or an answer."""
    request_id = message.get("id", 0)
    has_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return (
        message.get("jsonrpc") == "2.0"
        and has_id
        and (isinstance(message.get("method"), str) or not message.keys().isdisjoint(("result", "error")))
    )


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
