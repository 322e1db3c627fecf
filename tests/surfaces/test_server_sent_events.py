"""Feed events as Server-Sent Events: the content of a frame, which is encoded once for all readers."""

from headway.feed import FeedEvent, build_ping
from headway.surfaces.http.server_sent_events import encode_events


def build_event(seq: int = 3) -> FeedEvent:
    return FeedEvent(seq, 7, None, "todo_changed", '{"a":"ü"}')


def test_an_event_is_named_and_numbered() -> None:
    assert encode_events([build_event()]) == 'id: 3\nevent: todo_changed\ndata: {"a":"ü"}\n\n'.encode()


def test_a_broadcast_has_no_number_that_a_reader_could_resume_after() -> None:
    broadcast = FeedEvent(3, 7, "t", "text_delta", "{}", is_broadcast=True)
    assert encode_events([broadcast]) == b"event: text_delta\ndata: {}\n\n"


def test_a_ping_carries_the_position() -> None:
    assert encode_events([build_ping(5)]) == b"id: 5\nevent: ping\ndata: {}\n\n"


def test_events_that_come_together_are_sent_together_and_in_order() -> None:
    assert encode_events([build_event(3), build_event(4), build_ping(4)]).count(b"\n\n") == 3
    assert encode_events([build_event(3), build_event(4)]) == encode_events([build_event(3)]) + encode_events([build_event(4)])
    assert encode_events([]) == b""


def test_the_bytes_of_an_event_are_built_once_however_many_read_it() -> None:
    event = build_event()
    assert encode_events([event]) is encode_events([event])
    assert event.encoded is encode_events([event])
