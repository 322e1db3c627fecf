"""The model of docs/internals/capacity.md: its arithmetic, by hand, and its place in the document."""

import re
import sys
from typing import Any

import pytest

from bench import scaling
from bench.report import SCALING
from bench.scale_model import (
    ANNOUNCEMENT,
    IDLE_SECOND,
    ITERATION,
    MEANINGS,
    PRICED,
    TURN,
    Assumptions,
    Measured,
    Model,
    NotMeasured,
    Operation,
    list_walls,
    plan_installation,
    read_measurements,
)
from headway.engine.runner import EngineLimits

# Figures that are easy to calculate with. An agent's second: 2 statements, 0.15 commits, 200 bytes of log, 100 bytes kept.
ROUND = Measured(
    iteration=Operation(statements=10, round_trips=2, commits=1, log_bytes=1_000, kept_bytes=500),
    turn=Operation(statements=100, round_trips=10, commits=5, log_bytes=10_000, kept_bytes=5_000),
    idle_second=Operation(20, 8, 0.4, 0, 0),
    announcement=Operation(5, 2, 0, 0, 0),
    connections=10,
    client_ms=0.2,
    server_ms=0.1,
    process_mb=200,
    frames_per_s=10_000,
    tenant_commits_per_s=150,
    call_usd=0.01,
    call_tokens=1_000,
)


def build(**assumed: float) -> Model:
    return Model(ROUND, Assumptions()._replace(**{"heard": 1.0} | assumed))


def test_an_agents_second_is_its_share_of_an_iteration_and_of_a_turn() -> None:
    assert build().agent_second == pytest.approx(Operation(2, 0.3, 0.15, 200, 100))
    assert build(iteration_s=5.0).agent_second == pytest.approx(build().agent_second.times(2))
    assert build(iterations_per_turn=1e12).agent_second == pytest.approx(ROUND.iteration.times(0.1))


def test_one_process_hears_no_announcements() -> None:
    cell = build().plan_cell(64)
    assert cell.processes == 1
    assert cell.work_cores == pytest.approx(64 * 2 * 0.1 / 1000)
    assert cell.idle_cores == pytest.approx(20 * 0.1 / 1000)
    assert cell.heard_cores == 0
    assert cell.client_cores == pytest.approx((64 * 2 + 20) * 0.2 / 1000)


def test_each_process_looks_for_jobs_when_another_one_commits() -> None:
    cell = build().plan_cell(128)
    assert cell.processes == 2
    # 19.2 commits a second, half of them by the other process. A look takes 5 × 0.3 ms and two round trips of 0.5 ms.
    looks_per_s = 9.6 / (1 + 9.6 * 0.0025)
    assert build().compute_check_rate(9.6) == pytest.approx(looks_per_s)
    assert cell.heard_cores == pytest.approx(2 * looks_per_s * 5 * 0.1 / 1000)
    assert build().compute_check_rate(1e9) == pytest.approx(1 / 0.0025)  # one look follows the other
    assert build(heard=0.0).plan_cell(128).heard_cores == 0


def test_readers_need_processes_too() -> None:
    assert build().count_processes(640) == 10
    # 640 × 0.1 readers, 5 frames a second and reader, and a process delivers 6,000.
    assert build(readers_per_agent=100.0).count_processes(640) == 54
    assert build().count_processes(1) == 1


def test_what_64_agents_need() -> None:
    plan = plan_installation(build(), 64)
    assert (plan.cells, plan.processes, plan.server_cores) == (1, 1, 2)
    assert plan.iterations_per_s == pytest.approx(6.4)
    assert plan.jobs_per_s == pytest.approx(0.64)
    assert plan.stored_gb_per_day == pytest.approx(64 * 100 * 86_400 / 1e9)
    assert plan.log_mb_per_s == pytest.approx(64 * 200 / 1e6)
    assert plan.models_mb_per_s == pytest.approx(6.4 * 1_000 * 4 / 1e6)
    assert plan.readers_mb_per_s == pytest.approx(6.4 * 5 * 300 / 1e6)
    assert plan.models_usd_per_h == pytest.approx(6.4 * 3600 * 0.01)
    # A process takes 200 MB, of the 4 GB that come with a core. The server has two cores and 30 days of rows, and a standby.
    assert plan.infrastructure_usd_per_h == pytest.approx((0.05 + 4) * 0.05 + 0.55296 * 30 * 2 * 0.12 / 730)


@pytest.mark.parametrize(
    ("assumed", "agents", "limit"),
    [
        ({"disk_tb": 100 * 100 * 30 * 86_400 / 1e12}, 100, "the server's disk"),  # 100 agents, 100 bytes a second, 30 days
        ({"server_connections": 3.0, "pool": 1.0}, 128, "the server's connections"),  # two processes and a pool of one
        ({"server_connections": 20.0, "pool": 19.0}, 128, "the server's connections"),  # two processes with ten each
    ],
)
def test_a_cell_is_limited_by_what_is_used_up_first(assumed: dict[str, float], agents: int, limit: str) -> None:
    assert build(**assumed).find_limit() == (agents, limit)


