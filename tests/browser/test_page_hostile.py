"""Hostile text is shown as text: markup, scripts, huge words, right-to-left and emoji appear literally, and none of it runs."""

import random
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from headway.actions.goals.goals import NewGoal
from headway.actions.runs import notices
from headway.storage.transaction import Transaction
from tests.browser.page_harness import Visit
from tests.browser.staged_goals import add_sleeping_goal
from tests.goal_plans import add_plan, end, evaluate
from tests.model_server import ModelServer, Reply, Request, calls, error, text
from tests.surfaces.conversation_client import say, wait_for_turn
from tests.surfaces.server_harness import Client

HOSTILE = {
    "script": "<script>window.owned = 1</script>",
    "image": '<img src=x onerror="window.owned = 1"><svg onload="window.owned = 1"><a xlink:href="javascript:owned=1">x</a></svg>',
    "embedded": '<math href="javascript:window.owned=1">x</math><iframe srcdoc="<script>parent.owned = 1</script>"></iframe>'
    '<object data="data:text/html,x"></object><style>* { color: red }</style><base href="//evil.example/"><form action="/logout">',
    "link": "[click me](javascript:window.owned=1) <a href='javascript:window.owned=1'>here</a>"
    " [b](JaVaScRiPt:window.owned=1) [c](data:text/html,x) [d](//evil.example) [e](/\\evil.example) [f](java\tscript:owned=1)",
    "template": "${window.owned = 1} {{constructor.constructor('window.owned=1')()}}",
    "huge": "W" * 900,
    "rtl": "\u202eמחק את הכל\u202c שלום עולם — ثلاثة أربعة",
    "emoji": "👩‍👩‍👧‍👦 🏴‍☠️ e\u0301 Z\u0335\u0341a\u0334l\u0337g\u0336o\u0335",
    "html entities": "&lt;b&gt; &amp; &#x3c;script&#x3e; </textarea></title></script>",
    "markdown": "**a** `b` # c\n> d\n- e\n| f | g |\n|---|---|\n" + "[" * 500,
}


SAMPLE = ("image", "link")  # what an ordinary run tries


def script(request: Request) -> Reply:
    """A model that uses the user's message as its text, plan and tool arguments."""
    words = next(message["content"] for message in request.messages if message["role"] == "user")
    if request.tool_results:
        return text(words)
    line = to_line(words)
    return calls(("create_todo", {"items": [{"title": line}]}), ("calculate", {"expression": line[:100]}), text=words)


def to_name(words: str) -> str:
    """The text cut down to a valid name."""
    return "".join(character for character in words if character not in "/\n\t")[:150]


def to_line(words: str) -> str:
    return words.replace("\n", " ")


def hostile_goal(tx: Transaction, tenant_id: int, words: str) -> int:
    goal = add_sleeping_goal(tx, tenant_id, NewGoal(words, words))
    again = f"{words} again"
    ids = add_plan(tx, goal, {words: [], again: [words]}, expected_outcome=words)
    end(tx, goal, ids[words], words)
    evaluate(tx, goal, ids[words], "minor", words)
    return goal.id


