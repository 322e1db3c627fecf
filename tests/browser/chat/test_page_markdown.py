"""Markdown in answers: what it becomes, how it is copied, that it stays fast, and what it costs to load."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Response, expect

from tests.browser.page_harness import DESK, PHONE, Visit, look_at
from tests.model_server import ModelServer, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client

COLD_LIMIT = 200_000  # bytes of the chat with an answer, as they are sent
PYTHON = 'def charge(order):\n    return pay(order, "eur")  # once'
ANSWER = f"""#### A small heading first

# Then a large one

All of them share **one** *new* pattern, ***both*** and ~~none~~, &amp; more at https://example.org/a_b_c.

- [x] read `30 s`
- [ ] write
  - two
    - three
      - four
        - five
          1. six

| attempt | amount | what was seen in the log of the gateway during the night before the rollout |
|:--|--:|:-:|
| a\\|b | 1 | one line<br>and another, with a rather long explanation of what happened between the two attempts |

```python
{PYTHON}
```

The mass is $E = mc^2$, for $5 and $6, and

$$
\\int_0^1 x^2 \\, dx = \\frac{{1}}{{3}}
$$

شغّل الأمر `git push --force origin` ثم `npm test` قبل النشر.

![A chart](https://example.org/chart.png) and [the docs](https://example.org/docs) say so.[^1] <b>no markup</b>

> quoted
> > twice

[^1]: The *gateway's* log."""


READ = "() => navigator.clipboard.readText()"
COUNT_COPIES = """() => {
    window.copies = 0;  // a mark is shown for two seconds, and may be gone before one looks
    new MutationObserver(list => list.forEach(({ addedNodes }) => addedNodes.forEach(node => {
        if (node.textContent === 'Copied') window.copies += 1;
    }))).observe(document.body, { subtree: true, childList: true });
}"""
STREAM = """async (text) => {
  const root = `/static/${document.querySelector('meta[name="headway-build"]').content}/js`;
  const { Markdown, StreamedMarkdown } = await import(`${root}/markdown/markdown.js`);
  const { html, render } = await import(`${root}/core/lib.js`);
  const [streamed, whole] = [0, 1].map(() => document.createElement("div"));
  document.querySelector(".welcome").append(streamed, whole);
  const [headings, code, changes] = [new Set(), new Set(), []];
  const observer = new MutationObserver((records) => changes.push(...records));
  for (let length = 1; length <= text.length; length++) {
    render(html`<${StreamedMarkdown} text=${text.slice(0, length)} />`, streamed);
    for (const [found, selector] of [[headings, ".h1"], [code, "pre"]]) found.add(streamed.querySelector(selector));
    if (text.slice(0, length).endsWith("- one")) {
      observer.observe(streamed.querySelector(".h1"), { subtree: true, childList: true, characterData: true, attributes: true });
    }
  }
  render(html`<${Markdown} text=${text} />`, whole);
  await new Promise((done) => setTimeout(done));
  headings.delete(null);
  code.delete(null);
  return {
    headings: headings.size,
    code: code.size,
    changes: changes.length,
    isSame: streamed.innerHTML === whole.innerHTML,
  };
}"""


def open_answer(page: Visit, client: Client, model: ModelServer, words: str) -> Visit:
    model.script = lambda _request: text(words)
    conversation = client.conversation(title="An answer")
    wait_for_turn(client, say(client, conversation, "Go on."))
    return page.open(f"/c/{conversation}").live()


@pytest.mark.proof
def test_markdown_becomes_elements_is_copied_and_keeps_complete_blocks_while_it_streams(
    page: Visit, client: Client, model: ModelServer
) -> None:
    open_answer(page, client, model, ANSWER)
    answer = page.log.locator(".msg.assistant")
    headings = answer.get_by_role("heading")
    expect(headings).to_have_text(["A small heading first", "Then a large one"])
    assert [one.get_attribute("aria-level") for one in headings.all()] == ["2", "2"]
    expect(answer.locator("strong")).to_have_text(["one", "both"])
    expect(answer.locator("em").first).to_have_text("new")
    expect(answer.locator("em strong, strong em")).to_have_text("both")
    expect(answer.locator("s")).to_have_text("none")
    expect(answer.get_by_role("checkbox")).to_have_count(2)
    expect(answer.get_by_role("checkbox", name="Done", exact=True)).to_be_checked()
    expect(answer.locator("ul ul ul ul ul ol > li")).to_have_text("six")
    expect(answer.locator("td").first).to_have_text("a|b")
    expect(answer.locator("td").nth(1)).to_have_css("text-align", "right")
    expect(answer.locator("td br")).to_have_count(1)
    expect(answer.locator("pre")).to_have_text(PYTHON)
    expect(answer.locator("pre .hljs-keyword").first).to_have_text("def")
    expect(answer.locator("math")).to_have_count(2)
    expect(answer.get_by_text("for $5 and $6, and")).to_be_visible()
    expect(answer.locator("img")).to_have_count(0)
    expect(answer.get_by_role("link", name="A chart (https://example.org/chart.png)")).to_be_visible()
    expect(answer.get_by_role("link", name="the docs")).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(answer.get_by_role("link", name="https://example.org/a_b_c", exact=True)).to_be_visible()
    expect(answer).to_contain_text("<b>no markup</b>")
    answer.get_by_role("link", name="Note 1").click()
    expect(answer.get_by_role("list", name="Notes").get_by_role("listitem")).to_be_focused()
    answer.get_by_role("link", name="Back to the text").click()
    expect(answer.get_by_role("link", name="Note 1")).to_be_focused()
    places = answer.locator("p code").evaluate_all("codes => codes.map(code => code.getBoundingClientRect().x)")
    assert places[0] > places[1]  # the Arabic sentence is read from the right, and each command in it from the left
    look_at(page, "markdown")
    page.page.set_viewport_size(PHONE)
    widths = answer.locator("td").evaluate_all("cells => cells.map(cell => cell.clientWidth)")
    assert min(widths) >= 64  # on the phone, no word is broken letter by letter: the table scrolls
    page.page.set_viewport_size(DESK)

    # Answers and code are copied.
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.page.evaluate(COUNT_COPIES)
    page.button("Copy code").click()
    page.page.wait_for_function("() => window.copies === 1")
    assert page.page.evaluate(READ) == PYTHON
    page.log.locator(".msg.assistant").hover()
    page.button("Copy answer").click()
    page.page.wait_for_function("() => window.copies === 2")
    assert page.page.evaluate(READ) == ANSWER
    page.page.context.clear_permissions()

    # A streamed answer keeps the elements of complete blocks.
    page.go("/")
    expect(page.page.locator(".welcome")).to_be_visible()
    blocks = ["# Plan", "A *step*.", "- one\n- two\n\n\n- three", "```text\nx = 1\n\n\ny = 2\n```", "| a | b |\n|--|--|\n| 1 | 2 |"]
    report = page.page.evaluate(STREAM, "\n\n".join([*blocks, "## Next", "> a\nb", "1. c\n\n   d\n2. e", "the **end**"]))
    assert report == {"headings": 1, "code": 1, "changes": 0, "isSame": True}


def test_a_cold_chat_with_an_answer_is_small(open_page: Callable[..., Visit], client: Client, model: ModelServer) -> None:
    """Colours and formulas are loaded only by an answer that needs them."""
    page = open_page(cold=True)
    received: list[Response] = []

    def note(response: Response) -> None:
        received.append(response)

    page.listen("response", note)
    open_answer(page, client, model, "It is **done**:\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    expect(page.log.locator(".msg.assistant td")).to_have_count(2)
    sizes = {one.url: one.request.sizes()["responseBodySize"] for one in received if "/events" not in one.url}

    assert not [url for url in sizes if re.search("temml|highlight/", url)]
    assert sum(sizes.values()) <= COLD_LIMIT, sizes
    assert sum(sizes.values()) > COLD_LIMIT / 2  # the sizes are of bodies
