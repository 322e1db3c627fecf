"""A turn is killed with SIGKILL at every moment there is, and each time the next process ends it as if nothing had happened.

The story goes over every path of the loop: tools of the ledger, tools outside of it that may be repeated and one that may not,
a refusal, an answer cut off and summarised, a writ, and the answer. The model is met over HTTP, is as strict as the real one,
and outlives whoever talks to it.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.journeys import party_home
from tests.journeys.lives import Life, Zygote, zygote
from tests.journeys.party_model import party_model
from tests.journeys.reckoning import reckon
from tests.journeys.remains import Remains
from tests.model_server import ModelProcess
from tests.proofs import Proof

STRIDE = 12  # of which one in twelve is an ordinary test: all of them take minutes
ORDINARY = 4
TORTURE = [pytest.mark.torture]
pytestmark = pytest.mark.proof
FEWEST = 300  # statements and moments inside of tools


@pytest.fixture(scope="session")
def running_model() -> Iterator[ModelProcess]:
    with party_model() as server:
        yield server


@pytest.fixture(scope="session")
def lives(running_model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """One for all the tests of a process: to load everything takes it seconds."""
    with zygote(running_model.url, tmp_path_factory.mktemp("lives")) as one:
        yield one


@pytest.fixture
def model(running_model: ModelProcess) -> Iterator[ModelProcess]:
    running_model.forget()
    yield running_model
    # Whoever is killed while it sends is cut off; that is no fault of what it said.
    assert [one for one in running_model.violations if not one.startswith("body:")] == []


def loaded(path: Path) -> Remains:
    remains: Remains = json.loads(path.read_text())
    return remains


def lived(lives: Zygote, life: Life) -> Remains:
    """What a life leaves behind to which nothing happens."""
    assert lives.live(life)
    return loaded(life.left)


def resumed(lives: Zygote, life: Life, unkilled: Remains) -> None:
    """The next life ends what the killed one had begun."""
    print(f"{Path(life.home).name}: {life.diary.read_text() if life.diary.exists() else 'by the model'}")
    assert lives.live(life)
    reckon(life, unkilled, loaded(life.found))


@pytest.mark.parametrize("first", [pytest.param(one, marks=[] if one == ORDINARY else TORTURE) for one in range(1, STRIDE + 1)])
def test_a_turn_killed_before_any_statement_ends_as_if_it_had_not_been(
    first: int, lives: Zygote, model: ModelProcess, sqlite_url: str, tmp_path: Path, proof: Proof
) -> None:
    proof.tried("kill -9 of a turn before a statement, sqlite", killed(count(first, STRIDE), lives, model, sqlite_url, tmp_path))


@pytest.mark.torture
@pytest.mark.parametrize("first", range(1, STRIDE + 1))
def test_a_turn_killed_before_any_statement_on_postgres_ends_as_if_it_had_not_been(
    first: int, lives: Zygote, model: ModelProcess, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    proof.tried(
        "kill -9 of a turn before a statement, postgres", killed(count(first, STRIDE), lives, model, postgres_url, tmp_path)
    )


def killed(numbers: Iterable[int], lives: Zygote, model: ModelProcess, database_url: str, folder: Path) -> int:
    """Before these moments, until there is none of that number. How often that was."""
    unkilled = lived(lives, party_home.build(folder / "unkilled", database_url))
    for deaths, number in enumerate(numbers):
        life = party_home.build(folder / f"killed before {number}", database_url)
        if lives.live(life._replace(number=number)):
            assert number > FEWEST
            return deaths
        resumed(lives, life, unkilled)
        model.forget()  # a request is long, and there are thousands
    raise AssertionError("there is no end of moments")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("kind", [pytest.param("sqlite", marks=TORTURE), "postgres"])
def test_a_turn_killed_over_and_over_ends_all_the_same(
    kind: str, lives: Zygote, request: pytest.FixtureRequest, tmp_path: Path, proof: Proof
) -> None:
    """Every life takes it a little further."""
    database_url: str = request.getfixturevalue(f"{kind}_url")
    unkilled = lived(lives, party_home.build(tmp_path / "unkilled", database_url))
    deaths = 0
    for number in range(120, 180) if proof.whole else [130]:
        life = party_home.build(tmp_path / f"killed before every {number}", database_url)
        found: list[Remains] = []
        while not lives.live(life._replace(number=number)):
            found.append(loaded(life.found))
        assert len(found) > 1
        reckon(life, unkilled, *found, loaded(life.found))
        deaths += len(found)
    proof.tried(f"kill -9 of a turn over and over, {kind}", deaths)


@pytest.mark.parametrize("verb", ["before", "after"])
def test_a_turn_killed_around_any_answer_of_the_model_ends_as_if_it_had_not_been(
    verb: str, lives: Zygote, model: ModelProcess, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    unkilled = lived(lives, party_home.build(tmp_path / "unkilled", postgres_url))
    requests = len(model.requests)
    assert requests == 10
    proof.tried("kill -9 of a turn around a model's answer, postgres", requests)
    for number in range(1, requests + 1):
        life = party_home.build(tmp_path / f"killed {verb} {number}", postgres_url)
        survived = lives.live(life._replace(key=f"{verb}.{number}"))
        assert not survived or (verb, number) == ("after", requests)
        resumed(lives, life, unkilled)


@pytest.mark.usefixtures("model")
def test_a_turn_killed_inside_a_tool_ends_as_if_it_had_not_been(
    lives: Zygote, postgres_url: str, tmp_path: Path, proof: Proof
) -> None:
    unkilled = lived(lives, party_home.build(tmp_path / "unkilled", postgres_url))
    moments = []
    for number in count(1):
        life = party_home.build(tmp_path / f"killed {number}", postgres_url)
        if lives.live(life._replace(number=number, only="tool")):
            break
        moments.append(life.diary.read_text())
        resumed(lives, life, unkilled)
    proof.tried("kill -9 of a turn inside a tool, postgres", len(moments))
    assert moments == ["invited", "about to order", "ordered", "about to order", "ordered"]
