"""Tools for a conversation's task list, which is stored in a file."""

import logging
from collections.abc import Callable
from typing import Any

from headway.agents.tools.arguments import Arguments, ItemId, Subject, Text
from headway.agents.tools.execution import Execution
from headway.agents.tools.toolbox import OnThread, Tool
from headway.ledger.errors import DatabaseDamaged, Invalid
from headway.storage.home_files import TASKS_LIMIT, Task, TaskFile, get_next_id

log = logging.getLogger("headway.tasks")

NO_CONVERSATION = "Error: Task list is not available (no conversation context)."
CORRUPT_FILE = "Error: Task file is corrupt or invalid."
NOT_FOUND = {"ok": False, "error": "Task not found"}


class NoArguments(Arguments):
    pass


class AddTask(Arguments):
    title: Subject
    description: Text = ""


class TaskId(Arguments):
    taskId: ItemId


def report_errors(act: Callable[[TaskFile, Any], Any]) -> Callable[[Execution, Any], Any]:
    """Wrap a task tool so that failures return a sentence to the model, log the details and leave the file unchanged."""

    def guard(execution: Execution, arguments: Any) -> Any:
        assert execution.conversation_uuid is not None  # has_conversation was checked by the toolbox
        try:
            return act(TaskFile(execution.task_folder, execution.conversation_uuid, execution.scope.conversation_id), arguments)
        except DatabaseDamaged as error:
            log.error("a task file cannot be read: %s", error)
            return CORRUPT_FILE
        except OSError as error:
            return f"Error: {error.strerror or error}"

    return guard


def list_tasks(file: TaskFile, _arguments: NoArguments) -> Any:
    return {"tasks": [encode_task(task) for task in file.read()]}


def add_task(file: TaskFile, arguments: AddTask) -> Any:
    def add(tasks: list[Task]) -> Task:
        if len(tasks) >= TASKS_LIMIT:
            raise Invalid(f"A task list holds at most {TASKS_LIMIT:,} tasks; delete some.")
        task: Task = {"id": get_next_id(tasks), "title": arguments.title, "description": arguments.description, "done": False}
        tasks.append(task)
        return task

    return encode_task(file.change(add))


def build_set_done(*, done: bool) -> Callable[[TaskFile, TaskId], Any]:
    def change(file: TaskFile, arguments: TaskId) -> Any:
        def mark(tasks: list[Task]) -> Any:
            task = find_task(tasks, arguments.taskId)
            if task is None:
                return NOT_FOUND
            task["done"] = done
            return {"ok": True, "task": encode_task(task)}

        return file.change(mark)

    return change


def delete_task(file: TaskFile, arguments: TaskId) -> Any:
    def delete(tasks: list[Task]) -> Any:
        task = find_task(tasks, arguments.taskId)
        if task is None:
            return NOT_FOUND
        tasks.remove(task)
        return {"ok": True}

    return file.change(delete)


def find_task(tasks: list[Task], task_id: str) -> Task | None:
    return next((task for task in tasks if task["id"] == task_id), None)


def encode_task(task: Task) -> Task:
    return {
        "id": task["id"],
        "title": task["title"],
        "description": task.get("description", ""),
        "done": bool(task.get("done", False)),
    }


def has_conversation(execution: Execution) -> bool:
    return execution.conversation_uuid is not None


def format_refusal(message: str) -> str:
    return message if message.startswith("Error: ") else f"Error: {message}"


def build_task_tool(name: str, description: str, arguments: type[Arguments], act: Callable[[TaskFile, Any], Any]) -> Tool:
    return Tool(
        name,
        description,
        "tasks",
        arguments,
        OnThread(report_errors(act)),
        refuse=format_refusal,
        needs=has_conversation,
        missing=NO_CONVERSATION,
    )


TASK_TOOLS = (
    build_task_tool("ListTasks", "List this conversation's tasks.", NoArguments, list_tasks),
    build_task_tool("AddTask", "Add a task to this conversation's list.", AddTask, add_task),
    build_task_tool("CompleteTask", "Mark a task as done.", TaskId, build_set_done(done=True)),
    build_task_tool("UncompleteTask", "Mark a task as not done.", TaskId, build_set_done(done=False)),
    build_task_tool("DeleteTask", "Remove a task.", TaskId, delete_task),
)
