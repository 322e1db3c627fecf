"""The cost of turns: recorded with each answer and paid from a pool that all agents of a tenant share."""

import asyncio
from pathlib import Path

import pytest
from genai_prices import Usage, calc_price
from pydantic_ai.usage import RequestUsage

from headway.actions.access import spending
from headway.actions.engine import run_ends
from headway.actions.runs import runs
from headway.agents.loop.driver import drive
from headway.agents.models.prices import Price, Prices
from headway.ledger.errors import SettingsError
from headway.ledger.money import NANOS_PER_DOLLAR
from tests.agents.turn_harness import Talk, complete_next, in_order, open_talk, plan_call
from tests.model_server import Reply, Request, Script, calls, error, text

pytestmark = pytest.mark.usefixtures("dispatch")

PRICED = "openai-chat:gpt-4o"
USED = (1_000, 500)
NOW = calls(("now", {}), usage=USED)
ANSWER = text("Late.", usage=USED)


def compute_list_price() -> int:
    """Return the cost of these tokens according to the price list."""
    price = calc_price(Usage(input_tokens=USED[0], output_tokens=USED[1]), "gpt-4o", provider_id="openai")
    return int(price.total_price * NANOS_PER_DOLLAR)


def get_costs(talk: Talk) -> dict[str, object]:
    return talk.database.read(lambda tx: spending.build_costs(tx, talk.tenant_id, talk.headway.settings.limits.budget))


def test_tokens_and_cost_of_each_call_are_written_down(database_url: str, tmp_path: Path) -> None:
    with open_talk(database_url, tmp_path, in_order(NOW, ANSWER), model=PRICED) as talk:
        talk.say()
        assert compute_list_price() > 0
        assert [tuple(call) for call in talk.model_calls()] == [("strong", PRICED, *USED, compute_list_price(), 0, 0)] * 2
        assert talk.run_row().cost == talk.pool().spent == 2 * compute_list_price()
        assert talk.pool().reserved == 0
        events = talk.list_event_data("cost_changed")
        assert [event["spent_usd"] for event in events] == pytest.approx(
            [compute_list_price() / NANOS_PER_DOLLAR, 2 * compute_list_price() / NANOS_PER_DOLLAR]
        )
        assert events[0]["limit_usd"] == 5.0
        view = get_costs(talk)
        assert view["spent_usd"] == pytest.approx(2 * compute_list_price() / NANOS_PER_DOLLAR)
        assert view["by_model"][0]["calls"] == 2  # type: ignore[index]


def test_a_call_is_written_down_with_its_answer(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(NOW, ANSWER), model=PRICED) as talk:
        talk.say()
        spent = talk.database.read(lambda tx: tx.all("SELECT at FROM model_calls ORDER BY id"))
        answer_times = talk.database.read(lambda tx: tx.all("SELECT at FROM transcript WHERE n IN (1, 3) ORDER BY n"))
        assert spent == answer_times


def test_an_unknown_model_costs_nothing(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, in_order(NOW, ANSWER), budget_usd="0") as talk:
        assert talk.say()["outcome"] == "answered"
        assert [(call.input_tokens, call.output_tokens, call.cost) for call in talk.model_calls()] == [(*USED, 0)] * 2
        assert talk.list_event_data("cost_changed") == []


def test_an_installation_has_prices_of_its_own(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["openai-chat:fake-1"]\ninput = 2\noutput = 10.0\n')
    with open_talk(sqlite_url, tmp_path, ANSWER) as talk:
        talk.say()
        (call,) = talk.model_calls()
        assert call.cost == (1_000 * 2 + 500 * 10) * NANOS_PER_DOLLAR // 1_000_000


def test_prices_that_cannot_be_read_are_named(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["openai-chat:fake-1"]\ninput = "much"\n')
    with pytest.raises(SettingsError, match=r"prices\.toml"), open_talk(sqlite_url, tmp_path, ANSWER):
        pass


def test_an_estimate_is_set_aside_while_a_call_is_on_its_way(sqlite_url: str, tmp_path: Path) -> None:
    reserved: list[tuple[int, int]] = []

    def record(reply: Reply) -> Script:
        def script(_: Request) -> Reply:
            reserved.append((talk.pool().reserved, talk.run_row().reserved))
            return reply

        return script

    with open_talk(sqlite_url, tmp_path, in_order(record(NOW), record(ANSWER)), model=PRICED) as talk:
        talk.say()
        assert all(pool == run > 0 for pool, run in reserved)
        assert len(reserved) == 2
        assert (talk.pool().reserved, talk.run_row().reserved) == (0, 0)


def test_a_spent_pool_pauses_the_turn_and_a_raised_one_resumes_it(database_url: str, tmp_path: Path) -> None:
    def run_dry(_: Request) -> Reply:
        talk.set_pool(ceiling=1)
        return plan_call("Bake")

    script = in_order(run_dry, complete_next, text("Eat.", usage=USED))
    with open_talk(database_url, tmp_path, script, sweeping=True, model=PRICED) as talk:
        turn = talk.say()
        assert (turn["status"], turn["ended_at"], turn["outcome"]) == ("paused", 0, None)
        assert talk.run_row().status == "waiting"
        (event,) = talk.list_event_data("turn_paused")
        assert event["turn_id"] == turn["id"]
        assert "pool" in event["reason"]
        (notice,) = talk.list_event_data("operator_notice")
        assert notice["kind"] == "budget"
        assert talk.open_notices() == ["budget"]
        talk.wait(asyncio.sleep(0.05))
        assert len(talk.server.requests) == 1
        talk.database.write(lambda tx: spending.set_limit(tx, talk.tenant_id, 5 * NANOS_PER_DOLLAR))
        talk.headway.nudge()
        talk.wait(talk.until(lambda: bool(talk.turn()["ended_at"])))
        assert talk.turn()["outcome"] == "drained"
        assert len(talk.list_event_data("turn_paused")) == len(talk.list_event_data("turn_resumed")) == len(talk.notices()) == 1
        assert talk.open_notices() == []  # there is money again
        assert talk.answers() == ["Eat."]


def test_a_pool_that_was_spent_before_pauses_a_turn_at_its_beginning(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, ANSWER, model=PRICED, budget_usd="0.000001") as talk:
        assert talk.say()["status"] == "paused"
        assert talk.server.requests == []
        assert talk.pool().reserved == 0
        assert talk.turn()["iterations"] == 0


def test_a_paused_turn_can_be_canceled(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, ANSWER, model=PRICED, budget_usd="0") as talk:
        turn = talk.say()
        assert talk.open_notices() == ["budget"]
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn["id"]))
        assert talk.turn()["status"] == "canceled"
        assert talk.open_notices() == []


