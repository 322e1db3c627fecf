"""What `headway doctor` found about one part of the installation."""

from typing import Any, NamedTuple


class Finding(NamedTuple):
    name: str
    detail: str
    ok: bool = True
    warning: bool = False  # unusual, but not a fault
    call: dict[str, Any] | None = None  # the request that was made to try a model

    def to_document(self) -> dict[str, Any]:
        document = self._asdict()
        return document if self.call else {key: value for key, value in document.items() if key != "call"}
