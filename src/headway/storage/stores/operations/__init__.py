"""SQL behind the operator's pages: the queue, the processes that work on it, and spending by day."""
