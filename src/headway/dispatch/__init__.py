"""External engines that dispatch jobs, each behind the port in `headway.engine.external`."""
