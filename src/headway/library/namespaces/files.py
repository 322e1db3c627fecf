"""Files that agents wrote."""

from collections.abc import AsyncIterator

from headway.library.transport import RequestTransport, drop_none
from headway.values.files import File, FileVersion
from headway.values.value import Page, decode, decode_all, decode_page


class Files:
    """Lists and reads the files that agents wrote, with every version."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport

    async def list(
        self,
        query: str = "",
        *,
        turn_id: str | None = None,
        goal_id: int | None = None,
        sub_goal_id: int | None = None,
        conversation_id: int | None = None,
        role: str | None = None,
        path: str = "",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[File]:
        """List files, the last written first: all, or the files of a turn, a goal, a sub-goal, a conversation or a role. `path` is
        a file or a folder; the words of `query` must all occur in the path."""
        parameters = drop_none(
            q=query or None,
            turn_id=turn_id,
            goal_id=goal_id,
            sub_goal_id=sub_goal_id,
            conversation_id=conversation_id,
            role=role,
            path=path or None,
            limit=limit,
            cursor=cursor,
        )
        return decode_page(File, await self._transport.send("GET /files", query=parameters), "files")

    async def iterate(self, query: str = "", *, turn_id: str | None = None, goal_id: int | None = None) -> AsyncIterator[File]:
        """Iterate over all files, or only the files of a turn or a goal, the last written first."""
        cursor: str | None = None
        while True:
            page = await self.list(query, turn_id=turn_id, goal_id=goal_id, limit=500, cursor=cursor)
            for file in page:
                yield file
            cursor = page.next_cursor
            if not cursor:
                return

    async def get(self, file_id: str) -> File:
        """Return a file, or raise NotFound."""
        return decode(File, (await self._transport.send("GET /files/{}", file_id))["file"])

    async def versions(self, file_id: str) -> tuple[FileVersion, ...]:
        """List the versions of a file, the newest first."""
        return decode_all(FileVersion, (await self._transport.send("GET /files/{}", file_id))["versions"])

    async def read(self, file_id: str, version: int | None = None) -> bytes:
        """Return the content of a file: its newest version, or another one."""
        return await self._transport.download("GET /files/{}/content", file_id, query=drop_none(version=version))
