"""`headway costs`: what agents spent, and which models no budget can stop."""

from dataclasses import replace

import pytest

from tests.model_server import MODEL, ModelServer, text
from tests.surfaces.shell import Shell

UNPRICED = (
    f"openai-chat:{MODEL} has no known price: its calls are counted as $0, so the budget cannot stop it. "
    "Add its price to {home}/prices.toml (0 if it is free)."
)


def test_before_any_call_there_is_only_the_limit(headway: Shell) -> None:
    assert headway.ok("costs") == "$0.0000 of $5.00 in the last 24 hours\n"
    nothing = {"spent_usd": 0.0, "limit_usd": 5.0, "window_s": 86_400, "by_model": [], "by_run": [], "unpriced": []}
    assert headway.json("costs") == {"costs": nothing}


def test_each_model_is_a_line_with_the_share_of_its_input_that_was_cached(talker: Shell, model: ModelServer) -> None:
    model.script = lambda _: replace(text("hello", usage=(2_000, 300)), cached=1_500)
    turn = talker.json("chat", "hi")["turn"]
    assert turn["usage"] == {"input_tokens": 2_000, "cached_tokens": 1_500, "output_tokens": 300, "cost_usd": 0.0}

    warning = UNPRICED.format(home=talker.folder / ".headway")
    assert talker.ok("costs").splitlines() == [
        "$0.0000 of $5.00 in the last 24 hours",
        f"openai-chat:{MODEL}\t$0.0000\t1 call\t2,000 tokens in (75% from the cache), 300 out",
        f"! {warning}",
    ]
    costs = talker.json("costs")["costs"]
    assert costs["by_model"][0]["cached_tokens"] == costs["by_run"][0]["cached_tokens"] == 1_500
    assert costs["unpriced"] == [f"openai-chat:{MODEL}"]


def test_the_operator_sets_the_limit_of_any_tenant(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    assert headway.ok("costs", "--tenant", "acme", "--limit", "250") == "$0.0000 of $250.00 in the last 24 hours\n"
    assert headway.json("costs")["costs"]["limit_usd"] == 5.0
    assert headway.json("costs", "--limit", "0.5")["costs"]["limit_usd"] == 0.5
    for limit in ("-1", "1000001", "nan", "much"):
        assert headway("costs", "--limit", limit).code == 2
    assert headway.json("costs", "--tenant", "acme")["costs"]["limit_usd"] == 250


def test_only_the_chosen_tenant_is_shown(headway: Shell) -> None:
    headway.ok("tenant", "add", "acme")
    headway.ok("chat", "hello")
    assert [row["model"] for row in headway.json("costs")["costs"]["by_model"]] == ["rehearsal"]
    assert headway.json("costs", "--tenant", "acme")["costs"]["by_model"] == []
    assert "omit --conversation" in headway("costs", "--conversation", "1").err


def test_a_price_of_ones_own_ends_the_warning(talker: Shell, model: ModelServer) -> None:
    home = talker.folder / ".headway"
    home.mkdir()
    (home / "prices.toml").write_text(f'["openai-chat:{MODEL}"]\ninput = 2\noutput = 10\ncached_input = 0.2\n')
    talker.trust()
    model.script = lambda _: replace(text("hello", usage=(100_000, 1_000)), cached=50_000)
    talker.ok("chat", "hi")
    total, line = talker.ok("costs").splitlines()
    assert total == "$0.1200 of $5.00 in the last 24 hours"
    assert line == f"openai-chat:{MODEL}\t$0.1200\t1 call\t100,000 tokens in (50% from the cache), 1,000 out"


def test_doctor_names_each_model_without_a_price_once(talker: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL_CHEAP", "openai-chat:gpt-4o-mini")
    checks = talker.json("doctor")["checks"]
    warning = UNPRICED.format(home=talker.folder / ".headway")
    assert [check for check in checks if check["name"] == "price"] == [
        {"name": "price", "detail": warning, "ok": True, "warning": True}
    ]
    assert f"! price     {warning}" in talker.ok("doctor").splitlines()


def test_doctor_says_nothing_about_prices_that_are_known(talker: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODEL", "openai-chat:gpt-4o")
    assert "price" not in {check["name"] for check in talker.json("doctor")["checks"]}


def test_doctor_finds_prices_that_cannot_be_read(talker: Shell) -> None:
    home = talker.folder / ".headway"
    home.mkdir()
    (home / "prices.toml").write_text("nonsense")
    talker.trust()
    ran = talker("doctor")
    assert ran.code == 1
    (line,) = (line for line in ran.out.splitlines() if line.startswith("✕"))
    assert line.startswith(f"✕ price     {home / 'prices.toml'} cannot be read")
