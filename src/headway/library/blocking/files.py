"""Methods without `await`. Written by scripts/write_sync_library.py from namespaces/files.py."""

from collections.abc import Iterator

from headway.library.namespaces import files
from headway.library.portal import Portal
from headway.values.files import File, FileVersion
from headway.values.value import Page


class SyncFiles:
    """Lists and reads the files that agents wrote, with every version."""

    def __init__(self, portal: Portal, source: files.Files) -> None:
        self._portal = portal
        self._source = source

    def list(
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
        """List files, the last written first: all, or those of a turn, a goal, a sub-goal, a conversation or a role. `path` is a
        file or a folder; the words of `query` must all occur in the path."""
        return self._portal.run(
            self._source.list(
                query,
                turn_id=turn_id,
                goal_id=goal_id,
                sub_goal_id=sub_goal_id,
                conversation_id=conversation_id,
                role=role,
                path=path,
                limit=limit,
                cursor=cursor,
            )
        )

    def iterate(self, query: str = "", *, turn_id: str | None = None, goal_id: int | None = None) -> Iterator[File]:
        """Iterate over all files, or those of a turn or a goal, the last written first."""
        return self._portal.iterate(self._source.iterate(query, turn_id=turn_id, goal_id=goal_id))

    def get(self, file_id: str) -> File:
        """Return a file, or raise NotFound."""
        return self._portal.run(self._source.get(file_id))

    def versions(self, file_id: str) -> tuple[FileVersion, ...]:
        """List the versions of a file, the newest first."""
        return self._portal.run(self._source.versions(file_id))

    def read(self, file_id: str, version: int | None = None) -> bytes:
        """Return the content of a file: its newest version, or another one."""
        return self._portal.run(self._source.read(file_id, version))