def test_a_cell_is_full_when_one_more_agent_would_not_fit() -> None:
    model = build(server_cores=1.0)
    agents, limit = model.find_limit()
    assert limit == "the server's processors"
    assert model.list_uses(model.plan_cell(agents))[limit] <= 1 < model.list_uses(model.plan_cell(agents + 1))[limit]
    assert model.plan_cell(agents).server_cores == pytest.approx(0.6, rel=0.05)
    assert build(server_cores=1.0, heard=0.0).find_limit()[0] > 2 * agents


def test_cells_cost_the_same_each() -> None:
    agents, _limit = build().find_limit()
    one, three = plan_installation(build(), agents), plan_installation(build(), 3 * agents)
    assert (one.cells, three.cells) == (1, 3)
    assert three.cell == one.cell
    assert three.server_cores == 3 * one.server_cores
    assert three.infrastructure_usd_per_h == pytest.approx(3 * one.infrastructure_usd_per_h)


def test_walls_are_listed_in_the_order_in_which_they_are_met() -> None:
    walls = {wall.name: wall.agents for wall in list_walls(build())}
    assert list(walls.values()) == sorted(walls.values())
    assert walls["the slots of one process"] == 64
    assert walls["the core of one process, if it had more slots"] == pytest.approx(0.6 * 1000 / (2 * 0.2))
    assert walls["the log of one tenant"] == pytest.approx(150 / 0.15)
    assert walls["the connections of one server, without a pooler"] == pytest.approx(100 * 64)
    assert walls["the connections of one server, with a pooler"] == pytest.approx(900 * 64)


def test_processor_time_of_an_iteration_is_divided_by_all_its_statements() -> None:
    counted = {ITERATION: ROUND.iteration, ITERATION + PRICED: ROUND.iteration, TURN: ROUND.turn, TURN + PRICED: ROUND.turn}
    counted |= {IDLE_SECOND: ROUND.idle_second, ANNOUNCEMENT: ROUND.announcement}
    operations = {name: operation._asdict() for name, operation in counted.items()}
    figures = {"pg.turns.cpu": 5.0, "engine.memory": 200.0, "sse.1000": 10_000.0}
    benchmarks: list[dict[str, Any]] = [{"name": name, "ours": figure} for name, figure in figures.items()]
    benchmarks.append({"name": "pg.turns.server", "ours": 3.0, "against": 6.0, "ratio": 0.5})  # while the machine was busy
    benchmarks.append({"name": "pg.create.tenants", "ours": 300.0, "against": 150.0})
    job = {"agent": "Headway", "calls": 10, "cents": 10.0, "input": 9_000, "output": 1_000}
    benchmarks.append({"name": "tokens.30.bill", "rows": [{**job, "agent": "another"}, job]})

    measured = read_measurements({"benchmarks": benchmarks}, {"connections": 9, "operations": operations})
    statements = (40 * 10 + 100) / 41
    expected = ROUND._replace(client_ms=5.0 / statements, server_ms=2.5 / statements)
    assert measured == expected

    rest = [benchmark for benchmark in benchmarks if benchmark["name"] != "pg.turns.server"]
    with pytest.raises(NotMeasured, match=r"Run `python -m bench pg\.turns\.server --write`"):
        read_measurements({"benchmarks": rest}, {"connections": 9, "operations": operations})
    with pytest.raises(NotMeasured, match=r"Run `python -m bench\.costs --write`"):
        read_measurements({"benchmarks": benchmarks}, {"connections": 9, "operations": {}})


def test_the_assumptions_are_explained_and_those_about_headway_are_true() -> None:
    assert set(MEANINGS) == set(Assumptions._fields)
    assert Assumptions().slots == EngineLimits().slots


def test_the_page_has_the_model_of_the_measured_figures() -> None:
    page = SCALING.read_text(encoding="utf-8")
    sections = dict(re.findall(r"<!-- measured: (\w+) -->\n\n(.*?)\n\n<!-- /measured -->", page, re.DOTALL))
    rendered = scaling.render_sections(scaling.read_model())
    stale = [name for name, content in rendered.items() if sections.get(name) != content]
    assert not stale, "docs/internals/capacity.md is out of date: run `python -m bench.scaling --write`."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "iteration=5"], "there is no assumption 'iteration'; they are iteration_s, "),
        (["--set", "slots=0"], "slots must be a number above 0, such as slots=64"),
        (["--set", "slots=many"], "slots must be a number above 0"),
        (["--set", "slots=1000", "--write"], "--set cannot be combined with --write"),
    ],
)
def test_wrong_assumptions_are_refused(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling", *options])
    with pytest.raises(SystemExit) as refused:
        scaling.main()
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def test_assumptions_can_be_replaced(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling", "--set", "slots=1000", "--set", "heard=0"])
    scaling.main()
    printed = capsys.readouterr().out
    assert re.search(r"^\| the slots of one process +\| 1,000 agents", printed, re.MULTILINE)
