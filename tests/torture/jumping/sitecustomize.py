"""Python loads this before anything else where the folder is on its path: the time of day then jumps as a file says.

What a machine counts since it was started goes on as it does, as when somebody sets the clock.
"""

import mmap
import os
import struct
import time


def jump_with(path: str) -> None:
    with open(path, "rb") as file:
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    real = time.time_ns

    def time_ns() -> int:
        return real() + int(struct.unpack("<q", shared[:8])[0]) * 1_000_000_000

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if path := os.environ.get("JUMPING_CLOCK"):
    jump_with(path)
