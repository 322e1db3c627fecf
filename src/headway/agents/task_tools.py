"""Tools of a conversation's task list, which is a file."""

import logging
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Field

from headway.agents.execution import Execution
from headway.agents.toolbox import Arguments, Filled, Subject, Text, Tool
from headway.ledger.errors import DatabaseDamaged, Invalid
from headway.storage.task_files import TASKS_LIMIT, Task, TaskFile, next_id

log = logging.getLogger("headway.tasks")

NO_CONVERSATION = "Error: Task list is not available (no conversation context)."
DAMAGED = "Error: Task file is corrupt or invalid."
NOT_FOUND = {"ok": False, "error": "Task not found"}


class NoArguments(Arguments):
    pass


class AddTask(Arguments):
    title: Subject
    description: Text = ""


class TaskId(Arguments):
    taskId: Annotated[Filled, Field(coerce_numbers_to_str=True)]


def guarded(act: Callable[[TaskFile, Any], Any]) -> Callable[[Execution, Any], Any]:
    """The family's ways of failing: a sentence for the model, the details in the log, the file left as it is."""

    def guard(execution: Execution, wanted: Any) -> Any:
        assert execution.conversation_uuid is not None  # the toolbox asked has_conversation first
        try:
            return act(TaskFile(execution.task_folder, execution.conversation_uuid, execution.scope.conversation_id), wanted)
        except DatabaseDamaged as error:
            log.error("a task file cannot be read: %s", error)
            return DAMAGED
        except OSError as error:
            return f"Error: {error.strerror or error}"

    return guard


def list_tasks(file: TaskFile, _wanted: NoArguments) -> Any:
    return {"tasks": [shown(task) for task in file.read()]}


def add_task(file: TaskFile, wanted: AddTask) -> Any:
    def add(tasks: list[Task]) -> Task:
        if len(tasks) >= TASKS_LIMIT:
            raise Invalid(f"A task list holds at most {TASKS_LIMIT:,} tasks; delete some.")
        task: Task = {"id": next_id(tasks), "title": wanted.title, "description": wanted.description, "done": False}
        tasks.append(task)
        return task

    return shown(file.change(add))


def set_done(*, done: bool) -> Callable[[TaskFile, TaskId], Any]:
    def change(file: TaskFile, wanted: TaskId) -> Any:
        def mark(tasks: list[Task]) -> Any:
            task = find(tasks, wanted.taskId)
            if task is None:
                return NOT_FOUND
            task["done"] = done
            return {"ok": True, "task": shown(task)}

        return file.change(mark)

    return change


def delete_task(file: TaskFile, wanted: TaskId) -> Any:
    def delete(tasks: list[Task]) -> Any:
        task = find(tasks, wanted.taskId)
        if task is None:
            return NOT_FOUND
        tasks.remove(task)
        return {"ok": True}

    return file.change(delete)


def find(tasks: list[Task], task_id: str) -> Task | None:
    return next((task for task in tasks if task["id"] == task_id), None)


def shown(task: Task) -> Task:
    return {
        "id": task["id"],
        "title": task["title"],
        "description": task.get("description", ""),
        "done": bool(task.get("done", False)),
    }


def has_conversation(execution: Execution) -> bool:
    return execution.conversation_uuid is not None


def refuse(message: str) -> str:
    return message if message.startswith("Error: ") else f"Error: {message}"


def task_tool(name: str, description: str, arguments: type[Arguments], act: Callable[[TaskFile, Any], Any]) -> Tool:
    return Tool(
        name,
        description,
        "tasks",
        arguments,
        on_thread=guarded(act),
        refuse=refuse,
        needs=has_conversation,
        missing=NO_CONVERSATION,
    )


TASK_TOOLS = (
    task_tool("ListTasks", "This conversation's task list.", NoArguments, list_tasks),
    task_tool("AddTask", "Add a task to this conversation's list.", AddTask, add_task),
    task_tool("CompleteTask", "Mark a task as done.", TaskId, set_done(done=True)),
    task_tool("UncompleteTask", "Mark a task as not done.", TaskId, set_done(done=False)),
    task_tool("DeleteTask", "Remove a task.", TaskId, delete_task),
)
