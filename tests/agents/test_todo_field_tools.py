"""Agents set priority, due and labels by tools and by writs, and list by them."""

from headway.agents import writs
from tests.agents.agent_harness import Agent


def test_tools_set_change_and_filter_by_the_fields(sqlite_agent: Agent) -> None:
    added = sqlite_agent("todo_add", subject="pay", priority="high", due="2026-12-01", labels='["home"]')["todo"]
    sqlite_agent("todo_add", subject="plain")
    assert (added["priority"], added["due"], added["labels"]) == ("high", 1_796_169_599, ["home"])

    changed = sqlite_agent("todo_update", id=added["id"], labels=["home", "bank"], priority="low")["todo"]
    assert (changed["priority"], changed["due"], changed["labels"]) == ("low", 1_796_169_599, ["bank", "home"])
    assert [todo["subject"] for todo in sqlite_agent("todo_list", label=["bank"], priority="low")["todos"]] == ["pay"]
    assert sqlite_agent("todo_list", overdue=True)["todos"] == []
    assert "due must be a date" in sqlite_agent.refused("todo_add", subject="x", due="soon")


def test_a_writ_sets_the_fields_at_its_end(sqlite_agent: Agent) -> None:
    scope = sqlite_agent.execution.scope

    def write(text: str) -> str:
        return sqlite_agent.desk.database.write(lambda tx: writs.run_text(tx, scope, sqlite_agent.role, text)).output

    output = write("/todo add pay the rent priority:high due:2026-12-01 label:home\n")
    assert output.splitlines()[1].endswith("[pending] pay the rent priority:high due:2026-12-01 label:home")
    assert "ERR: priority must be urgent" in write("/todo add pay priority:asap\n")
