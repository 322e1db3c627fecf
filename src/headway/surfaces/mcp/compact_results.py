"""The results of tools for MCP clients: the fields that REST gives, without those that say nothing."""

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headway.agents.tools.toolbox import Result

# Lists are in order, and a model has no use for the rest.
UNNEEDED_FIELDS: Final = frozenset(("position", "priority", "turn_id", "updated_at"))
NO_PROOF: Final = ("proof", "none")
VERBATIM: Final = "checks"  # a zero in a check was written by somebody


def compact_result(result: dict[str, Any]) -> dict[str, Any]:
    """Leave out nulls, zeros and empty texts. The result's own lists and numbers stay: an empty list says that there is nothing."""
    return {
        name: compact_value(value)
        for name, value in result.items()
        if value is not None and value != "" and name not in UNNEEDED_FIELDS
    }


def compact_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [compact_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {
        name: member if name == VERBATIM else compact_value(member) for name, member in value.items() if name not in UNNEEDED_FIELDS
    }
    return {name: member for name, member in fields.items() if (member or member is False) and (name, member) != NO_PROOF}


def build_call_result(result: "Result") -> dict[str, Any]:
    """Return a tool's result as structured content and as text, for clients that read only text."""
    value = compact_result(result.value) if isinstance(result.value, dict) else None
    text = result.as_text if value is None else encode_text(value)
    structured = {} if value is None else {"structuredContent": value}
    return {"content": [{"text": text, "type": "text"}], "isError": result.is_error, **structured}


def encode_text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
