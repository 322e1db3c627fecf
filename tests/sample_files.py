"""Small files of each kind that a message can carry."""

from base64 import b64decode, b64encode
from typing import Any

from headway.ledger.attachment import Attachment, build_attachment

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")  # one pixel
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n\xff%%EOF\n"
PNG_BASE64 = b64encode(PNG).decode()
PNG_URL = f"data:image/png;base64,{PNG_BASE64}"

PHOTO: Attachment = build_attachment("photo.png", PNG)
REPORT: Attachment = build_attachment("report.pdf", PDF)
NOTES: Attachment = build_attachment("notes.md", b"Zoe is from Graz.", "text/markdown")


def encode_attachment(name: str, data: bytes, media_type: str = "") -> dict[str, Any]:
    """An attachment as a client sends it."""
    return {"name": name, "media_type": media_type, "data": b64encode(data).decode()}
