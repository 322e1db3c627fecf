"""A turn's attachments in the message that opens its run: text files as text, images and PDFs as content for models that read them.

The transcript stores the message without them. They are added when it is loaded, always in the same form, so that the request
stays the same from step to step.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, UserContent, UserPromptPart
from pydantic_ai.models import Model

from headway.ledger.attachment import BINARY_TYPES, PDF, Attachment
from headway.ledger.errors import AttachmentRefused
from headway.ledger.framing import escape_frames, format_frame, format_inline

FRAME = "ATTACHED FILE"
IMAGE_TOKENS = 1_500
PDF_BYTES_PER_TOKEN = 100
TEXT_BYTES_PER_TOKEN = 3

CanRead = Callable[[Attachment], bool]


def attach(message: ModelMessage, attachments: Sequence[Attachment], can_read: CanRead | None = None) -> ModelMessage:
    """Add the attachments to a user's message. Files that the model cannot read are only named; by default it reads all."""
    if not attachments:
        return message
    assert isinstance(message, ModelRequest)
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    assert isinstance(part.content, str)
    return replace(message, parts=[replace(part, content=to_prompt_content(part.content, attachments, can_read))])


def to_prompt_content(text: str, attachments: Sequence[Attachment], can_read: CanRead | None = None) -> str | list[UserContent]:
    """Return the text followed by the attachments: one text if all of them are text, otherwise a list."""
    texts = [text]
    content: list[UserContent] = []
    for attachment in attachments:
        if attachment.is_text:
            texts.append(render_frame(attachment, escape_frames(attachment.data.decode("utf-8-sig"))))
        elif can_read is None or can_read(attachment):
            texts.append(render_frame(attachment))
            content += ["\n\n".join(texts), BinaryContent(attachment.data, media_type=attachment.media_type)]
            texts = []
        else:
            texts.append(render_frame(attachment, "(not shown: this model cannot read such files)"))
    if not content:
        return "\n\n".join(texts)
    return [*content, "\n\n".join(texts)] if texts else content


def render_frame(attachment: Attachment, *lines: str) -> str:
    head = f"{format_inline(attachment.name)} ({attachment.media_type})"
    return format_frame(FRAME, [head, *lines], f"END {FRAME}")


def strip_attachments(text: str) -> str:
    """Return a message's own text, without the attachments after it."""
    return split_attachments(text)[0]


def split_attachments(text: str) -> tuple[str, str]:
    """Split a message into its own text and its attachments."""
    own_text, _, attached = text.partition(f"\n\n[{FRAME}]\n")
    return own_text, attached


def can_model_read(model: Model, attachment: Attachment) -> bool:
    """Whether the model may read the file, as far as its profile says. A profile that says nothing leaves it to the provider."""
    profile = model.profile
    if attachment.is_text:
        return True
    if attachment.media_type != PDF:
        return profile.get("supports_image_input", True)
    is_listed = PDF in profile.get("supported_document_media_types", (PDF,))
    return profile.get("supports_document_input", True) and is_listed


def check_readable(name: str, model: Model, attachments: Sequence[Attachment]) -> None:
    """Raise AttachmentRefused if the model is known not to read one of the files."""
    for attachment in attachments:
        if not can_model_read(model, attachment):
            raise AttachmentRefused(
                f"The model {name} does not accept {attachment.name!r} ({attachment.media_type}). Nothing was started. "
                "Leave the file out, or set HEADWAY_MODEL to a model that accepts it."
            )


def estimate_attachment_tokens(media_type: str, size: int) -> int:
    """Estimate on the safe side how many tokens a file of this many bytes takes."""
    if media_type == PDF:
        return IMAGE_TOKENS + size // PDF_BYTES_PER_TOKEN
    return IMAGE_TOKENS if media_type in BINARY_TYPES else size // TEXT_BYTES_PER_TOKEN + 1
