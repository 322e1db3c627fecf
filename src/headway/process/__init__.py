"""The composition of a process: the library's Headway, its host, and its housekeeping."""
