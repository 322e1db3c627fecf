"""The contents of files that agents wrote. The other operations are in operations/files."""

import asyncio
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from headway.actions.history import files
from headway.ledger.attachment import BINARY_TYPES, PLAIN_TEXT, clean_name
from headway.ledger.file_versions import UNKNOWN_TYPE
from headway.operations import files as shapes
from headway.surfaces.http.openapi import document_route
from headway.surfaces.http.request_context import RequestContext, to_json_response
from headway.surfaces.http.routing import HttpRoutes

routes = HttpRoutes("/v1/files", "files")

FILE_PATH: dict[str, Any] = {"path": {"file_id": str}}
# Agents wrote it, so a browser that shows it must not run it, in whatever window it lands.
CONTENT_POLICY: Final = "sandbox; default-src 'none'"


CONTENT_DOCS: dict[str, Any] = document_route({200: None}, also=(404,), query=shapes.VersionQuery, **FILE_PATH)
CONTENT_DOCS["responses"][200] = {
    "description": "The content",
    "content": {media_type: {} for media_type in (PLAIN_TEXT, UNKNOWN_TYPE, *sorted(BINARY_TYPES))},
}


@routes.get("/{file_id}/content", summary="Download a version of a file", **CONTENT_DOCS)
async def get_file_content(request: Request) -> Response:
    call, file_id = RequestContext(request), request.path_params["file_id"]
    query = await call.query(shapes.VersionQuery)
    content = await call.read(lambda tx, tenant_id: files.get_content(tx, tenant_id, file_id, query.version))
    version = content.version
    # Text is never served under its own type, because a browser would run scripts in it.
    media_type = f"{PLAIN_TEXT}; charset=utf-8" if version.is_text else version.media_type
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(clean_name(content.file.path), safe='')}",
        "Content-Security-Policy": CONTENT_POLICY,
    }
    return Response(content.data, 200, headers, media_type)


@routes.get(
    "/{file_id}/diff",
    summary="Compare two versions of a file line by line",
    **document_route({200: shapes.FileDiff}, also=(404,), query=shapes.DiffQuery, **FILE_PATH),
)
async def compare_file_versions(request: Request) -> Response:
    call, file_id = RequestContext(request), request.path_params["file_id"]
    query = await call.query(shapes.DiffQuery)
    pair = await call.read(lambda tx, tenant_id: files.load_pair(tx, tenant_id, file_id, query.from_, query.to))
    return to_json_response(await asyncio.to_thread(files.compare_file_versions, pair))
