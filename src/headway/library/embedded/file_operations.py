"""Requests about the files that agents wrote."""

from typing import Final

from headway.actions.files import views
from headway.actions.views import check_limit
from headway.ledger.files.versions import FileSelection
from headway.library.door import Document
from headway.library.embedded.requests import LocalRequest, Operation
from headway.storage.transaction import Transaction


def list_page(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    query = request.query
    selection = FileSelection(
        query.get("turn_id", ""),
        query.get("goal_id", 0),
        query.get("conversation_id", 0),
        query.get("role", ""),
        query.get("path", ""),
        query.get("q", ""),
        query.get("sub_goal_id", 0),
    )
    return views.list_page(tx, tenant_id, selection, check_limit(request.limit), request.cursor).as_json()


def get(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return views.get(tx, tenant_id, request.get_name()).as_json()


def read_content(tx: Transaction, tenant_id: int, request: LocalRequest) -> Document:
    return {"data": views.get_content(tx, tenant_id, request.get_name(), request.query.get("version")).data}


OPERATIONS: Final[dict[str, Operation]] = {
    "GET /files": list_page,
    "GET /files/{}": get,
    "GET /files/{}/content": read_content,
}
