"""Operations on dependencies: /todos/{todo_id}/dependencies"""

from headway.actions.board import dependencies
from headway.operations.operation import Document, OperationCall, OperationTable
from headway.operations.schemas.board import Neighbours

table = OperationTable("todos")


@table.add("GET /todos/{todo_id}/dependencies", "List what a todo waits for, and what waits for it", Neighbours, errors=(404,))
def list_todo_dependencies(call: OperationCall, todo_id: int) -> Document:
    return dependencies.list_neighbours(call.tx, call.tenant_id, todo_id).as_json()
