"""What others do. Each script runs in a virtual environment of its own, with the pinned requirements that lie beside it."""
