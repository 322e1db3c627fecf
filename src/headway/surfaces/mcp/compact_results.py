"""The results of tools for MCP clients: the fields that REST gives, without those that say nothing."""

from typing import Any, Final

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
