"""Files on the page: people find what agents wrote, read it, compare versions and get to the work that wrote them."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from headway.actions.history import files
from headway.ledger.file_versions import FileOrigin, WrittenFiles, build_written
from headway.storage.transaction import Transaction
from tests.browser.page_harness import PHONE, Visit, look_at
from tests.browser.staged_files import stage_files
from tests.browser.test_page_hostile import HOSTILE, check_safe
from tests.model_server import ModelServer, by_turn, calls, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client

TITLES = {"files": "Files", "file": "incident.md", "file-diff": "charge.py"}


def rows(page: Visit) -> Locator:
    return page.region("What agents wrote").get_by_role("listitem")


def test_a_turn_leads_to_its_files_which_are_read_compared_and_downloaded(
    open_page: Callable[..., Visit], client: Client, model: ModelServer
) -> None:
    model.script = by_turn(
        calls(("write_file", {"path": "docs/plan.md", "content": "# Plan\n\n**Draft.**\n"})),
        calls(("edit_file", {"path": "docs/plan.md", "old": "Draft.", "new": "Final."})),
        text("Written."),
    )
    conversation = client.conversation(title="Planning")
    page, other = open_page(f"/c/{conversation}").live(), open_page("/files").live()
    expect(other.region("What agents wrote")).to_contain_text("Nothing yet.")
    wait_for_turn(client, say(client, conversation, "Write the plan."))

    expect(rows(other)).to_contain_text(["docs/plan.md"])  # it appears without a reload
    expect(rows(other)).to_contain_text("index with edit_file")
    expect(page.log.get_by_role("link", name="1 file")).to_be_visible()
    page.shoot("chat-files")
    page.log.locator(".steps-summary").click()
    page.log.locator(".steps .tool-line summary").filter(has_text="write_file").click()
    link = page.log.locator(".steps").get_by_role("list", name="Files").get_by_role("link", name="docs/plan.md")
    expect(link).to_have_attribute("href", re.compile(r"\?version=1$"))
    expect(page.log.locator(".turn-files").get_by_role("link", name="docs/plan.md")).to_have_attribute("href", re.compile("=2$"))
    page.log.get_by_role("link", name="1 file").click()
    expect(page.page).to_have_url(re.compile(r"/files\?turn_id="))
    rows(page).get_by_role("link", name="docs/plan.md").click()
    expect(page.page).to_have_title("plan.md · Headway")
    content = page.region("Content")
    expect(content.locator("strong")).to_have_text("Final.")
    page.button("Source").click()
    expect(content.locator("pre")).to_contain_text("**Final.**")

    page.button("Changes").click()
    expect(page.page).to_have_url(re.compile(r"\?view=changes&from=1&to=2$"))
    changes = page.region("Changes")
    expect(changes.get_by_role("status")).to_contain_text("+1 −1")
    expect(changes.locator("td.deleted")).to_have_text("deleted: **Draft.**")
    expect(changes.locator("td.added")).to_have_text("added: **Final.**")
    page.page.get_by_label("To", exact=True).select_option("1")
    expect(changes.locator("td.added")).to_have_count(3)  # the first version, compared with no file
    page.page.go_back()
    expect(changes.locator("td.added")).to_have_count(1)
    with page.page.expect_download() as download:
        page.page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "plan.md"
    assert download.value.path().read_text() == "# Plan\n\n**Final.**\n"
    page.region("Versions").get_by_role("link", name="Planning").first.click()
    expect(page.log).to_contain_text("Written.")


@pytest.mark.proof
def test_files_are_found_with_search_and_filters_that_are_in_the_address(page: Visit, client: Client) -> None:
    ids = stage_files(client)
    page.open("/files").live()
    expect(rows(page)).to_have_count(6)
    expect(rows(page).filter(has_text="old-plan.txt")).to_contain_text("deleted")
    page.page.get_by_label("Search paths").fill("REPORTS md")
    expect(rows(page)).to_have_count(1)
    expect(page.page).to_have_url(re.compile(r"/files\?q=REPORTS\+md$"))
    page.page.reload()
    expect(page.page.get_by_label("Search paths")).to_have_value("REPORTS md")
    page.page.get_by_label("Who").select_option("index")
    expect(page.page).to_have_url(re.compile(r"q=REPORTS\+md&role=index$"))
    page.page.get_by_label("Goal").select_option(index=1)
    expect(page.region("What agents wrote")).to_contain_text("No file matches.")
    page.page.get_by_role("link", name="Show all files").click()
    expect(rows(page)).to_have_count(6)
    page.go("/files?path=charts")
    expect(rows(page)).to_contain_text(["charts/", "charts/"])
    page.button("Folder: charts Remove this filter").click()
    expect(rows(page)).to_have_count(6)

    page.forgiven = ("404",)
    page.go("/files?goal_id=987654321")
    expect(page.region("What agents wrote")).to_contain_text("No goal #987654321.")
    page.go(f"/files/{'0' * 32}")
    expect(page.page.get_by_role("heading", name="File not found")).to_be_visible()
    page.go(f"/files/{ids['charts/retries.png']}")
    image = page.page.get_by_role("img", name="retries.png")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    page.go(f"/files/{ids['charts/dump.bin']}")
    expect(page.region("Content")).to_contain_text("This file is not text.")
    expect(page.region("Versions")).to_contain_text("renamed from dump.tmp")
    page.go(f"/files/{ids['old-plan.txt']}")
    expect(page.region("Content")).to_contain_text("The file was deleted.")

    # Files of every kind look good.
    places = {
        "files": "/files",
        "file": f"/files/{ids['reports/incident.md']}",
        "file-diff": f"/files/{ids['src/billing/charge.py']}?view=changes",
    }
    for name, path in places.items():
        page.go(path)
        expect(page.page.locator("main h1")).to_have_text(TITLES[name])
        expect(page.page.locator("main .skeleton")).to_have_count(0)
        tops = page.page.locator("main h1, main section").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        assert min(tops) == tops[0], name  # the heading is above everything else
        look_at(page, name)
    lines = page.page.locator("table.diff tr").nth(1).locator("td")
    expect(lines).to_have_count(4)
    words = page.page.locator(".nav-list .nav-item > span:first-of-type")
    assert words.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length") == 0
    assert page.page.locator(".side").evaluate("side => side.scrollWidth - side.clientWidth") <= 0
    page.page.set_viewport_size(PHONE)
    expect(lines).to_have_count(3)


@pytest.mark.torture
def test_hostile_names_and_contents_show_as_text(page: Visit, client: Client) -> None:
    def fill(tx: Transaction, tenant_id: int) -> list[str]:
        ids = []
        for words in HOSTILE.values():
            file = build_written(words.replace("\0", "")[:500] + ".md", words.encode())
            origin = FileOrigin(words[:100], words[:100])
            ids.append(str(files.record_files(tx, tenant_id, words[:100], WrittenFiles((file,)), origin)["files"][0]["id"]))
        return ids

    ids = client.desk.write(fill)
    page.open("/files").live()
    expect(rows(page)).to_have_count(len(ids))
    check_safe(page)
    for file_id in ids[:4]:
        page.open(f"/files/{file_id}").live()
        expect(page.page.locator("main .skeleton")).to_have_count(0)
        page.button("Source").click()
        check_safe(page)
        page.button("Changes").click()
        expect(page.region("Changes").locator("table.diff, .empty").first).to_be_visible()
        check_safe(page)