def test_a_canceled_turn_releases_its_reservation(database_url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        task = await talk.begin()
        await talk.wait_for_requests(1)
        assert talk.pool().reserved > 0
        turn_id = talk.run_row().turn_id or ""
        talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, turn_id))
        talk.headway.interrupt(turn_id)
        await asyncio.wait([task])

    with open_talk(database_url, tmp_path, ANSWER, model=PRICED) as talk:
        talk.server.hold()
        talk.wait(scenario())
        assert (talk.pool().reserved, talk.pool().spent) == (0, 0)


@pytest.mark.parametrize("how", ["canceled", "taken over"])
@pytest.mark.parametrize("which", [1, 2], ids=["an answer", "a summary"])
def test_an_answer_to_a_dead_process_is_paid_for_once(database_url: str, tmp_path: Path, how: str, which: int) -> None:
    async def scenario() -> None:
        headway = talk.headway
        job = await headway.database.of(talk.tenant_id).write(
            lambda tx: headway.begin_turn(tx, talk.tenant_id, talk.conversation_id, "Do it.")
        )
        talk.run = run = talk.database.read(lambda tx: runs.get_run(tx, talk.tenant_id, job.id))
        task = asyncio.create_task(
            drive(headway.runtime.of(run.tenant_id), run)
        )  # outside the engine, so only the run itself can notice the loss
        await talk.wait_for_requests(which)
        if how == "canceled":
            talk.database.write(lambda tx: run_ends.cancel_turn(tx, talk.tenant_id, run.turn_id or ""))
        else:
            talk.database.write(lambda tx: tx.run("UPDATE jobs SET owner = 'another'"))
        reserved.append(talk.pool().reserved)
        talk.server.release()
        await task

    def script(request: Request) -> Reply:
        if len(talk.server.requests) == which:
            talk.server.hold()
        return calls(("remember", {"text": "Half a"}), finish="length", usage=USED) if len(talk.server.requests) < which else ANSWER

    reserved: list[int] = []
    with open_talk(database_url, tmp_path, script, model=PRICED) as talk:
        talk.wait(scenario())
        model_calls = talk.model_calls()
        assert len(model_calls) == which
        assert talk.pool().spent == talk.run_row().cost == sum(call.cost for call in model_calls) > 0
        assert [talk.pool().reserved] == [talk.run_row().reserved] == reserved
        assert len(talk.list_event_data("cost_changed")) == which
        assert talk.answers() == []


def test_a_failed_turn_releases_its_reservation(sqlite_url: str, tmp_path: Path) -> None:
    with open_talk(sqlite_url, tmp_path, error(400), model=PRICED) as talk:
        assert talk.say()["status"] == "failed"
        assert talk.pool().reserved == 0


def test_a_crash_while_a_call_is_on_its_way_sets_nothing_aside_twice(sqlite_url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        task = await talk.begin()
        await talk.wait_for_requests(1)
        await talk.crash(task)

    with open_talk(sqlite_url, tmp_path, ANSWER, model=PRICED) as talk:
        talk.server.hold()
        talk.wait(scenario())
        assert talk.pool().reserved == talk.run_row().reserved > 0
        talk.server.release()
        assert talk.resume_turn()["outcome"] == "answered"
        assert (talk.pool().reserved, talk.pool().spent) == (0, compute_list_price())


def test_the_cheap_tier_is_paid_from_the_same_pool(sqlite_url: str, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        if request.model == "gpt-4o-mini":
            assert talk.pool().reserved > 0
            return text("A summary.", usage=USED)
        return calls(("remember", {"text": "Half a"}), finish="length", usage=USED) if len(talk.server.requests) == 1 else ANSWER

    with open_talk(sqlite_url, tmp_path, script, model=PRICED, model_cheap="openai-chat:gpt-4o-mini") as talk:
        talk.say()
        calls_made = talk.model_calls()
        assert [call.tier for call in calls_made] == ["strong", "cheap", "strong"]
        assert all(call.cost > 0 for call in calls_made)
        assert talk.pool().spent == sum(call.cost for call in calls_made)


def test_impossible_token_counts_do_not_fail_the_turn() -> None:
    """The price list rejects negative counts, and more cached tokens than input tokens."""
    price = Prices().cost("openai-chat:gpt-4o", RequestUsage(input_tokens=10, output_tokens=5))
    assert Prices().cost("openai-chat:gpt-4o", RequestUsage(input_tokens=10, output_tokens=5, cache_read_tokens=50)) == price > 0
    assert Prices().cost("openai-chat:gpt-4o", RequestUsage(input_tokens=-1, output_tokens=-5)) == 0
    assert Prices({"a:b": Price(1, 1)}).cost("a:b", RequestUsage(input_tokens=-1, output_tokens=-5)) == 0
