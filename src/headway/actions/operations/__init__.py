"""What operators look at and change: the queue, the processes that work on it, and spending over time."""
