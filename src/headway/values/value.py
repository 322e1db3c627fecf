"""The base of all values, and their decoding from JSON documents."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

SCHEMA_KEY, OMITTED_KEY = "x-schema", "x-omitted"  # for the builder of the OpenAPI document
SHOWN_CHARACTERS: Final = 80  # of a text, when a value is printed
Convert = Callable[[Any], Any]


class Meaning:
    """Says what a field means, in the OpenAPI document: `Annotated[int, Meaning("0: there is no plan yet")]`."""

    def __init__(
        self, text: str = "", *, schema: str = "", is_omitted: bool = False, may_be_null: bool = False, has_fraction: bool = False
    ) -> None:
        self.text = text
        self.schema = schema  # the name of the schema of a field that is a plain mapping here
        self.may_be_null = may_be_null  # for a time: null instead of 0 if there is none
        self.has_fraction = has_fraction  # for a time: it is more exact than a second
        self.is_omitted = is_omitted  # whether answers leave the field out where it does not apply

    def __get_pydantic_json_schema__(self, core_schema: Any, describe: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        described = {SCHEMA_KEY: self.schema} if self.schema else describe(core_schema)
        if self.may_be_null:
            described = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
        if self.has_fraction:
            described = {"type": "number"}
        return described | ({"description": self.text} if self.text else {}) | ({OMITTED_KEY: True} if self.is_omitted else {})


class Value:
    """A frozen value, which the library returns and REST answers with. It prints only the fields that say something."""

    __slots__ = ()

    def __repr__(self) -> str:
        values = ((field, getattr(self, field.name)) for field in fields(self) if field.repr)  # type: ignore[arg-type]  # all are dataclasses
        shown = (f"{field.name}={shorten(value)}" for field, value in values if value is not None and value != field.default)
        return f"{type(self).__name__}({', '.join(shown)})"


def shorten(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and len(value) > SHOWN_CHARACTERS:
        return repr(f"{value[:SHOWN_CHARACTERS]}…")
    return repr(value)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list. It can be iterated, indexed and measured like one. `next_cursor` asks for the next part; None: it is the
    last."""

    items: tuple[T, ...]
    next_cursor: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> T:
        return self.items[index]


def decode(kind: type[T], document: Mapping[str, Any]) -> T:
    """Decode a JSON object. Members that the class does not have are ignored, because a newer server may send more."""
    return kind(**{name: convert(document[name]) for name, convert in list_converters(cast("Hashable", kind)) if name in document})


def decode_page(kind: type[T], document: Mapping[str, Any], member: str) -> Page[T]:
    return Page(decode_all(kind, document[member]), document.get("next_cursor"))


def decode_all(kind: type[T], documents: Any) -> tuple[T, ...]:
    return tuple(decode(kind, document) for document in documents)


@cache
def list_converters(kind: Any) -> tuple[tuple[str, Convert], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, build_converter(hints[field.name])) for field in fields(kind))


def build_converter(hint: Any) -> Convert:
    """Return the function that converts a member to the type of its field. Times are epoch seconds; 0: not yet."""
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        inner, *others = sorted((option for option in get_args(hint) if option is not NoneType), key=is_value, reverse=True)
        if others:  # a text, or an object
            return lambda value: decode(inner, value) if isinstance(value, Mapping) else value
        if inner is datetime:
            return lambda value: to_time(value) if value else None
        convert = build_converter(inner)
        return lambda value: None if value is None else convert(value)
    if hint is datetime:
        return to_time
    if get_origin(hint) is tuple:
        convert = build_converter(get_args(hint)[0])
        return lambda value: tuple(map(convert, value))
    if is_value(hint):
        return lambda value: decode(hint, value)
    return lambda value: value


def is_value(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Value)


def to_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
