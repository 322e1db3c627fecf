"""Markdown in answers: what it becomes, how it is copied, that it stays fast, and what it costs to load."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.page_harness import DESK, PHONE, Visit, list_axe_violations
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


def open_answer(page: Visit, client: Client, model: ModelServer, words: str) -> Visit:
    model.script = lambda _request: text(words)
    conversation = client.conversation(title="An answer")
    wait_for_turn(client, say(client, conversation, "Go on."))
    return page.open(f"/c/{conversation}").live()


def test_markdown_becomes_elements(open_page: Callable[..., Visit], client: Client, model: ModelServer) -> None:
    page = open_answer(open_page(axe=True), client, model, ANSWER)
    answer = page.log.locator(".msg.assistant")
    expect(answer.locator("math")).to_have_count(2)
    expect(answer.locator("pre .hljs-keyword").first).to_have_text("def")
    for name, viewport in {"desk": DESK, "phone": PHONE}.items():
        page.page.set_viewport_size(viewport)
        for theme in ("light", "dark"):
            page.page.emulate_media(color_scheme=theme)
            answer.locator("table").scroll_into_view_if_needed()
            page.shoot(f"markdown-{name}-{theme}")
            answer.locator(".notes").scroll_into_view_if_needed()
            page.shoot(f"markdown-end-{name}-{theme}")
            assert list_axe_violations(page) == []
