"""What `headway doctor` found about one part of the installation."""

from typing import Any, NamedTuple


class Finding(NamedTuple):
    name: str
    detail: str
    ok: bool = True
    warning: bool = False  # unusual, but not a fault
    call: dict[str, Any] | None = None  # the request that was made to try a model
    cell: str = ""  # the cell that it is about

    def to_document(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if value or key not in ("call", "cell")}
