"""The input of the chat: drafts, files that are dropped, and messages that are entered while another is being sent."""

import pytest
from playwright.sync_api import Route, expect

from tests.browser.page_harness import DESK, PHONE, Visit, look_at
from tests.model_server import ModelServer, by_turn, calls, text
from tests.sample_files import PNG_BASE64
from tests.surfaces.server_harness import Client

DRAG = """({ event, png, sizes }) => {
  const transfer = new DataTransfer();
  const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
  if (png) transfer.items.add(new File([bytes], "photo.png", { type: "image/png" }));
  for (const size of sizes) transfer.items.add(new File([new Uint8Array(size)], `${size}.txt`, { type: "text/plain" }));
  document.querySelector(".log").dispatchEvent(
    new DragEvent(event, { dataTransfer: transfer, bubbles: true, cancelable: true }),
  );
}"""


def test_a_draft_survives_a_reload_and_a_failure_and_what_is_entered_meanwhile_follows_it(
    page: Visit, client: Client, model: ModelServer
) -> None:
    page.forgiven = ("ERR_FAILED",)
    page.open().live()
    box = page.page.get_by_label("Message", exact=True)
    box.fill("What is left?")
    page.page.reload()
    expect(box).to_have_value("What is left?")

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.page.route("**/v1/conversations", lose_the_answer)
    box.press("Enter")
    expect(page.page.get_by_role("alert")).to_contain_text("nothing you typed is lost")
    page.page.unroute("**/v1/conversations")
    page.page.reload()
    expect(box).to_have_value("What is left?")
    page.live()
    box.press("Enter")
    expect(page.log.locator(".msg.user")).to_have_count(1)
    expect(page.log).to_contain_text("hello")
    assert len(model.requests) == 1
    assert len(client.ok("GET", "/v1/conversations")["conversations"]) == 1

    page.page.reload()
    expect(page.live().log).to_contain_text("hello")
    expect(box).to_have_value("")
    assert page.page.evaluate("() => Object.keys(localStorage).filter((name) => name.startsWith('draft:'))") == []

    # A message that is entered while another is being sent follows it.
    page.go("/")
    expect(page.log).to_have_count(0)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    model.script = by_turn(calls(("calculate", {"expression": "6*7"})), text("It is 42."))
    model.hold()
    page.page.route("**/v1/conversations", hold)
    page.say("Then this.")
    expect(page.button("Send")).to_be_disabled()
    box.press("End")
    box.type(" And that.")
    with page.page.expect_response("**/v1/turns/*/messages"):
        box.press("Enter")
        held[0].continue_()
    expect(page.log.locator(".msg.user")).to_have_text(["You:Then this.", "You:And that.Not read yet"])
    expect(box).to_have_value("")

    box.fill("kon'nichiwa")
    box.evaluate("""field => field.dispatchEvent(
        new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true }))""")
    model.release()
    expect(page.log).to_contain_text("It is 42.")
    expect(page.log.locator(".msg.user").last).to_contain_text("Read by the agent")
    expect(box).to_have_value("kon'nichiwa")  # Enter chose a word, and sent nothing


@pytest.mark.proof
def test_files_are_dropped_anywhere_within_the_limits(page: Visit, model: ModelServer) -> None:
    page.open().live()
    target = page.page.get_by_text("Drop to attach")
    for name, viewport in {"phone": PHONE, "desk": DESK}.items():
        page.page.set_viewport_size(viewport)
        page.page.evaluate(DRAG, {"event": "dragover", "png": PNG_BASE64, "sizes": []})
        expect(target).to_be_visible()
        page.shoot(f"drop-{name}")
        page.page.evaluate(DRAG, {"event": "drop", "png": PNG_BASE64, "sizes": []})
        expect(target).to_have_count(0)
    files = page.page.get_by_role("list", name="Attached files").get_by_role("listitem")
    expect(files).to_have_count(2)
    expect(files.first.locator("canvas")).to_be_visible()
    page.page.evaluate(DRAG, {"event": "drop", "png": "", "sizes": [10_000_001]})
    expect(page.page.get_by_role("alert")).to_contain_text("10000001.txt has 10.0 MB; a file can have at most 10 MB.")
    page.page.evaluate(DRAG, {"event": "drop", "png": "", "sizes": [1] * 9})
    expect(page.page.get_by_role("alert")).to_contain_text("A message can have at most 10 files")
    expect(files).to_have_count(10)
    look_at(page, "attached")
    page.page.keyboard.press("Enter")
    expect(page.page.get_by_role("alert")).to_contain_text("Write what the agent should do with the files.")

    page.page.get_by_label("Message", exact=True).fill("Look at these.")
    page.page.reload()
    expect(page.page.get_by_text("Not kept over the reload: photo.png, photo.png, 1.txt")).to_be_visible()
    expect(page.page.get_by_label("Message", exact=True)).to_have_value("Look at these.")
    assert model.requests == []
