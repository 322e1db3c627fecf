"""The benchmark of finished tasks: its tasks can be verified, its sets are alike, and its model without faults does the work."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from bench.effect.proxy import Proxy, RunLog, Sampling, repair
from bench.effect.report import compare, estimate, measure_whole, merge_sections, write_report
from bench.effect.runner import Job, describe, serve
from bench.effect.simulated import Rates, SimulatedModel
from bench.effect.systems import Ended, Room, run_pydantic_ai
from bench.effect.task_list import SET_OF_TASK, TASKS
from bench.effect.tasks import TASK_SETS, TaskSet
from bench.effect.verdict import classify_words, judge

NO_FAULTS = Rates().scale(0)


@pytest.mark.parametrize("name", TASKS)
def test_a_correct_solution_of_a_task_is_accepted_and_an_untouched_workspace_is_not(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    task.prepare(tmp_path)
    assert not any(item.is_done(tmp_path) for item in task.possible_items)
    task.solve(tmp_path)
    assert all(item.is_done(tmp_path) for item in task.items)
    for item in task.possible_items:
        with (tmp_path / item.path).open("a") as file:
            file.write("\n")
    assert all(item.is_done(tmp_path) for item in task.items)


@pytest.mark.parametrize("name", TASK_SETS)
def test_every_kind_and_wording_is_in_each_set(name: TaskSet) -> None:
    tasks = [task for task in TASKS.values() if SET_OF_TASK[task.name] == name]
    kinds = dict.fromkeys(("one", "given", "computed", "edits", "read", "impossible", "long"), 3)
    kinds |= dict.fromkeys(("mixed", "code", "facts"), 2)
    assert Counter(task.kind for task in tasks) == kinds
    assert {task.wording for task in tasks} == {"numbered", "bullets", "commas", "paragraphs", "first then"}
    assert all((len(task.items) >= 15) == (task.kind == "long") for task in tasks)


def test_no_two_tasks_name_the_same_file() -> None:
    names = Counter(
        name
        for task in TASKS.values()
        for name in {*task.files, *(path for item in task.items for path in (item.path, *item.reads))}
    )
    assert max(names.values()) == 1


def test_the_words_of_an_item_name_it_and_no_other_item() -> None:
    marks = Counter(item.marks for task in TASKS.values() for item in task.items)
    assert max(marks.values()) == 1
    for task in TASKS.values():
        assert all(mark in text for item in task.items for mark in item.marks for text in (item.words, task.request))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("", "empty"),
        ("All files are written. Nothing is missing.", "other"),
        ("I wrote `not_found.txt` and missing.txt without any errors.", "other"),
        ("I wrote a.txt. I could not copy b.txt, because it does not exist.", "admits"),
        ("The file old.txt was not found.", "admits"),
        ("I’m sorry, I can’t do that. Please provide the text.", "admits"),
        ('<tool_call>\n{"name": "write_file", "arguments": {}}', "call"),
        ('```json\n{"name": "write_file", "arguments": {"path": "a"}}\n```\nIt was not done.', "call"),
    ],
)
def test_the_words_of_an_answer_are_classified(answer: str, expected: str) -> None:
    assert classify_words(answer) == expected


def test_a_run_that_ends_normally_with_items_missing_is_a_false_done(tmp_path: Path) -> None:
    task = TASKS["instruments"]
    assert judge(task, tmp_path, Ended("answered", "All done.")).verdict == "false done"
    assert judge(task, tmp_path, Ended("answered", "")).verdict == "false done"
    assert judge(task, tmp_path, Ended("incomplete", "All done.")).verdict == "admitted"
    task.solve(tmp_path)
    assert judge(task, tmp_path, Ended("answered", "All done.")).verdict == "done"
    assert judge(task, tmp_path, Ended("incomplete", "All done.")).verdict == "unreported"


def test_an_impossible_item_has_to_be_admitted_and_not_made_up(tmp_path: Path) -> None:
    task = TASKS["archive"]
    task.solve(tmp_path)
    assert judge(task, tmp_path, Ended("answered", "All done.")).verdict == "false done"
    assert judge(task, tmp_path, Ended("answered", "old_register.txt does not exist.")).verdict == "done"
    (tmp_path / "year_2.txt").write_text("something")
    assert judge(task, tmp_path, Ended("answered", "old_register.txt does not exist.")).verdict == "admitted"


def test_calls_in_text_become_calls_for_every_system() -> None:
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "a"}}
    message = {"content": f"<tool_call>\n{json.dumps(call)}\n</tool_call>"}
    choice = {"message": message, "finish_reason": "stop"}
    assert repair(choice, [{"type": "function", "function": {"name": "write_file", "parameters": {}}}])
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("name", ["garden", "archive"])
def test_without_faults_the_simulated_model_lets_a_plain_loop_complete_a_task(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    task.prepare(tmp_path / "1" / "workspace" / "1")

    async def run() -> tuple[Ended, RunLog]:
        proxies = {"m": Proxy([], Sampling("m"))}
        async with serve(proxies, {"m": SimulatedModel(NO_FAULTS)}) as address:
            room = Room(task, tmp_path / "1" / "workspace" / "1", tmp_path, f"{address}/m/x.{name}.raw.1/raw/v1")
            return await run_pydantic_ai(room), proxies["m"].logs[f"x.{name}.raw.1"]

    ended, log = asyncio.run(run())
    result = {**ended._asdict(), "wall_s": 1.0}
    row = describe(Job("pydantic_ai", name, "raw", "m", 1), tmp_path / "1", result, log)
    assert row["verdict"] == "done"
    assert row["calls"] > len(task.items)
    assert row["input_tokens"] > 0
    assert re.search(r"\| Pydantic AI, plain loop \| 1 \|", write_report([row]))


def test_the_same_seed_gives_the_same_faults() -> None:
    body = {"messages": [{"role": "user", "content": TASKS["seeds"].request}], "tools": []}
    answers = [SimulatedModel(Rates()).answer(body, "a.seeds.raw.1")["choices"][0]["message"]["content"] for _ in range(2)]
    assert answers[0] == answers[1]


def test_intervals_come_from_resampling_tasks() -> None:
    figure = estimate([0.0, 1.0] * 10)
    assert figure.low < figure.value == 0.5 < figure.high
    row = {"task": "menu", "done": 1, "possible": 1, "invented": 0}
    assert compare([row], [{**row, "done": 0}], measure_whole).value == 1.0


def test_a_report_replaces_its_own_sections_and_keeps_those_of_other_models() -> None:
    page = "# Title\n\n## Set `judge`, a, arm `repair`: 2 tasks\n\nold a\n\n## Set `judge`, b, arm `repair`: 2 tasks\n\nold b\n"
    report = "\n## Set `judge`, b, arm `repair`: 3 tasks\n\nnew b\n\n## Set `judge`, c, arm `repair`: 3 tasks\n\nnew c\n"
    assert merge_sections(page, report).split("\n\n") == [
        *("## Set `judge`, a, arm `repair`: 2 tasks", "old a"),
        *("## Set `judge`, b, arm `repair`: 3 tasks", "new b"),
        *("## Set `judge`, c, arm `repair`: 3 tasks", "new c\n"),
    ]