@pytest.mark.proof
def test_hostile_text_shows_as_text_everywhere(page: Visit, client: Client, model: ModelServer) -> None:
    chosen = [words for name, words in HOSTILE.items() if page.is_thorough or name in SAMPLE]
    model.script = lambda _request: error(400, HOSTILE["embedded"])
    wait_for_turn(client, say(client, client.conversation(title="fails"), HOSTILE["embedded"]))
    model.script = script
    for words in chosen:
        client.add(to_line(words), agent_id=to_name(words), description=words)
        client.desk.write(notices.notify, "budget", words)
        conversation = client.conversation(title=words)
        client.ok("POST", f"/v1/conversations/{conversation}/messages", 202, json={"content": words})
        work = {"every_s": 3600, "message": {"conversation_id": conversation, "content": words}}
        client.ok("PUT", f"/v1/schedules/{quote(to_name(words), safe='')}", json=work)
    ids = {words: client.desk.write(hostile_goal, words) for words in chosen}
    page.open().live()
    row = ".rows .grow > div:first-child"
    for path, where in (("/board", ".tile .clamp"), ("/operations/agents", row), ("/operations/notices", row)):
        page.go(path)
        for words in chosen:
            expect(page.page.locator(where).filter(has_text=to_line(words)[:60]).first).to_be_attached()
        check_safe(page)
    tabs = page.page.get_by_role("navigation", name="Operations")
    tabs.get_by_role("link", name="Dead letters").click()
    expect(page.region("Dead letters").locator(".error")).to_contain_text("<math href=")
    tabs.get_by_role("link", name="Schedules").click()
    for words in chosen:
        expect(page.region("Schedules").locator(".truncate").filter(has_text=to_name(words)[:60]).first).to_be_attached()
    check_safe(page)
    page.page.get_by_role("link", name="Chat", exact=True).click()
    for words in chosen:
        page.region("Conversations").get_by_role("link").filter(has_text=words.split("\n")[0][:60]).click()
        expect(page.panel).to_contain_text("1 total")
        if page.button("Expand").count():
            page.button("Expand").click()
        expect(page.rows.locator(".grow")).to_have_text(to_line(words))
        expect(page.log.locator(".msg.user")).to_contain_text(words.split("\n")[0])
        page.log.locator("summary").first.click()
        check_safe(page)
    page.go("/goals")
    for words in chosen:
        expect(page.page.locator("main").get_by_text(words.split("\n")[0][:40]).first).to_be_attached()
    check_safe(page)
    for words, goal_id in ids.items():
        page.go(f"/goals/{goal_id}")
        expect(page.page.locator("h1")).to_contain_text(words.split("\n")[0][:60])
        check_safe(page)

    # The content security policy forbids injected scripts.
    page.forgiven = ("Content Security Policy", "TrustedHTML", "Trusted Type", "violates")
    tried = page.page.evaluate(
        """() => {
            const tried = [];
            try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>'); tried.push('markup'); } catch {}
            try { window.trustedTypes.createPolicy('any', {}); tried.push('policy'); } catch {}
            const styled = document.createElement('p');
            styled.setAttribute('style', 'color: red');
            document.body.append(styled);
            if (getComputedStyle(styled).color === 'rgb(255, 0, 0)') tried.push('style');
            return tried;
        }"""
    )
    assert tried == []


@pytest.mark.torture
def test_no_message_holds_up_the_page(page: Visit, client: Client, model: ModelServer) -> None:
    """Texts for which a parser may try every way to pair, split or nest them, and one that is too long to be formatted."""
    chance = random.Random(1)  # a model that repeats itself is stopped
    spaces = "".join(chance.choices(" \t", k=20_000))
    links = "".join(f"[{letter}](" for letter in chance.choices("abcdefgh", k=3_000))
    emphasis = "".join(chance.choices(["*a ", "**b ", "_c ", "~~d ", "`e ", "$f ", "\\[", "\\("], k=3_000))
    nested = "".join(chance.choices(["> ", "- "], k=300)) + "deepest"
    strong = "".join(f"*{letter} **b " for letter in chance.choices("abcdefgh", k=500)) + "c** d* " * 20
    formula = "$$" + "".join(chance.choices(["\\sqrt{", "\\hat{", "\\bar{"], k=200)) + "x" + "}" * 200 + "$$"
    brackets = "".join(chance.choices(["[", "![", "[a"], k=5_000))
    numbers = "\n".join(str(chance.random()) for _ in range(4_000))
    notes = "".join(f"[^{number}] " for number in range(1_000))
    lines = ["a | b", spaces, f"# {spaces}\u2028", f"- {spaces}\u2028", links, "", emphasis, "", nested, "", strong, "", notes]
    words = "\n".join([*lines, "", formula, "", brackets, "", "the middle", "", numbers, "**the end**"])
    assert len(words) > 100_000
    model.script = lambda _request: text(words)
    conversation = client.conversation(title="slow")
    wait_for_turn(client, say(client, conversation, "Go on."))
    page.open(f"/c/{conversation}").live()
    answer = page.log.locator(".markdown").last
    expect(answer).to_contain_text("deepest")
    expect(answer).to_contain_text("the middle")
    expect(answer.locator(".math.source")).to_contain_text("hat{")
    expect(answer.locator(".cut-note")).to_have_text("This message is very long. The rest of it is shown without formatting.")
    expect(answer).to_contain_text("**the end**")
    check_safe(page)


def check_safe(page: Visit) -> None:
    report = page.page.evaluate(
        """() => ({
            owned: 'owned' in window,
            links: [...document.links].filter(one => !/^(https?|mailto):/.test(one.href)).map(one => one.href),
            elsewhere: [...document.links].filter(one => one.host === 'evil.example').map(one => one.href),
            strangers: document.querySelectorAll('#app :is(script, img, iframe, object, style, math), base, [onload], [onerror]')
                .length,
            wide: document.documentElement.scrollWidth - innerWidth,
            spilt: [...document.querySelectorAll('.log, .main, .todo-list')]
                .filter(one => one.scrollWidth > one.clientWidth + 1).length,
        })"""
    )
    assert report == {"owned": False, "links": [], "elsewhere": [], "strangers": 0, "wide": 0, "spilt": 0}
