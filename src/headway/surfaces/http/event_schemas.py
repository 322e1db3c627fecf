"""The schemas of events, for the OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, get_args

from headway.actions.history.timeline import TIMELINE_KINDS
from headway.feed import TENANT_MOVED
from headway.values.events import CHANGED_STATES, TenantMovedData, TypedEvent

TIMELINE_ENTRY: Final = "TimelineEntry"
STREAMED_EVENT: Final = "StreamedEvent"
KINDS_WITHOUT_NUMBER: Final = ("text_delta", TENANT_MOVED)
NUMBER: Final = {"type": "integer", "description": "The number of the event in the log, or of the last one before it"}
STREAM: Final[dict[str, Any]] = {
    "type": "string",
    "contentMediaType": "text/event-stream",
    "description": "Server-Sent Events. Each has the fields of `contentSchema`",
}


class DeclaredEvent(NamedTuple):
    kind: str
    data: type[Any]

    @property
    def meaning(self) -> str:
        return " ".join((self.data.__doc__ or "").split())

    @property
    def has_number(self) -> bool:
        """Whether a client can continue its stream after this event."""
        return self.kind not in KINDS_WITHOUT_NUMBER


def list_events() -> Iterator[DeclaredEvent]:
    """List the events that streams have, with the types of their data."""
    for declared in get_args(TypedEvent):
        kind, data = get_args(declared)
        yield DeclaredEvent(get_args(kind)[0], data)
    yield DeclaredEvent(TENANT_MOVED, TenantMovedData)  # the library raises WrongCell instead


def list_event_data() -> list[type[Any]]:
    return [event.data for event in list_events()]


def describe_events(schemas: Mapping[str, Any], ref_template: str) -> dict[str, Any]:
    """Return the schemas of events in streams and lists, and of the states in them. `schemas` has the data and the whole states."""
    described = {
        name: {**schemas[whole], "required": [field for field in schemas[whole]["required"] if field not in lacking]}
        for name, (whole, lacking) in CHANGED_STATES.items()
    }
    streamed = {event.kind: describe_streamed(event, ref_template) for event in list_events()}
    described |= build_choice(STREAMED_EVENT, "event", streamed, ref_template)
    entries = {event.kind: describe_entry(event, ref_template) for event in list_events() if event.kind in TIMELINE_KINDS}
    return described | build_choice(TIMELINE_ENTRY, "kind", entries, ref_template)


def build_choice(name: str, tag: str, options: Mapping[str, Any], ref_template: str) -> dict[str, Any]:
    """Return the schemas of the options and of their union."""
    names = {kind: name_of(kind) + name for kind in options}
    references = {kind: ref_template.format(model=option) for kind, option in names.items()}
    union = {
        "oneOf": [{"$ref": reference} for reference in references.values()],
        "discriminator": {"propertyName": tag, "mapping": references},
    }
    return {name: union} | {names[kind]: option for kind, option in options.items()}


def describe_streamed(event: DeclaredEvent, ref_template: str) -> dict[str, Any]:
    data = {"$ref": ref_template.format(model=event.data.__name__)}
    number = {"id": NUMBER} if event.has_number else {}
    return build_object({**number, "event": {"type": "string", "const": event.kind}, "data": data}, event.meaning)


def describe_entry(event: DeclaredEvent, ref_template: str) -> dict[str, Any]:
    data = {"$ref": ref_template.format(model=event.data.__name__)}
    fields = {"seq": NUMBER, "kind": {"type": "string", "const": event.kind}, "data": data, "at": {"type": "integer"}}
    return build_object(fields, event.meaning)


def build_object(fields: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": fields, "required": [*fields]}


def name_of(kind: str) -> str:
    """Return the name of a kind in the names of schemas: `todo_changed` is TodoChanged."""
    return kind.title().replace("_", "")


def build_stream_schema(ref_template: str) -> dict[str, Any]:
    """Return the schema of a stream of events."""
    return {**STREAM, "contentSchema": {"$ref": ref_template.format(model=STREAMED_EVENT)}}
