"""PATCH /v1/todos changes many todos in several transactions. The other operations are in operations/todos."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from headway.actions.todos import todos
from headway.ledger.errors import CheckFailed, ChecksRequired, HeadwayError, StorageError, Unauthorized, WrongCell
from headway.operations import todos as todo_schemas
from headway.operations.requests import describe_mistakes
from headway.operations.todos import apply_fields
from headway.storage.transaction import Transaction
from headway.surfaces.http.mounting import build_call
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes

routes = HttpRoutes("/v1/todos", "todos")

PLACES = frozenset(("position", "before", "after"))  # fields that may move other todos


@routes.patch(
    "",
    summary="Change several todos, each independently",
    **document_route({200: todo_schemas.BatchResult}, body=todo_schemas.TodoChanges),
)
async def change_todos(request: Request) -> Response:
    call = RequestContext(request)
    body = await call.body(todo_schemas.CHANGES)
    rows = body.todos if isinstance(body, todo_schemas.Rows) else body

    await call.known(todos.check_positioned, sum(not PLACES.isdisjoint(row.model_extra or ()) for row in rows))
    results: list[dict[str, Any]] = []
    while len(results) < len(rows):
        results += await call.write(partial(change_rows, call, rows[len(results) :]))
        if len(results) < len(rows):  # the next row completes a todo that has checks
            results.append(await complete_row(call, rows[len(results)]))
    ok_count = sum(result["ok"] for result in results)
    return to_json_response({"ok": ok_count, "errors": len(results) - ok_count, "results": results})


def change_rows(
    call: RequestContext, rows: Sequence[todo_schemas.LooseRow], tx: Transaction, tenant_id: int
) -> list[dict[str, Any]]:
    """Change todos, each independently, up to the first whose checks have to run."""
    results = []
    for row in rows:
        try:
            results.append(change_row(call, tx, tenant_id, row))
        except ChecksRequired:
            break
    return results


async def complete_row(call: RequestContext, row: todo_schemas.LooseRow) -> dict[str, Any]:
    try:
        return await call.write(lambda tx, tenant_id: change_row(call, tx, tenant_id, row))
    except (StorageError, Unauthorized, WrongCell):
        raise
    except HeadwayError as error:  # its checks may not run
        return {"id": row.id, "ok": False, "error": str(error)}


def change_row(call: RequestContext, tx: Transaction, tenant_id: int, loose_row: todo_schemas.LooseRow) -> dict[str, Any]:
    try:
        row = todo_schemas.TodoChangeRow.model_validate_json(loose_row.model_dump_json())
        todo = tx.attempt(lambda tx: apply_fields(build_call(call, tx, tenant_id), row.id, row))
    except ChecksRequired:
        raise
    except ValidationError as error:
        return {"id": loose_row.id, "ok": False, "error": describe_mistakes(error)}
    except CheckFailed as error:
        return {"id": loose_row.id, "ok": False, "error": str(error), "failures": error.failures}
    except HeadwayError as error:
        return {"id": loose_row.id, "ok": False, "error": str(error)}
    return {"id": loose_row.id, "ok": True, "todo": todo.as_json()}
