"""The twelve requests of real_model.py, and the facts that are checked in rows and files after each."""

import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FRENCH = {"je", "tu", "vous", "est", "le", "la", "les", "de", "du", "et", "un", "une", "votre", "ton", "bonjour", "capitale", "nom"}
ENGLISH = {"i", "you", "is", "are", "the", "of", "and", "a", "an", "your", "hello", "capital", "name", "that", "this", "to", "it"}
QUOTE_LENGTH = 60


@dataclass(frozen=True)
class Fact:
    """A claim that should hold after a request, whether it does, and what was found instead."""

    claim: str
    holds: bool
    found: str = ""

    def describe(self) -> str:
        return f"{'✔' if self.holds else '✘'} {self.claim}" + (f" ({self.found})" if self.found and not self.holds else "")


class Evidence(NamedTuple):
    """What a request left behind: the rows of its database and the files of its workspace."""

    database: sqlite3.Connection
    workspace: Path

    def rows(self, query: str, *values: str) -> list[sqlite3.Row]:
        return self.database.execute(query, values).fetchall()

    def answers(self) -> list[str]:
        """The answers that a person was shown, one per turn and queue item, in order."""
        return [row["content"] for row in self.rows("SELECT content FROM messages WHERE role = 'assistant' ORDER BY id")]

    def last_answer(self) -> str:
        return (self.answers() or [""])[-1]

    def read(self, name: str) -> str | None:
        path = self.workspace / name
        return path.read_text(errors="replace") if path.is_file() else None

    def tools(self) -> list[str]:
        """The tools that were called successfully, in order."""
        rows = self.rows("SELECT tool FROM effects WHERE state = 'succeeded' ORDER BY started_at, n, call_index")
        return [row["tool"] for row in rows]

    def plan(self) -> list[str]:
        """The statuses of the items of all turns' plans."""
        return [row["status"] for row in self.rows("SELECT status FROM todos WHERE turn_id IS NOT NULL ORDER BY id")]


@dataclass(frozen=True)
class Request:
    name: str
    surface: str
    commands: tuple[tuple[str, ...], ...]
    check: Callable[[Evidence], list[Fact]]
    files: Mapping[str, str] = field(default_factory=dict)


# Facts


def quote(text: str) -> str:
    line = " ".join(text.replace("```", "").split())
    return f"“{line[:QUOTE_LENGTH]}{'…' if len(line) > QUOTE_LENGTH else ''}”"


def answer_has(evidence: Evidence, *words: str) -> Fact:
    """The last answer contains all the words. Separators of thousands in numbers do not matter."""
    answer = evidence.last_answer()
    plain = re.sub(r"(?<=\d)[,.'\u2009\u202f ](?=\d{3})", "", answer)
    holds = all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", plain, re.IGNORECASE) for word in words)
    return Fact(f"the answer says {' and '.join(words)}", holds, quote(answer) if answer else "no answer")


def answer_is_prose(evidence: Evidence) -> Fact:
    """The last answer is text for a person, not a tool call or an object in JSON."""
    answer = evidence.last_answer()
    bare = re.sub(r"^```\w*\n|\n?```$", "", answer.strip())
    is_json = False
    if bare.startswith(("{", "[", "<tool_call>")):
        try:
            json.loads(bare.removeprefix("<tool_call>").removesuffix("</tool_call>"))
            is_json = True
        except ValueError:
            is_json = '"name"' in bare
    return Fact("the answer is prose", bool(answer) and not is_json, quote(answer) if answer else "no answer")


def no_tools(evidence: Evidence) -> Fact:
    calls = [row["tool"] for row in evidence.rows("SELECT tool FROM effects ORDER BY started_at, n, call_index")]
    return Fact("no tool was called", not calls, ", ".join(calls))


def used(evidence: Evidence, tool: str) -> Fact:
    tools = evidence.tools()
    return Fact(f"`{tool}` was called", tool in tools, f"called: {', '.join(tools) or 'nothing'}")


def file_is(evidence: Evidence, name: str, content: str) -> Fact:
    text = evidence.read(name)
    return Fact(f"{name} has the right content", text is not None and text.strip() == content.strip(), describe_file(text))


def file_has(evidence: Evidence, name: str, *words: str) -> Fact:
    text = evidence.read(name)
    holds = text is not None and all(word in text.lower() for word in words)
    return Fact(f"{name} has {', '.join(words)}", holds, describe_file(text))


def describe_file(text: str | None) -> str:
    return "there is no such file" if text is None else f"it has {quote(text)}"


def plan_is_drained(evidence: Evidence, at_least: int) -> Fact:
    plan = evidence.plan()
    drained = len(plan) >= at_least and all(status in ("completed", "canceled") for status in plan)
    return Fact(f"a plan of {at_least} or more items is drained", drained, f"items: {', '.join(plan) or 'none'}")


def answer_is_french(evidence: Evidence) -> Fact:
    answer = evidence.last_answer()
    words = re.findall(r"[a-zà-ÿœ]+", answer.lower())
    french, english = sum(word in FRENCH for word in words), sum(word in ENGLISH for word in words)
    return Fact("the answer is in French", french > english, quote(answer) if answer else "no answer")


# The checks of each request


def check_question(evidence: Evidence) -> list[Fact]:
    return [answer_has(evidence, "Paris"), answer_is_prose(evidence), no_tools(evidence)]


def check_thanks(evidence: Evidence) -> list[Fact]:
    return [answer_is_prose(evidence), no_tools(evidence)]


def check_arithmetic(evidence: Evidence) -> list[Fact]:
    return [used(evidence, "calculate"), answer_has(evidence, "1266871"), answer_is_prose(evidence)]


