"""Headway for programs: the same typed methods, whether Headway runs inside the program or on a server."""
