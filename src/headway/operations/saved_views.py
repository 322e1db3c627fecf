"""Operations on saved views of the board: /views"""

from headway.actions.board import saved_views
from headway.operations.operation import Document, OperationCall, OperationTable, one
from headway.operations.schemas import board as schemas
from headway.operations.schemas.todos import Deleted

table = OperationTable("todos")

ONE_VIEW = one("view", schemas.ViewShape)


@table.add("GET /views", "List the saved views of the board, by name", schemas.ManyViews)
def list_views(call: OperationCall) -> Document:
    return {"views": [view.as_json() for view in saved_views.list_all(call.tx, call.tenant_id)]}


@table.add("POST /views", "Save filters of the board under a name", {201: ONE_VIEW})
def create_view(call: OperationCall, body: schemas.NewView) -> Document:
    view = saved_views.add(call.tx, call.tenant_id, body.name, body.filters.to_filters(), call.caller_name)
    return {"view": view.as_json()}


@table.add("PATCH /views/{view_id}", "Rename a saved view, or replace its filters", ONE_VIEW, errors=(404,))
def change_view(call: OperationCall, view_id: int, body: schemas.ViewFields) -> Document:
    view = saved_views.change(call.tx, call.tenant_id, view_id, body.change(), call.caller_name)
    return {"view": view.as_json()}


@table.add("DELETE /views/{view_id}", "Delete a saved view. Its todos stay", Deleted, errors=(404, 507))
def delete_view(call: OperationCall, view_id: int) -> Document:
    saved_views.remove(call.tx, call.tenant_id, view_id)
    return {"deleted": True}
