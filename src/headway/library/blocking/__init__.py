"""The methods of the library for programs without an event loop. scripts/write_sync_library.py writes them from the others."""
