"""Null for an optional field means that the field is absent. Null still clears fields that are nullable."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from headway.operations import front_ends, goals, operators, schedules, turns
from headway.operations import todos as todo_schemas
from headway.operations.fields import NullIsAbsent
from tests.surfaces.server_harness import Client

MODULES = (todo_schemas, todo_schemas, turns, schedules, front_ends, goals, operators)
BODIES = {
    model.__name__: model
    for module in MODULES
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, NullIsAbsent) and model.model_fields
}


def list_fields_that_refuse_null(body: type[BaseModel]) -> Iterator[str]:
    optional = {name: field.get_default() for name, field in body.model_fields.items() if not field.is_required()}
    properties = body.model_json_schema().get("properties", {})
    for name, default in optional.items():
        try:
            parsed = TypeAdapter(body.model_fields[name].rebuild_annotation()).validate_python(None, strict=True)
        except ValidationError:
            parsed = "refused"
        # `Any`, and types left out of the document on purpose, have no `anyOf`.
        kinds = properties[body.model_fields[name].alias or name].get("anyOf", [{"type": "null"}])
        if parsed != default or {"type": "null"} not in kinds:
            yield name


def test_every_optional_field_may_be_null() -> None:
    """000: optional fields are marked "?"; null for one means that it is absent, on every surface."""
    assert len(BODIES) > 30
    assert [(name, field) for name, body in BODIES.items() for field in list_fields_that_refuse_null(body)] == []


def test_a_todo_with_nulls_is_one_without_those_fields(client: Client) -> None:
    """000: "context?: string", "order?: number"."""
    names = ("description", "completion_criteria", "agent_type", "agent_id", "conversation_id", "turn_id", "status", "position")
    plain = client.ok("POST", "/v1/todos", 201, json={"subject": "plain"})["todo"]
    nulls: dict[str, Any] = dict.fromkeys((*names, "depends_on"))
    todo = client.ok("POST", "/v1/todos", 201, json={"subject": "nulls", **nulls})["todo"]

    different = ("id", "subject", "position", "created_at", "updated_at")
    assert {k: v for k, v in todo.items() if k not in different} == {k: v for k, v in plain.items() if k not in different}


def test_null_still_clears_nullable_fields(client: Client) -> None:
    todo = client.ok("POST", "/v1/todos", 201, json={"subject": "look", "description": "closely", "agent_type": "coder"})["todo"]
    change = {"agent_type": None, "description": None, "force": None}
    changed = client.ok("PATCH", f"/v1/todos/{todo['id']}", json=change)["todo"]

    assert (changed["agent_type"], changed["description"]) == (None, "closely")


def test_a_tool_call_with_nulls_is_one_without_those_fields(client: Client) -> None:
    body = {"arguments": {"limit": None}, "conversation_id": None, "turn_id": None, "agent_id": None, "role": None}
    assert client.ok("POST", "/v1/tools/todo_ready", json=body) == {"result": {"todos": []}, "is_error": False}
    assert client.ok("POST", "/v1/tools/todo_ready", json={"arguments": None})["is_error"] is False


def test_null_for_a_required_field_is_refused_by_its_name(client: Client) -> None:
    assert "subject" in client.refused("POST", "/v1/todos", 422, "invalid", json={"subject": None})
