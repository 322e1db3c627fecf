"""What a message can carry: kinds of files, names and limits."""

import pytest

from headway.agents.transcripts.transcript import estimate_attachment_tokens
from headway.ledger.attachment import (
    MAX_ATTACHMENTS,
    SIZE_LIMIT,
    TEXT_LIMIT,
    TOTAL_LIMIT,
    Attachment,
    build_attachment,
    check_attachments,
)
from headway.ledger.errors import BadAttachment
from tests.sample_files import PDF, PNG
from tests.tables import each_row


@each_row(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF87arest", "image/gif"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (PDF, "application/pdf"),
    ],
)
@each_row("declared", ["", "text/html", "application/octet-stream", "image/bmp"])
def test_the_content_decides_what_an_image_is(data: bytes, media_type: str, declared: str) -> None:
    attachment = build_attachment("file", data, declared)
    assert (attachment.media_type, attachment.is_text) == (media_type, False)


@each_row(
    ("declared", "media_type"),
    [
        ("text/csv", "text/csv"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("image/svg+xml", "image/svg+xml"),
        ("", "text/plain"),
        ("nonsense", "text/plain"),
        ("image/png", "text/plain"),
        ("application/pdf", "text/plain"),
        ("text/html\r\nSet-Cookie: a=b", "text/plain"),
        ("text/" + "x" * 200, "text/plain"),
    ],
)
def test_text_keeps_a_type_that_can_be_right(declared: str, media_type: str) -> None:
    attachment = build_attachment("file", "žluťoučký".encode(), declared)
    assert (attachment.media_type, attachment.is_text) == (media_type, True)


@each_row("data", [b"\0", b"text\0text", b"\xff\xfe\x41\x00", b"PK\x03\x04\x14\x00", b"ID3\x04\x00", b"caf\xe9"])
@each_row("declared", ["", "text/plain", "image/png", "audio/mpeg"])
def test_anything_else_is_refused(data: bytes, declared: str) -> None:
    with pytest.raises(BadAttachment, match="'song' is neither an image"):
        build_attachment("song", data, declared)


@each_row(
    ("name", "stored"),
    [
        ("photo.png", "photo.png"),
        ("/home/zoe/photo.png", "photo.png"),
        (r"C:\Users\zoe\photo.png", "photo.png"),
        ("../../etc/passwd", "passwd"),
        ("..", "file"),
        ("", "file"),
        (" \t ", "file"),
        ("a/", "file"),
        ("two\r\nlines", "two  lines"),
        ("nul\0here", "nul\ufffdhere"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("\udcff.txt", "?.txt"),
        ("žluťoučký kůň.txt", "žluťoučký kůň.txt"),
        ("x" * 1_000 + ".txt", "x" * 196 + ".txt"),
    ],
)
def test_a_name_becomes_one_printable_line_without_a_path(name: str, stored: str) -> None:
    assert build_attachment(name, b"text").name == stored


def test_the_limits_on_a_message() -> None:
    image = Attachment("a.png", "image/png", PNG)
    check_attachments([image] * MAX_ATTACHMENTS)
    with pytest.raises(BadAttachment, match="at most 10 attachments, not 11"):
        check_attachments([image] * (MAX_ATTACHMENTS + 1))

    largest = Attachment("a.png", "image/png", b"x" * SIZE_LIMIT)
    check_attachments([largest] * (TOTAL_LIMIT // SIZE_LIMIT))
    with pytest.raises(BadAttachment, match=r"'a.png' has 10,000,001 bytes; at most 10,000,000"):
        check_attachments([largest._replace(data=b"x" * (SIZE_LIMIT + 1))])
    with pytest.raises(BadAttachment, match="bytes together; at most 20,000,000"):
        check_attachments([largest, largest, image])

    half = Attachment("a.txt", "text/plain", b"x" * (TEXT_LIMIT // 2))
    check_attachments([half, half])
    with pytest.raises(BadAttachment, match="Put larger files into the workspace"):
        check_attachments([half, half, half])


def test_the_estimate_of_tokens() -> None:
    assert estimate_attachment_tokens("image/png", 5_000_000) == 1_500
    assert estimate_attachment_tokens("application/pdf", 1_000_000) == 11_500
    assert estimate_attachment_tokens("text/csv", 3_000) == 1_001
