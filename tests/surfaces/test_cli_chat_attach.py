"""`headway chat --attach`: files that go with a message."""

import json
from pathlib import Path

import pytest

from tests.model_server import ModelServer, error
from tests.sample_files import PNG, PNG_URL
from tests.surfaces.conversation_client import count_conversations
from tests.surfaces.shell import Shell, get_error_line


@pytest.fixture
def photo(tmp_path: Path) -> str:
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    return str(path)


def test_files_go_with_the_message(talker: Shell, model: ModelServer, photo: str, tmp_path: Path) -> None:
    notes = tmp_path / "main.rs"
    notes.write_text('fn main() { println!("hello"); }\n')
    assert talker("chat", "What is this?", "--attach", photo, "--attach", str(notes)) == (0, "hello\n", "")

    (request,) = model.requests
    assert {"type": "image_url", "image_url": {"url": PNG_URL}} in request.messages[-1]["content"]
    assert 'fn main() { println!("hello"); }' in request.last
    assert "main.rs" in request.last


def test_the_document_names_them(talker: Shell, photo: str) -> None:
    document = talker.json("chat", "What is this?", "--attach", photo)

    assert document["messages"][0]["attachments"] == [{"name": "photo.png", "media_type": "image/png", "size": len(PNG)}]
    assert PNG_URL not in json.dumps(document)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "'a.bin' cannot be read: No such file or directory."),
        (b"\0\1\2", "'a.bin' is neither an image (PNG, JPEG, GIF, WebP) nor a PDF nor text in UTF-8."),
        (PNG + b"x" * 10_000_000, "'a.bin' is too large: at most 10,000,000 bytes are allowed."),
        (b"x" * 400_001, "The text files have 400,001 bytes together; at most 400,000 are allowed"),
    ],
)
def test_a_file_that_cannot_be_sent_is_refused_and_leaves_nothing(
    talker: Shell, tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "a.bin"
    if content is not None:
        path.write_bytes(content)
    assert words in get_error_line(talker("chat", "hi", "--attach", str(path)), 2)
    assert count_conversations(talker) == 0


def test_a_folder_is_refused(talker: Shell, tmp_path: Path) -> None:
    assert "cannot be read: Is a directory." in get_error_line(talker("chat", "hi", "--attach", str(tmp_path)), 2)


def test_a_model_that_takes_no_images_says_so(headway: Shell, photo: str) -> None:
    line = get_error_line(headway("chat", "What is this?", "--attach", photo), 2)
    assert "The model rehearsal does not accept 'photo.png' (image/png). Nothing was started." in line
    assert "HEADWAY_MODEL" in line


def test_the_providers_refusal_is_shown(talker: Shell, model: ModelServer, photo: str) -> None:
    model.script = lambda _request: error(400, "This model does not support image inputs.")
    code, out, err = talker("chat", "What is this?", "--attach", photo)

    assert (code, out) == (1, "")
    assert "does not support image inputs" in err
