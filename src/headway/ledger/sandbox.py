"""What a program that an agent runs may reach and use."""

from typing import Final, Literal, NamedTuple, get_args

SandboxMode = Literal["auto", "off", "required"]

SANDBOX_MODES: Final[tuple[SandboxMode, ...]] = get_args(SandboxMode)
MEBIBYTE: Final = 2**20
MEMORY_MIB: Final = 2_048
PROCESSES: Final = 256


class Sandbox(NamedTuple):
    """The operator's settings, and what one call adds to them with `_replace`. All paths are absolute.

    A path inside another overrides it: a folder that is shown read-only can have a writable folder in it, and the reverse.
    """

    mode: SandboxMode = "auto"
    readable: tuple[str, ...] = ()  # files and folders that are shown besides the system's
    writable: tuple[str, ...] = ()  # the same, besides the folder that the program runs in
    hidden: tuple[str, ...] = ()  # folders that appear empty where one of the others contains them
    has_network: bool = False
    memory: int = MEMORY_MIB * MEBIBYTE  # bytes, of all processes together
    processes: int = PROCESSES
