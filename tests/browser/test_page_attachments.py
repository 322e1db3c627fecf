"""Files in the chat: attached, pasted, removed, shown and refused."""

from playwright.sync_api import FilePayload, expect

from tests.browser.page_harness import Visit
from tests.model_server import ModelServer, error, text
from tests.sample_files import PNG, PNG_BASE64, PNG_URL

IMAGE_PART = {"type": "image_url", "image_url": {"url": PNG_URL}}
PHOTO: FilePayload = {"name": "photo.png", "mimeType": "image/png", "buffer": PNG}
NOTES: FilePayload = {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"Zoe is from Graz."}
PASTE = """([field, data]) => {
  const transfer = new DataTransfer();
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  transfer.items.add(new File([bytes], "image.png", { type: "image/png" }));
  field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, bubbles: true, cancelable: true }));
}"""


def attach(page: Visit, *files: FilePayload) -> None:
    with page.page.expect_file_chooser() as chooser:
        page.button("Attach files").click()
    chooser.value.set_files(files)


def test_files_are_attached_pasted_removed_sent_shown_and_refused(page: Visit, model: ModelServer) -> None:
    page.open().live()
    attach(page, PHOTO, NOTES)
    waiting = page.page.get_by_role("list", name="Attached files")
    expect(waiting.get_by_role("listitem")).to_have_text(["photo.png70 bytes", "notes.md17 bytes"])
    expect(waiting.locator("canvas")).to_have_count(2)
    expect(waiting.locator("canvas").first).to_be_visible()  # a preview of the image; the other file has none
    expect(waiting.locator("canvas").last).to_be_hidden()
    page.say("What is this?")

    sent = page.log.get_by_role("list", name="Attachments")
    expect(sent.get_by_role("link")).to_have_count(2)
    expect(sent.get_by_role("img", name="photo.png")).to_have_js_property("naturalWidth", 1)
    expect(page.log).to_contain_text("hello")
    expect(waiting).to_have_count(0)
    (request,) = model.requests
    assert IMAGE_PART in request.messages[-1]["content"]
    assert "Zoe is from Graz." in request.last
    with page.page.expect_download() as download:
        sent.get_by_role("link", name="notes.md").click()
    assert download.value.suggested_filename == "notes.md"

    # An image is pasted. A file can be removed before it is sent.
    attach(page, NOTES)
    field = page.page.get_by_label("Message", exact=True)
    page.page.evaluate(PASTE, [field.element_handle(), PNG_BASE64])
    expect(waiting).to_contain_text("image.png")
    page.button("Remove notes.md").click()
    expect(waiting.get_by_role("listitem")).to_have_text(["image.png70 bytes"])
    page.say("And this?")
    expect(page.log.get_by_role("img", name="image.png")).to_be_visible()
    expect(page.log.locator(".msg.assistant")).to_have_count(2)
    assert model.requests[-1].messages[-1]["content"][1:] == [IMAGE_PART]

    page.page.reload()
    expect(sent.get_by_role("img", name="photo.png")).to_have_js_property("naturalWidth", 1)
    attach_refused_files(page, model)


def attach_refused_files(page: Visit, model: ModelServer) -> None:
    page.forgiven = ("422",)
    page.go("/")
    expect(page.log).to_have_count(0)
    model.forget()
    attach(page, {"name": "song.mp3", "mimeType": "audio/mpeg", "buffer": b"ID3\x04\0"})
    page.say("What is this?")

    expect(page.page.get_by_role("alert")).to_contain_text("'song.mp3' is neither an image")
    page.button("Remove song.mp3").click()
    page.button("Try again").click()
    expect(page.log).to_contain_text("hello")
    assert len(model.requests) == 1

    # The provider refuses an image.
    model.script = lambda _request: error(400, "This model does not support image inputs.")
    expect(page.button("Stop")).to_have_count(0)
    attach(page, PHOTO)
    page.say("What is this?")
    expect(page.log).to_contain_text("does not support image inputs")

    model.script = lambda _request: text("never mind")
    page.say("Then without it.")
    expect(page.log).to_contain_text("never mind")
