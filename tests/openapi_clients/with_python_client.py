"""A program with the client that openapi-python-client generates. The type checker checks that every union narrows to nothing."""

import json
import sys
from typing import assert_never

from python_client import AuthenticatedClient
from python_client.api.engine import list_agents
from python_client.api.goals import create_goal, get_goal
from python_client.api.todos import change_todo, change_todos, create_todo, get_todo, list_todos
from python_client.models import (
    Agent,
    AgentResult,
    BatchResult,
    ChangedRow,
    CommandCheck,
    FileCheck,
    HttpCheck,
    JsonObject,
    JudgeCheck,
    LooseRow,
    ManyAgents,
    ManyTodos,
    NewGoal,
    NewTodo,
    NewTodos,
    OneGoal,
    OneTodo,
    OutcomeCheck,
    Problem,
    RefusedRow,
    Todo,
    TodoFields,
    TodoPage,
    TodoStatus,
    ToolCheck,
)

Check = CommandCheck | FileCheck | HttpCheck | OutcomeCheck | ToolCheck | JudgeCheck


def describe_check(check: Check) -> str:
    match check:
        case CommandCheck():
            return f"{check.run} ends with {check.exit_ or 0}"
        case FileCheck():
            return check.path
        case HttpCheck():
            return check.url
        case OutcomeCheck():
            return "the outcome"
        case ToolCheck():
            return check.name
        case JudgeCheck():
            return check.rubric
        case _:
            assert_never(check)


def describe_row(row: ChangedRow | RefusedRow) -> str:
    return row.todo.subject if isinstance(row, ChangedRow) else row.error


def describe_result(result: AgentResult | str | None) -> str:
    return result.summary if isinstance(result, AgentResult) else result or "none"


def is_open(status: TodoStatus) -> bool:
    match status:
        case TodoStatus.PENDING | TodoStatus.IN_PROGRESS:
            return True
        case TodoStatus.COMPLETED | TodoStatus.CANCELED:
            return False
        case _:
            assert_never(status)


def main(url: str, token: str) -> None:
    client = AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)
    check = OutcomeCheck(kind="outcome", schema=JsonObject.from_dict({"type": "string"}))
    created = create_todo.sync(client=client, body=NewTodo(subject="write", checks=[check]))
    assert isinstance(created, OneTodo)
    todo: Todo = created.todo
    several = create_todo.sync(client=client, body=NewTodos(todos=[NewTodo(subject="print"), NewTodo(subject="read")]))
    assert isinstance(several, ManyTodos)
    listed = list_todos.sync(client=client, limit=2, status=todo.status)
    assert isinstance(listed, TodoPage)
    fields = TodoFields(status=TodoStatus.IN_PROGRESS, checks=[*todo.checks])
    changed = change_todo.sync(todo.id, client=client, body=fields)
    assert isinstance(changed, OneTodo)
    rows = [LooseRow.from_dict({"id": todo.id, "subject": "write twice"}), LooseRow.from_dict({"id": 404, "subject": "nothing"})]
    batch = change_todos.sync(client=client, body=rows)
    assert isinstance(batch, BatchResult)
    goal = create_goal.sync(client=client, body=NewGoal(description="Tidy the attic."))
    assert isinstance(goal, OneGoal)
    read = get_goal.sync(goal.goal.id, client=client)
    assert isinstance(read, OneGoal)
    agents = list_agents.sync(client=client)
    assert isinstance(agents, ManyAgents)
    found: list[Agent] = agents.agents
    missing = get_todo.sync(404, client=client)
    assert isinstance(missing, Problem)
    seen = {
        "checks": [describe_check(one) for one in todo.checks],
        "others": [other.subject for other in several.todos],
        "listed": len(listed.todos),
        "open": is_open(changed.todo.status),
        "rows": [describe_row(row)[:11] for row in batch.results],
        "goal": read.goal.description,
        "agents": [type(describe_result(agent.result)).__name__.replace("str", "string") for agent in found],
        "error": missing.code,
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:3])
