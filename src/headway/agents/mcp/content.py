"""Results of MCP tools as text for a model, with the images that it may also look at."""

import json
from typing import Final, NamedTuple

from mcp import types

from headway.agents.tools.toolbox import ToolImage

IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
IMAGES_LIMIT: Final = 4_000_000  # characters of base64 in one result


class ToolOutput(NamedTuple):
    text: str
    images: tuple[ToolImage, ...] = ()


def to_output(result: types.CallToolResult) -> ToolOutput:
    """Convert a result. Structured content is used where the server sends no text."""
    images: list[ToolImage] = []
    texts = [render_block(block, images) for block in result.content]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return ToolOutput("\n".join(filter(None, texts)), tuple(images))


def render_block(block: types.ContentBlock, images: list[ToolImage]) -> str:
    match block:
        case types.TextContent(text=text):
            return text
        case types.ImageContent(data=data, mime_type=media_type):
            return render_binary(media_type, data, images)
        case types.AudioContent(data=data, mime_type=media_type):
            return f"[{media_type}, {count_bytes(data):,} bytes: not shown]"
        case types.ResourceLink(uri=uri, name=name):
            return f"[resource {name}: {uri}]"
        case types.EmbeddedResource(resource=types.TextResourceContents(text=text)):
            return text
        case types.EmbeddedResource(resource=types.BlobResourceContents(blob=data, mime_type=media_type, uri=uri)):
            return f"[resource {uri}]\n{render_binary(media_type or 'application/octet-stream', data, images)}"
    return ""


def render_binary(media_type: str, data: str, images: list[ToolImage]) -> str:
    size = f"{media_type}, {count_bytes(data):,} bytes"
    if media_type not in IMAGE_TYPES or sum(len(image.data) for image in images) + len(data) > IMAGES_LIMIT:
        return f"[{size}: not shown]"
    images.append(ToolImage(media_type, data))
    return f"[image {len(images)}: {size}]"


def count_bytes(data: str) -> int:
    """Return the size of base64 data when it is decoded."""
    return len(data) * 3 // 4 - data.count("=", -2)
