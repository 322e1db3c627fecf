"""Reads files that are attached to a message."""

from mimetypes import guess_type
from pathlib import Path

from headway.ledger.attachment import SIZE_LIMIT, Attachment, build_attachment, clean_name
from headway.ledger.errors import BadAttachment


def read_attachment(path: Path) -> Attachment:
    """Read a file of the user. Raises BadAttachment if it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise BadAttachment(f"{clean_name(str(path))!r} cannot be read: {error.strerror or error}.") from None
    if len(data) > SIZE_LIMIT:
        raise BadAttachment(f"{clean_name(str(path))!r} is too large: at most {SIZE_LIMIT:,} bytes are allowed.")
    return build_attachment(path.name, data, guess_type(path.name)[0] or "")
