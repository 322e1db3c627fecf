"""Events have the data that values/events.py declares. The fixtures of databases check all that a test leaves in the log."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import jsonschema_rs


@cache
def build_validators() -> dict[str, jsonschema_rs.Validator]:
    """Return a validator for the data of each kind, which accepts no other members than the declared ones."""
    # Many tests write no events, and the web stack takes a second to load.
    from headway.agents.instructions.roles import Roles  # noqa: PLC0415
    from headway.surfaces.http.app import list_routes  # noqa: PLC0415
    from headway.surfaces.http.openapi import build_openapi, list_events  # noqa: PLC0415

    components = close(build_openapi(list_routes(), Roles().by_name)["components"])
    return {
        event.kind: jsonschema_rs.Draft202012Validator(
            {"$ref": f"#/components/schemas/{event.data.__name__}", "components": components}
        )
        for event in list_events()
    }


def close(part: Any) -> Any:
    if isinstance(part, list):
        return [close(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {name: close(value) for name, value in part.items()}
    return {"additionalProperties": False} | closed if isinstance(part.get("properties"), Mapping) else closed


def find_undeclared(events: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each kind of event whose data is not as declared."""
    faults: dict[str, str] = {}
    for kind, data in events:
        for fault in build_validators()[kind].iter_errors(json.loads(data)):
            place = "/".join(map(str, fault.instance_path))
            faults.setdefault(kind, f"{kind}: {place} {fault.message[:300]} in {data[:600]}")
    return [*faults.values()]
