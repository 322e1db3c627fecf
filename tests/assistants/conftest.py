"""The folder in which the tests run commands."""

from tests.surfaces.conftest import headway

__all__ = ["headway"]