def check_weekday(evidence: Evidence) -> list[Fact]:
    today = WEEKDAYS[datetime.now(UTC).weekday()]
    return [used(evidence, "now"), answer_has(evidence, today), answer_is_prose(evidence)]


def check_write(evidence: Evidence) -> list[Fact]:
    return [file_is(evidence, "greeting.txt", "Hello, Zoe!"), answer_is_prose(evidence)]


def check_read(evidence: Evidence) -> list[Fact]:
    unchanged = file_is(evidence, "inventory.txt", INVENTORY)
    return [used(evidence, "read_file"), answer_has(evidence, "42"), answer_is_prose(evidence), unchanged]


def check_correction(evidence: Evidence) -> list[Fact]:
    return [file_is(evidence, "letter.txt", LETTER.replace("Tuesday", "Friday")), answer_is_prose(evidence)]


def check_plan(evidence: Evidence) -> list[Fact]:
    return [
        file_has(evidence, "colors.txt", *COLORS),
        file_has(evidence, "animals.txt", *ANIMALS),
        file_has(evidence, "summary.txt", *COLORS, *ANIMALS),
        plan_is_drained(evidence, 3),
        answer_is_prose(evidence),
    ]


def check_french(evidence: Evidence) -> list[Fact]:
    turns = evidence.rows("SELECT id FROM turns WHERE status = 'finished'")
    return [
        Fact("both turns finished", len(turns) == 2, f"{len(turns)} did"),
        answer_has(evidence, "Zoe", "Rome"),
        answer_is_french(evidence),
        answer_is_prose(evidence),
    ]


def check_todo(evidence: Evidence) -> list[Fact]:
    rows = evidence.rows("SELECT subject, status FROM todos WHERE turn_id IS NULL")
    open_rows = [row for row in rows if "milk" in row["subject"].lower() and row["status"] in ("pending", "in_progress")]
    found = ", ".join(f"{row['subject']}: {row['status']}" for row in rows)
    on_ledger = Fact("the ledger has the open todo", bool(open_rows), found or "the ledger is empty")
    return [on_ledger, answer_has(evidence, "milk"), answer_is_prose(evidence)]


def check_queue(evidence: Evidence) -> list[Fact]:
    plan = evidence.plan()
    said = "\n".join(evidence.answers())
    facts = [
        Fact(
            f"an answer says {word}",
            bool(re.search(rf"(?<!\w){word}(?!\w)", said, re.IGNORECASE)),
            quote(said) if said else "no answer",
        )
        for word in ("42", "Tokyo", "green")
    ]
    return [
        Fact("the queue had three items, all completed", plan == ["completed"] * 3, f"items: {', '.join(plan) or 'none'}"),
        *facts,
    ]


def check_goal(evidence: Evidence) -> list[Fact]:
    status = [row["status"] for row in evidence.rows("SELECT status FROM goals")]
    return [
        Fact("the goal is completed", status == ["completed"], ", ".join(status) or "there is no goal"),
        file_is(evidence, "fruits.txt", "apple\npear\nplum"),
        file_is(evidence, "count.txt", "3"),
    ]


INVENTORY = "apples: 17\npears: 42\nplums: 8\n"
LETTER = "Dear Anna,\nThe meeting is on Tuesday at 10.\nBest wishes, Tom\n"
COLORS = ("red", "green", "blue")
ANIMALS = ("cat", "dog", "owl")

REQUESTS = (
    Request("question", "chat", (("chat", "What is the capital of France? Answer in one word."),), check_question),
    Request("arithmetic", "chat", (("chat", "What is 4817 * 263? Use the calculate tool."),), check_arithmetic),
    Request("write", "chat", (("chat", "Write the file greeting.txt. It contains exactly this line: Hello, Zoe!"),), check_write),
    Request(
        "read",
        "chat",
        (("chat", "Read the file inventory.txt. How many pears are there?"),),
        check_read,
        {"inventory.txt": INVENTORY},
    ),
    Request(
        "plan",
        "chat",
        (
            (
                "chat",
                "Do these three steps. 1. Write the file colors.txt with the words red, green, blue. 2. Write the file animals.txt "
                "with the words cat, dog, owl. 3. Write the file summary.txt with one line that names the words of both files.",
            ),
        ),
        check_plan,
    ),
    Request(
        "french",
        "chat, chat -c",
        (
            ("chat", "Remember: my name is Zoe, and always answer me in French."),
            ("chat", "-c", "What is my name, and what is the capital of Italy?"),
        ),
        check_french,
    ),
    Request("todo", "chat", (("chat", "Add a todo to the ledger: Buy milk. Then list my open todos."),), check_todo),
    Request("weekday", "chat", (("chat", "What day of the week is it today in UTC? Look it up, do not guess."),), check_weekday),
    Request("thanks", "chat", (("chat", "Thank you, that was helpful. Goodbye!"),), check_thanks),
    Request(
        "correction",
        "chat",
        (("chat", "In the file letter.txt, change Tuesday to Friday. Leave everything else as it is."),),
        check_correction,
        {"letter.txt": LETTER},
    ),
    Request(
        "queue",
        "chat --queue",
        (
            (
                "chat",
                "--queue",
                "Answer three questions, one after the other: 1. What is 6 * 7? 2. What is the capital of Japan? "
                "3. Which colour do you get when you mix blue and yellow?",
            ),
        ),
        check_queue,
    ),
    Request(
        "goal",
        "goal add",
        (
            (
                "goal",
                "add",
                "In two steps: write the file fruits.txt with the lines apple, pear and plum; then write the file count.txt with "
                "the number of lines in fruits.txt.",
                "--criteria",
                "fruits.txt has three lines, and count.txt contains 3.",
            ),
        ),
        check_goal,
    ),
)
