"""Work that starts by itself or has ended: schedules, webhooks, ends of runs, dead jobs."""
