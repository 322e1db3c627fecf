"""Files that a message carries. The content decides what a file is: an image, a PDF or text. A declared type is only believed
where it cannot matter."""

import re
from binascii import a2b_base64
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headway.ledger.errors import BadAttachment
from headway.ledger.text import NAME_LIMIT, to_one_line

MAX_ATTACHMENTS: Final = 10  # per message
SIZE_LIMIT: Final = 10_000_000  # bytes of one file
TOTAL_LIMIT: Final = 20_000_000  # bytes of all files of a message
TEXT_LIMIT: Final = 400_000  # bytes of all text files of a message, because every model call sends them

PDF: Final = "application/pdf"
SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)
WEBP: Final = "image/webp"
BINARY_TYPES: Final = frozenset({WEBP, *(media_type for _, media_type in SIGNATURES)})
PLAIN_TEXT: Final = "text/plain"
MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")


class AttachmentInfo(NamedTuple):
    """An attachment without its content."""

    name: str
    media_type: str
    size: int

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


class Attachment(NamedTuple):
    name: str
    media_type: str
    data: bytes

    @property
    def is_text(self) -> bool:
        return self.media_type not in BINARY_TYPES

    @property
    def info(self) -> AttachmentInfo:
        return AttachmentInfo(self.name, self.media_type, len(self.data))


def build_attachment(name: str, data: bytes, declared_type: str = "") -> Attachment:
    """Build an attachment from untrusted parts. Raises BadAttachment unless the content is an image, a PDF or UTF-8 text."""
    name = clean_name(name)
    binary_type = detect_binary_type(data)
    if binary_type is None and not is_utf8_text(data):
        raise BadAttachment(f"{name!r} is neither an image (PNG, JPEG, GIF, WebP) nor a PDF nor text in UTF-8.")
    return Attachment(name, binary_type or clean_text_type(declared_type), data)


def decode_base64(text: str) -> bytes:
    """Decode standard base64 with its padding. Raises ValueError for anything else."""
    return a2b_base64(text, strict_mode=True)


def clean_name(name: str) -> str:
    """Return the last part of a path as one printable line, whatever the name contains."""
    line = to_one_line(re.split(r"[/\\]", name)[-1].encode(errors="replace").decode()).strip()
    return line[-NAME_LIMIT:] if line.strip(".") else "file"


def detect_binary_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WEBP
    return next((media_type for signature, media_type in SIGNATURES if data.startswith(signature)), None)


def is_utf8_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def clean_text_type(declared_type: str) -> str:
    """Return the declared type of a text file without its parameters, or text/plain if it cannot be right."""
    media_type = declared_type.partition(";")[0].strip().lower()
    return media_type if MEDIA_TYPE.fullmatch(media_type) and media_type not in BINARY_TYPES else PLAIN_TEXT


def check_attachments(attachments: Sequence[Attachment]) -> None:
    """Check the limits on the attachments of one message."""
    if len(attachments) > MAX_ATTACHMENTS:
        raise BadAttachment(f"A message can have at most {MAX_ATTACHMENTS} attachments, not {len(attachments)}.")
    for attachment in attachments:
        if len(attachment.data) > SIZE_LIMIT:
            raise BadAttachment(f"{attachment.name!r} has {len(attachment.data):,} bytes; at most {SIZE_LIMIT:,} are allowed.")
    total = sum(len(attachment.data) for attachment in attachments)
    if total > TOTAL_LIMIT:
        raise BadAttachment(f"The attachments have {total:,} bytes together; at most {TOTAL_LIMIT:,} are allowed.")
    text_size = sum(len(attachment.data) for attachment in attachments if attachment.is_text)
    if text_size > TEXT_LIMIT:
        raise BadAttachment(
            f"The text files have {text_size:,} bytes together; at most {TEXT_LIMIT:,} are allowed, because every model call sends "
            "them. Put larger files into the workspace: the agent can read them there."
        )
