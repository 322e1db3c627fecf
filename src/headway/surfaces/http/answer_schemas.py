"""Describes values as REST writes them, for the OpenAPI document."""

from collections.abc import Iterable
from dataclasses import make_dataclass
from functools import reduce
from operator import or_
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from headway.operations.operation import AnswerShape, Choice, Shape
from headway.values.value import OMITTED_KEY, SCHEMA_KEY


class AnswerSchema(GenerateJsonSchema):
    """The schema of a value: every field is there unless it is marked, and times are epoch seconds."""

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return {"type": "integer"}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        if schema["schema"]["type"] == "datetime":
            return {"type": "integer", "description": "Epoch seconds; 0: not yet"}
        return super().nullable_schema(schema)

    def dataclass_field_schema(self, schema: core_schema.DataclassField) -> JsonSchemaValue:
        inner = schema["schema"]
        return self.generate_inner(inner["schema"] if inner["type"] == "default" else inner)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        described = super().dataclass_schema(schema)
        fields = described.get("properties", {}).items()
        return {**described, "required": [name for name, field in fields if not field.pop(OMITTED_KEY, False)]}


def describe_shapes(shapes: Iterable[Shape], ref_template: str) -> dict[str, Any]:
    """Return the schemas of bodies and answers, and of everything in them, by name."""
    kinds: dict[str, Any] = {}
    for shape in shapes:
        add_kind(kinds, shape)
    mode: JsonSchemaMode = "validation"
    inputs = [(name, mode, TypeAdapter(kind)) for name, kind in kinds.items()]
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template=ref_template, schema_generator=AnswerSchema)
    choices = {name: found[name, mode] for name, kind in kinds.items() if not isinstance(kind, type)}
    described: dict[str, Any] = replace_references({**definitions["$defs"], **choices}, ref_template)
    return described


def add_kind(kinds: dict[str, Any], shape: Shape) -> Any:
    """Add the type of a shape, by its name, and return it."""
    if isinstance(shape, type):
        return kinds.setdefault(shape.__name__, shape)
    if isinstance(shape, AnswerShape):
        kind = kinds.setdefault(shape.name, make_dataclass(shape.name, shape.members.items()))
        assert [*kind.__annotations__.items()] == [*shape.members.items()], f"two answers are called {shape.name}"
        return kind
    assert isinstance(shape, Choice)
    return kinds.setdefault(shape.name, reduce(or_, [add_kind(kinds, option) for option in shape.options]))


def replace_references(part: Any, ref_template: str) -> Any:
    """Refer to the schemas that fields name."""
    if isinstance(part, list):
        return [replace_references(item, ref_template) for item in part]
    if not isinstance(part, dict):
        return part
    named = {"$ref": ref_template.format(model=part[SCHEMA_KEY])} if SCHEMA_KEY in part else {}
    return named | {key: replace_references(value, ref_template) for key, value in part.items() if key != SCHEMA_KEY}
